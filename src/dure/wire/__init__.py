"""How values cross the line between the centre and its members, and how they are kept as data."""
