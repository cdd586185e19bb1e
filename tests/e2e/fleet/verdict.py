"""Whether everything came out right: ends, doubles, losses, and desired against observed."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from tests.e2e.fleet.centre import Centre
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.manifest import Entry, Hand

HOLDS_S = 5.0
"""How long what is desired and what is observed must agree,"""
WITHIN_S = 30.0
"""and by when they must have begun to, after the last killed process is ready."""
_LOOK_S = 0.5


def differences(fleet: Fleet) -> list[str]:
    """Where what the centre wants and what is there differ; empty: nowhere."""
    found: list[str] = []
    wanted: dict[str, dict[tuple[str, int], str]] = {bed.name: {} for bed in fleet.beds}
    for row in fleet.centre.rows(
        "SELECT job_id, attempt, cluster, state FROM attempts WHERE state <> 'gone'"
    ):
        wanted[row["cluster"]][row["job_id"], row["attempt"]] = row["state"]
    for row in fleet.centre.rows("SELECT * FROM clusters"):
        accepted = (row["accepted_epoch"], row["accepted_revision"])
        if accepted != (row["desired_epoch"], row["desired_revision"]):
            found.append(f"{row['name']} has not accepted the newest plan")
    for bed in fleet.beds:
        sights = bed.watch.now()
        if sights is None:
            found.append(f"{bed.name} cannot be seen")
            continue
        there = {sight.key for sight in sights if sight.running}
        runs = {key for key, state in wanted[bed.name].items() if state == "running"}
        found += [f"{bed.name}: {key} shall run and does not" for key in sorted(runs - there)]
        found += [f"{bed.name}: {key} runs and shall not" for key in sorted(there - runs)]
        settled = {AttemptState.RUNNING.value, AttemptState.COMMITTED.value}
        found += [
            f"{bed.name}: {key} is {state}"
            for key, state in wanted[bed.name].items()
            if state not in settled
        ]
    return found


def converge(fleet: Fleet, limit_s: float = WITHIN_S) -> float:
    """Seconds until desired and observed began to agree, for long enough; fails past the limit."""
    began_s = time.monotonic()
    agreed_s: float | None = None
    last: list[str] = []
    while True:
        now_s = time.monotonic()
        different = differences(fleet)
        if different:
            agreed_s, last = None, different
        elif agreed_s is None:
            agreed_s = now_s
        if agreed_s is not None and now_s - agreed_s >= HOLDS_S:
            return agreed_s - began_s
        late = (agreed_s or now_s) - began_s > limit_s
        assert not late, f"after {limit_s:g} s: {len(last)} differences, {last[:8]}"
        time.sleep(_LOOK_S)


@dataclass
class Verdict:
    """What became of the jobs."""

    wrong: dict[str, str] = field(default_factory=dict)
    """Jobs that did not end as expected, and how they are."""
    lost: list[str] = field(default_factory=list)
    """Jobs that the centre took and does not know, or that never ended."""
    twice: list[str] = field(default_factory=list)
    """Jobs with two accepted completions."""
    ends: Counter[str] = field(default_factory=Counter)
    attempts: int = 0


def unfinished(centre: Centre, jobs: Mapping[str, Entry]) -> list[str]:
    """Jobs that have yet to end by themselves."""
    ends = [phase.value for phase in JobPhase if phase.ended]
    rows = centre.rows("SELECT id FROM jobs WHERE NOT phase = ANY(%s)", ends)
    live = {row["id"] for row in rows}
    return [job for job in live if jobs[job].hand is not Hand.CANCEL_AT_END]


def judge(centre: Centre, jobs: Mapping[str, Entry]) -> Verdict:
    """Compare the database with the manifest."""
    made = Verdict()
    rows = {row["id"]: row for row in centre.rows("SELECT * FROM jobs")}
    attempts = Counter(row["job_id"] for row in centre.rows("SELECT job_id FROM attempts"))
    made.attempts = sum(attempts.values())
    done = centre.rows(
        "SELECT subject, count(*) AS times FROM events WHERE kind = 'attempt.gone'"
        " AND data->>'outcome' = 'succeeded' GROUP BY subject"
    )
    made.twice = [row["subject"] for row in done if row["times"] > 1]
    for job, entry in jobs.items():
        row = rows.get(job)
        if row is None or not JobPhase(row["phase"]).ended:
            made.lost.append(f"{entry.name} ({job}): {row and row['phase']}")
            continue
        made.ends[row["phase"]] += 1
        why = _wrong(entry, row["phase"], row["failures"], attempts[job])
        if why:
            made.wrong[job] = f"{entry.name}: {why}; {row['reason']}"
    for job in rows.keys() - jobs.keys():
        made.wrong[job] = "nobody submitted it"
    return made


def _wrong(entry: Entry, phase: str, failures: int, attempts: int) -> str:
    if phase != entry.end.value:
        return f"{phase}, not {entry.end.value}"
    if entry.failures is not None and failures != entry.failures:
        return f"failed {failures} times, not {entry.failures}"
    if entry.attempts is not None and attempts > entry.attempts:
        return f"{attempts} attempts, not {entry.attempts}"
    return ""


def story(centre: Centre, job: str) -> str:
    """All that the centre wrote down about a job, for whoever looks for what went wrong."""
    rows = centre.rows(
        "SELECT to_timestamp(at_ns / 1e9)::time AS at, kind, data FROM events"
        " WHERE subject = %s ORDER BY seq",
        job,
    )
    lines = [f"  {row['at']} {row['kind']} {row['data']}" for row in rows]
    return "\n".join([job, *lines])


def repeated(journal: Path, jobs: Mapping[str, Entry]) -> dict[str, str]:
    """Jobs of which a program of the host ran to its end more than once.

    One that may be started elsewhere when its cluster is silent may have been done there unheard.
    """
    if not journal.exists():
        return {}
    lines = Counter(
        (job, rank)
        for job, _, rank, what in map(str.split, journal.read_text().splitlines())
        if what == "done" and "onClusterLost" not in jobs[job].spec
    )
    return {job: f"rank {rank} {times} times" for (job, rank), times in lines.items() if times > 1}
