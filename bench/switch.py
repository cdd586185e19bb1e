"""Writes docs/results/switch.md: policy switches while work runs.

Further options are those of `dure bench switch`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "switch", "--out", "docs/results/switch.md", *sys.argv[1:]]
    main()
