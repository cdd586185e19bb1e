"""Writes docs/results/fleet.md: a month under Dure, its baselines and the offline bound.

Further options are those of `dure bench fleet`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "fleet", "--out", "docs/results/fleet.md", *sys.argv[1:]]
    main()
