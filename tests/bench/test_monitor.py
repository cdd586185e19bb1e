"""The bench of the monitor: it looks at real processes and says what it found."""

import os
from pathlib import Path

import pytest

from dure.bench import monitor


def test_a_small_run_looks_at_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "PERIODS_NS", (250_000_000, 10_000_000))
    report = monitor.bench_monitor(processes=6, containers=3, looks=60, seconds=0.3)
    found = report.figures
    assert found["processes"] == 6
    assert len(found["look_ns"]) == len(found["look_cpu_ns"]) == 60
    assert all(took > 0 for took in found["look_ns"])
    assert set(found["core_share_by_period_ns"]) == {"250000000", "10000000"}
    if os.geteuid() == 0 and found["containers"]:
        assert found["containers"] == 3
    words = [verdict.claim for verdict in report.verdicts]
    assert "a look at 6 processes in" in words[0]


def test_it_leaves_nothing_behind() -> None:
    with monitor._crowd(4, 2) as (pids, groups):
        assert len(pids) == 4
        made = list(Path("/sys/fs/cgroup").glob(f"**/dure-bench-{os.getpid()}")) if groups else []
        assert bool(made) == bool(groups)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(folder.exists() for folder in made)
