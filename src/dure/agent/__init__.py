"""The process on a host that shares its GPUs: one actor for each."""
