"""What can be done with each kind of row inside a transaction."""
