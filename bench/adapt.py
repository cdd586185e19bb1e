"""Writes docs/results/adapt.md: policies that are switched while the mix changes.

Further options are those of `dure bench adapt`; every run is kept in out/adapt, to be emptied
when the code changed.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    kept = ["--shards", "out/adapt", "--out", "docs/results/adapt.md"]
    sys.argv = ["dure", "bench", "adapt", *kept, *sys.argv[1:]]
    main()
