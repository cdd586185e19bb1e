"""The log gives back what was put there, stays bounded, and refuses files that are not its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from dure.beside.shadow.log import ShadowLog
from dure.beside.shadow.records import WorkloadRecord
from dure.domain.errors import InputError
from tests.beside.shadow.logs import START_NS, node, pod


def test_what_was_put_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "shadow.db"
    nodes, pods = [node("dear", "a")], [pod("one", "a"), pod("two", gang="pair")]
    workload = WorkloadRecord("dear", "team", "w", START_NS)
    with ShadowLog(file) as log:
        log.put_nodes(nodes)
        log.put_pods(pods)
        log.put_workloads([workload])
        log.put_unread("x", "it asks for the moon")
        log.begin(START_NS + 3)
        log.begin(START_NS + 10**12)
        log.tick(START_NS + 5)
    with ShadowLog(file, new=False) as log:
        found = log.watched()
    assert list(found.nodes) == nodes
    assert sorted(found.pods, key=lambda each: each.uid) == pods
    assert (found.since_ns, found.until_ns) == (START_NS, START_NS + 5)
    assert found.workloads == (workload,)
    assert found.unread == (("it asks for the moon", 1),)


def test_the_same_pod_is_kept_once_as_it_last_was(tmp_path: Path) -> None:
    with ShadowLog(tmp_path / "shadow.db") as log:
        waiting = pod("one")
        log.put_pods([waiting])
        log.put_pods([replace(waiting, node="a", bound_ns=START_NS)])
        [found] = log.watched().pods
    assert found.node == "a"


def test_the_oldest_that_have_ended_are_forgotten_first(tmp_path: Path) -> None:
    with ShadowLog(tmp_path / "shadow.db", most_pods=1500) as log:
        log.put_pods([pod("runs", "a", hours=None)])
        log.put_pods([pod(f"p-{n}", "a", came_h=n + 1.0) for n in range(1600)])
        found = log.watched()
    assert len(found.pods) == 601
    assert found.dropped == 1000
    assert found.pods[0].uid == "runs"


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello" * 300)
    with pytest.raises(InputError, match="is no log"):
        ShadowLog(file)
    with pytest.raises(InputError, match="no such file"):
        ShadowLog(tmp_path / "missing.db", new=False)
