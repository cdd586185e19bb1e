"""Writes docs/results/monitor.md: what it costs to watch containers.

Further options are those of `dure bench monitor`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "monitor", "--out", "docs/results/monitor.md", *sys.argv[1:]]
    main()
