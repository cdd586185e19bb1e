"""Helpers that know nothing of GPUs and import nothing of Dure."""
