"""Level 2 in virtual time: containers that share the GPUs of one host."""
