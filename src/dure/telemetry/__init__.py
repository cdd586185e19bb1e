"""Foresight, pure: what is usual in a series, what is coming, and which promise is at risk."""
