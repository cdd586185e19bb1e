"""Benches of level 3: one module per published figure, each run by `dure bench NAME`."""
