"""Benches of containers in virtual time."""
