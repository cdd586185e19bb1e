"""Writes docs/results/elastic.md: services that follow their load.

Further options are those of `dure bench elastic`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "elastic", "--out", "docs/results/elastic.md", *sys.argv[1:]]
    main()
