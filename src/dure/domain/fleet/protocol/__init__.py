"""What the centre and its members say to each other, as values; `dure.wire` puts them on the line.

The centre states a desired set for each cluster: an epoch (who leads), a revision (which set), and
the attempts that shall exist. It is a set, not commands: said twice it changes nothing, and what
is not in it shall not exist. A member refuses what is older than what it has seen.
"""
