"""Benches that run real programs on a real or emulated GPU."""
