"""Shadow mode: what another scheduler decided, and what Dure would have; nothing is touched."""
