"""Writes docs/results/risk.md: risks seen before violations, and weights that follow.

Further options are those of `dure bench risk`; `--data` names the folder with recorded series.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "risk", "--out", "docs/results/risk.md", *sys.argv[1:]]
    main()
