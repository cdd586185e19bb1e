"""Writes docs/results/speed.md: speed of the simulator.

Further options are those of `dure bench speed`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "speed", "--out", "docs/results/speed.md", *sys.argv[1:]]
    main()
