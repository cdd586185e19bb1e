"""Writes docs/results/mixes.md: policies beside baselines on made mixes.

Further options are those of `dure bench mixes`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "mixes", "--out", "docs/results/mixes.md", *sys.argv[1:]]
    main()
