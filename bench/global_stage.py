"""Writes docs/results/global.md: rounds of the global stage, cold and warm, and how they scale.

Further options are those of `dure bench global`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    page = ["--instance", "both", "--sweep", "--out", "docs/results/global.md"]
    sys.argv = ["dure", "bench", "global", *page, *sys.argv[1:]]
    main()
