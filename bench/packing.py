"""Writes docs/results/packing.md: E-SP beside random, best-fit and FGD on every pod list.

Further options are those of `dure bench packing`; with `--data DIR` on the openb trace itself.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "packing", "--out", "docs/results/packing.md", *sys.argv[1:]]
    main()
