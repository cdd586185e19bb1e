"""Links to the members of clusters; every server has some."""
