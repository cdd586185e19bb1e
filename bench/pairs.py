"""Writes docs/results/pairs.md: the H200 pairs, simulated next to measured.

Further options are those of `dure bench pairs`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "pairs", "--out", "docs/results/pairs.md", *sys.argv[1:]]
    main()
