"""Runs the last hour's work again in virtual time, by the same code, under another policy."""
