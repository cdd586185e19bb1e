"""Containers that share one GPU: real Docker, a real or emulated GPU, every way of sharing."""
