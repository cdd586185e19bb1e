"""The nouns every level of Dure shares; standard library and numpy only."""
