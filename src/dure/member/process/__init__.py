"""A cluster of local processes: nodes from a file, instances as programs of this host."""
