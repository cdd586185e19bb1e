"""Writes docs/results/containers.md: ways to share a GPU among containers, simulated.

Further options are those of `dure bench containers`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    page = "docs/results/containers.md"
    sys.argv = ["dure", "bench", "containers", "--out", page, *sys.argv[1:]]
    main()
