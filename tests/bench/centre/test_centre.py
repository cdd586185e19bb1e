"""`dure bench centre` on a small scale: real processes, and figures that can be true."""

import os

import pytest

from dure.bench.centre.procfs import Shares, cpu_s, memory
from dure.bench.centre.run import PAGES, PODS, SUBMITS, Wanted, bench_centre
from dure.domain.errors import InputError
from dure.sim.benches.report import silent


@pytest.mark.slow
def test_submissions_are_counted_that_were_answered() -> None:
    wanted = Wanted(parts=(SUBMITS,), seconds=1.0, clients=(2,))
    found = bench_centre(wanted, silent).figures[SUBMITS]["SQLite-2"]
    assert found["per_s"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["server_cpu_ms"] > 0


@pytest.mark.slow
def test_a_server_takes_all_live_jobs_over_and_shows_pages_of_all() -> None:
    report = bench_centre(Wanted(parts=(PAGES,), jobs=300, live=40, looks=3), silent)
    found = report.figures[PAGES]["SQLite"]
    assert found["taken_over"] == 40
    assert found["end_memory"]["peak_bytes"] >= found["end_memory"]["now_bytes"] > 0
    assert set(found["pages_s"]) == {"first", "last"}
    assert len(report.verdicts) == 3


def test_pods_without_a_cluster_are_refused() -> None:
    with pytest.raises(InputError, match="--kubeconfig"):
        bench_centre(Wanted(parts=(PODS,)), silent)


def test_processor_time_is_that_of_the_process() -> None:
    shares = Shares({"this": os.getpid(), "gone": 2**22 + 1})
    before_s = cpu_s(os.getpid())
    while cpu_s(os.getpid()) < before_s + 0.1:
        pass
    taken_s = shares.taken_s()
    assert taken_s["this"] >= 0.05
    assert taken_s["gone"] == 0.0
    assert memory(os.getpid()).now_bytes > 2**20
