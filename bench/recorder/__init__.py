"""Holds the parts of `bench/record_kernels.py`, one job a module."""
