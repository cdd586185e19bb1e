"""Writes docs/results/search.md: loss of the bounded search for squads.

Further options are those of `dure bench search`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "search", "--out", "docs/results/search.md", *sys.argv[1:]]
    main()
