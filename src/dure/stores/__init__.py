"""Adapters that keep the centre's state (SQLite, PostgreSQL) and carry its hints (bus)."""
