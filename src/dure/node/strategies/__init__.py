"""Ways to decide who waits, behind one Protocol."""
