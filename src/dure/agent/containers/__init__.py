"""Containers on this host: who watches them, who pauses them, who lets them go."""
