"""Writes docs/results/telemetry.md: what measuring costs an agent.

Further options are those of `dure bench telemetry`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "telemetry", "--out", "docs/results/telemetry.md", *sys.argv[1:]]
    main()
