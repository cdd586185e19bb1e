"""Writes docs/results/moves.md: requests to a service that moves between clusters.

Further options are those of `dure bench moves`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "moves", "--out", "docs/results/moves.md", *sys.argv[1:]]
    main()
