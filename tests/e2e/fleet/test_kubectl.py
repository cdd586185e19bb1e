"""Jobs by kubectl in three clusters while the centre is killed twice: each ends once, as expected.

What is deleted while the centre is away goes at once and stays away, also what it never heard of.
`DURE_KUBECTL_JOBS` makes the run smaller.
"""

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.client.fleet import calls
from tests.e2e.fleet.beds import NAMESPACE, TENANT, KubernetesBed
from tests.e2e.fleet.conftest import MakeFleet
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.parts import background, wait_for
from tests.e2e.fleet.sights import Witness
from tests.e2e.fleet.verdict import converge, story
from tests.kube.cluster import KubeCluster
from tests.kube.programs import ROOT, kube_programs

pytestmark = [pytest.mark.fleet, pytest.mark.kube, pytest.mark.services, pytest.mark.timeout(1800)]

JOBS = int(os.environ.get("DURE_KUBECTL_JOBS", "300"))
CLUSTERS = ("east", "north", "west")
SCALED = {"lease_ttl_s": 1.0, "lost_after_s": 10.0, "silence_s": 3.0, "ping_s": 0.5}
AWAY_S = 10.0
"""How long the centre is away each time, at least."""
PROMISE_S = 10.0
"""Within which a deletion returns, on a busy machine; alone it takes a fraction of a second."""


class End(Enum):
    """What shall become of a job."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class Sheet:
    """One job of the test."""

    name: str
    bed: KubernetesBed
    end: End
    turn: int
    """In which of the portions it is applied."""

    def thing(self) -> dict[str, Any]:
        """As a person writes it."""
        notes = {}
        if self.end is not End.DELETED:
            code = "1" if self.end is End.FAILED else "0"
            notes = {"paper.dure.test/runs-for": "2s", "paper.dure.test/exit-code": code}
        return {
            "apiVersion": "dure.io/v1",
            "kind": "AcceleratorJob",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "kind": "batch",
                "image": "paper",
                "grace": "1s",
                "work": {"time": "1m"},
                "resources": {"memory": "1GiB"},
                "annotations": notes,
            },
        }


def _kubectl(bed: KubernetesBed, *words: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(kube_programs()["kubectl"]), "--kubeconfig", str(bed.cluster.kubeconfig), *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def fleet(make_fleet: MakeFleet, folder: Path) -> Fleet:
    """Two servers and three clusters with Dure's kinds."""
    beds = []
    for name in CLUSTERS:
        bed = KubernetesBed(name, folder, KubeCluster())
        bed.prepare(nodes=2)
        _kubectl(bed, "apply", "-f", str(ROOT / "deploy" / "crds"))
        beds.append(bed)
    made = make_fleet(beds, **SCALED)
    with made.centre.client() as client:
        for bed in beds:
            known = client.do(calls.get_cluster(bed.name))
            bound = known.spec.model_copy(update={"namespaces": {TENANT: NAMESPACE}})
            client.do(calls.put_cluster(bed.name, bound, known.revision))
    for bed in beds:
        wait_for(f"the door of {bed.name} is open", partial(_is_open, bed))
    return made


def _is_open(bed: KubernetesBed) -> bool:
    return "the door for kubectl is open" in bed.member.said()


def _beds(fleet: Fleet) -> list[KubernetesBed]:
    return [bed for bed in fleet.beds if isinstance(bed, KubernetesBed)]


TURNS = 4
"""Before the first outage, in it, between the two, and in the second."""


def _sheets(fleet: Fleet, seed: int) -> list[Sheet]:
    chance = random.Random(seed)
    ends = [End.SUCCEEDED] * 7 + [End.FAILED] + [End.DELETED] * 2
    made = []
    for number in range(JOBS):
        bed = _beds(fleet)[number % len(fleet.beds)]
        # All that is deleted is so in the second outage, some of it just after it was applied.
        made.append(Sheet(f"job-{number}", bed, chance.choice(ends), chance.randrange(TURNS)))
    return made


def _apply(sheets: Iterable[Sheet]) -> None:
    by_bed: dict[str, list[Sheet]] = {}
    for sheet in sheets:
        by_bed.setdefault(sheet.bed.name, []).append(sheet)
    with ThreadPoolExecutor(len(CLUSTERS)) as hands:
        list(hands.map(_apply_all, by_bed.values()))


def _apply_all(sheets: Sequence[Sheet]) -> None:
    text = yaml.safe_dump_all([sheet.thing() for sheet in sheets])
    _kubectl(sheets[0].bed, "apply", "-f", "-", stdin=text)


def _delete(sheets: Sequence[Sheet]) -> list[float]:
    """Delete jobs one by one, each to its end; how long each took."""
    with ThreadPoolExecutor(len(CLUSTERS)) as hands:
        return list(hands.map(_delete_one, sheets))


def _delete_one(sheet: Sheet) -> float:
    began_s = time.monotonic()
    _kubectl(sheet.bed, "delete", "ajob", sheet.name, "-n", NAMESPACE, "--wait=true")
    return time.monotonic() - began_s


def _kill(fleet: Fleet) -> None:
    for part in fleet.centre.servers:
        part.kill()


def _return(fleet: Fleet, since_s: float) -> None:
    time.sleep(max(0.0, since_s + AWAY_S - time.monotonic()))
    for part in fleet.centre.servers:
        part.start()
    wait_for("the centre is back", lambda: all(part.is_ready for part in fleet.centre.servers))


def _shown(bed: KubernetesBed) -> dict[str, dict[str, Any]]:
    found = json.loads(_kubectl(bed, "get", "ajob", "-n", NAMESPACE, "-o", "json"))
    return {thing["metadata"]["name"]: thing for thing in found["items"]}


def test_jobs_by_kubectl_end_once_as_expected_while_the_centre_is_killed_twice(
    fleet: Fleet, seed: int, summarise: Callable[[Any], None]
) -> None:
    sheets = _sheets(fleet, seed)
    turns = [[sheet for sheet in sheets if sheet.turn == turn] for turn in range(TURNS)]
    stray = [sheet for sheet in sheets if sheet.end is End.DELETED]
    witness = Witness(tuple(bed.watch.scene for bed in fleet.beds))

    def look() -> None:
        seen = {sight.key[0] for scene in witness.scenes for sight in scene.sights()}
        witness.exclusive |= seen  # all of them are batch jobs
        witness.look()

    took_s: list[float] = []
    with background("witness", look, 0.2):
        for turn in (1, 3):
            _apply(turns[turn - 1])
            wait_for("the centre has them", partial(_all_stored, fleet, turns[turn - 1]))
            began_s = time.monotonic()
            _kill(fleet)
            _apply(turns[turn])
            if turn == 3:
                took_s += _delete(stray)
                left = [sheet.name for sheet in stray if sheet.name in _shown(sheet.bed)]
                assert not left, f"deleted and there: {left}"
            _return(fleet, began_s)
        began_s = time.monotonic()
        wait_for("all others have ended", lambda: not _unfinished(fleet), limit_s=900.0)
        ended_s = time.monotonic() - began_s
        converge(fleet)
    figures = _judged(fleet, sheets) | {
        "seed": seed,
        "all_ended_after_s": round(ended_s, 1),
        "deletes": len(took_s),
        "slowest_delete_s": round(max(took_s), 2),
    }
    print(f"fleet: kubectl {figures}")  # noqa: T201
    summarise(figures)
    assert max(took_s) <= PROMISE_S, took_s
    assert not witness.doubled, witness.doubled


def _all_stored(fleet: Fleet, sheets: Iterable[Sheet]) -> bool:
    things = {bed.name: _shown(bed) for bed in _beds(fleet)}
    found = [things[sheet.bed.name].get(sheet.name, {}) for sheet in sheets]
    return all((thing.get("status") or {}).get("jobId") for thing in found)


_ENDS = ("Succeeded", "Failed", "Cancelled", "Refused")


def _unfinished(fleet: Fleet) -> list[str]:
    return [
        name
        for bed in _beds(fleet)
        for name, thing in _shown(bed).items()
        if (thing.get("status") or {}).get("phase") not in _ENDS
    ]


def _judged(fleet: Fleet, sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Compare objects and the centre's books with what was wanted."""
    rows = fleet.centre.rows(
        "SELECT o.cluster, o.name, o.uid, o.withdrawn_ns, j.id, j.phase FROM origins o"
        " LEFT JOIN jobs j ON j.id = o.job_id"
    )
    books = {(row["cluster"], row["name"]): row for row in rows}
    assert len(books) == len(rows) == len(sheets), "every object is known once"
    ids = [row["id"] for row in rows if row["id"] is not None]
    (count,) = fleet.centre.rows("SELECT count(*) AS jobs FROM jobs")
    assert count["jobs"] == len(set(ids)) == len(ids), "no job without an object, none doubled"
    ends: Counter[str] = Counter()
    things = {bed.name: _shown(bed) for bed in _beds(fleet)}
    for sheet in sheets:
        row, thing = books[sheet.bed.name, sheet.name], things[sheet.bed.name].get(sheet.name)
        told = story(fleet.centre, row["id"] or "")
        if sheet.end is End.DELETED:
            assert thing is None, f"{sheet.name} is there"
            assert row["withdrawn_ns"] is not None, told
            assert row["phase"] in (None, "cancelled"), told
            ends["never a job" if row["phase"] is None else "cancelled"] += 1
            continue
        assert thing is not None, f"{sheet.name} is not there"
        assert thing["status"]["phase"] == sheet.end.value, told
        assert row["phase"] == sheet.end.value.lower(), told
        ends[row["phase"]] += 1
    done = fleet.centre.rows(
        "SELECT subject FROM events WHERE kind = 'attempt.gone'"
        " AND data->>'outcome' = 'succeeded' GROUP BY subject HAVING count(*) > 1"
    )
    assert not done, done
    running = [sight.key for bed in fleet.beds for sight in bed.watch.now() or () if sight.running]
    assert not running, running
    return {"jobs": len(sheets), "never a job": 0, **ends}
