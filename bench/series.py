"""Writes docs/results/series.md: what the embedded store of series takes and gives.

Further options are those of `dure bench series`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "series", "--out", "docs/results/series.md", *sys.argv[1:]]
    main()
