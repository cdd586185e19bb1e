"""Writes docs/results/week.md: seven days of a large fleet, by wall time and memory.

Further options are those of `dure bench week`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "week", "--out", "docs/results/week.md", *sys.argv[1:]]
    main()
