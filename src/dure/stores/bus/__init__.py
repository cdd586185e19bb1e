"""Hints that something changed: carried at most once, since the database is the truth.

Topics are words joined by dots. A pattern may have `*` for one word and end in `>` for the rest.
"""
