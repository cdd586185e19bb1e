"""Writes docs/results/decide.md: time of a decision.

Further options are those of `dure bench decide`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "decide", "--out", "docs/results/decide.md", *sys.argv[1:]]
    main()
