"""Writes docs/results/node.md and its plot from the shards measured on a GPU.

Shards are measured by `dure bench node` on a machine with a GPU and kept in out/node; further
options are those of `dure bench node`.
"""

import sys

from dure.cli.main import main

if __name__ == "__main__":
    sys.argv = ["dure", "bench", "node", "--merge", *sys.argv[1:]]
    main()
