"""Level 1 in virtual time: a modelled GPU, its tenants' programs, and ways to share it."""
