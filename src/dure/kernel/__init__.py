"""Level 1: which tenants' kernels run on one accelerator next, and where. Pure."""
