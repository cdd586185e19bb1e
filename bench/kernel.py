"""Writes docs/results/kernel.md and its plot from the shards measured on a GPU.

Shards are measured by `dure bench kernel` on a machine with a GPU and kept in out/kernel; further
options are those of `dure bench kernel`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "kernel", "--merge", *sys.argv[1:]]
    main()
