"""Level 2: which containers of a host may use its GPUs now, and which wait."""
