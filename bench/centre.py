"""Writes docs/results/centre.md: the centre under load, from submissions to Pods.

Starts the Kubernetes and the PostgreSQL of the tests where they are there and leaves out what is
not. Further options are those of `dure bench centre`.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dure.cli.main import main  # noqa: E402
from tests.kube.cluster import KubeCluster  # noqa: E402
from tests.stores.services import Postgres  # noqa: E402


@contextlib.contextmanager
def _kubernetes() -> Iterator[dict[str, str]]:
    """Variables that name a cluster and its processes."""
    cluster = KubeCluster()
    try:
        cluster.start()
        named = " ".join(f"{program.name}={program.pid}" for program in cluster.programs)
        yield {"DURE_BENCH_KUBECONFIG": str(cluster.kubeconfig), "DURE_BENCH_PROCESSES": named}
    finally:
        cluster.close()


@contextlib.contextmanager
def _postgresql() -> Iterator[dict[str, str]]:
    """A variable that names a server."""
    server = Postgres()
    try:
        server.start()
        yield {"DURE_BENCH_POSTGRESQL": server.address("postgres")}
    finally:
        server.close()


def _run() -> None:
    wanted = ["submits", "pages", "pods"]
    with contextlib.ExitStack() as stack:
        for part, thing in (("pods", _kubernetes), ("", _postgresql)):
            try:
                os.environ |= stack.enter_context(thing())
            except pytest.skip.Exception as reason:
                print(f"left out: {reason}", file=sys.stderr)
                wanted = [one for one in wanted if one != part]
        page = ["--out", "docs/results/centre.md", "--part", ",".join(wanted)]
        sys.argv = ["dure", "bench", "centre", *page, *sys.argv[1:]]
        main()


if __name__ == "__main__":
    _run()
