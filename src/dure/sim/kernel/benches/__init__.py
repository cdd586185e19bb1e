"""Benches: one module per published figure, each run by `dure bench NAME`."""
