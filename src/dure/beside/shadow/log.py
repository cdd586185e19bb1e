"""The log of shadow mode: one SQLite file, bounded; written while watching, read by reports."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dure.beside.shadow.records import NodeRecord, PodRecord, Watched, WorkloadRecord
from dure.domain.errors import InputError
from dure.domain.fleet.slices import ShareMode
from dure.domain.units import NS_PER_S

VERSION = 1
MOST_PODS = 200_000
"""Some hundred megabytes; the oldest that have ended go first."""
_DROP = 1000
"""Pods forgotten at a time."""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (
    {", ".join(f'"{each.name}"' for each in fields(NodeRecord))}, PRIMARY KEY (cluster, name));
CREATE TABLE IF NOT EXISTS pods (
    {", ".join(f'"{each.name}"' for each in fields(PodRecord))}, PRIMARY KEY (uid));
CREATE TABLE IF NOT EXISTS workloads (
    {", ".join(f'"{each.name}"' for each in fields(WorkloadRecord))},
    PRIMARY KEY (cluster, namespace, name));
CREATE TABLE IF NOT EXISTS unread (uid TEXT PRIMARY KEY, why TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS pods_by_age ON pods (created_ns);
INSERT OR IGNORE INTO meta VALUES ('version', {VERSION});
COMMIT;
"""
"""All or nothing, since a report may be made at any moment."""


class ShadowLog:
    """One file; used by one thread at a time."""

    def __init__(self, file: Path, *, most_pods: int = MOST_PODS, new: bool = True) -> None:
        """`new`: to be written, and made where it is not there; else only to be read."""
        if not new and not file.exists():
            remedy = "watch first: dure shadow watch FILE"
            raise InputError("there is no such file", remedy, file=str(file))
        self._most_pods = most_pods
        self._writes = new
        try:
            if new:
                self._link = sqlite3.connect(file, check_same_thread=False)
                # So that a report can be made while it is written.
                self._link.execute("PRAGMA journal_mode = WAL")
                self._link.executescript(_SCHEMA)
            else:
                self._link = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            version = self._meta("version", VERSION)
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"is no log of `dure shadow` ({error})", "name another file", file=str(file)
            ) from error
        if version != VERSION:
            raise InputError(
                f"is a log of version {version}, this is {VERSION}",
                "use the `dure` that wrote it",
                file=str(file),
            )
        self._count = int(self._one("SELECT count(*) FROM pods"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        self._link.commit()
        self._link.close()

    # --- writing ---------------------------------------------------------------------------

    def put_nodes(self, nodes: Iterable[NodeRecord]) -> None:
        """Nodes as they are now."""
        rows = [_row(node) for node in nodes]
        marks = ", ".join("?" for _ in fields(NodeRecord))
        self._link.executemany(f"INSERT OR REPLACE INTO nodes VALUES ({marks})", rows)

    def put_pods(self, pods: Iterable[PodRecord]) -> None:
        """Pods as they are now."""
        marks = ", ".join("?" for _ in fields(PodRecord))
        rows = [_row(pod) for pod in pods]
        self._link.executemany(f"INSERT OR REPLACE INTO pods VALUES ({marks})", rows)
        self._count = int(self._one("SELECT count(*) FROM pods"))
        if self._count > self._most_pods:
            self._drop()

    def put_workloads(self, workloads: Iterable[WorkloadRecord]) -> None:
        """Workloads of Kueue; the oldest are forgotten as Pods are."""
        marks = ", ".join("?" for _ in fields(WorkloadRecord))
        rows = [_row(each) for each in workloads]
        self._link.executemany(f"INSERT OR REPLACE INTO workloads VALUES ({marks})", rows)
        self._link.execute(
            "DELETE FROM workloads WHERE rowid IN "
            "(SELECT rowid FROM workloads ORDER BY created_ns DESC LIMIT -1 OFFSET ?)",
            (self._most_pods,),
        )

    def put_unread(self, uid: str, why: str) -> None:
        """A Pod that asks for accelerators in a way that is not understood."""
        if self._one("SELECT count(*) FROM unread") < self._most_pods:
            self._link.execute("INSERT OR REPLACE INTO unread VALUES (?, ?)", (uid, why))

    def begin(self, now_ns: int) -> None:
        """It is watched from now on, if not before; in whole seconds, as clusters tell time."""
        self._meta("since_ns", now_ns // NS_PER_S * NS_PER_S)

    def tick(self, now_ns: int) -> None:
        """It is watched until now; all that was put so far is kept for good."""
        self._set_meta("until_ns", now_ns)
        self._link.commit()

    def _drop(self) -> None:
        """Forget the oldest that have ended; where none has, the oldest."""
        order = "ORDER BY ended_ns IS NULL, created_ns LIMIT ?"
        gone = self._link.execute(
            f"DELETE FROM pods WHERE uid IN (SELECT uid FROM pods {order})",
            (max(_DROP, self._count - self._most_pods),),
        ).rowcount
        self._set_meta("dropped", self._meta("dropped", 0) + gone)
        self._count -= gone

    # --- reading ---------------------------------------------------------------------------

    def watched(self) -> Watched:
        """All of it."""
        nodes = tuple(_node(row) for row in self._link.execute("SELECT * FROM nodes ORDER BY 1, 2"))
        pods = tuple(
            _pod(row) for row in self._link.execute("SELECT * FROM pods ORDER BY created_ns, uid")
        )
        why = self._link.execute("SELECT why, count(*) FROM unread GROUP BY why ORDER BY 2 DESC")
        return Watched(
            nodes,
            pods,
            self._meta("since_ns", 0),
            self._meta("until_ns", 0),
            self._meta("dropped", 0),
            tuple(WorkloadRecord(*row) for row in self._link.execute("SELECT * FROM workloads")),
            tuple((str(each), int(count)) for each, count in why),
        )

    def _one(self, query: str) -> Any:
        return self._link.execute(query).fetchone()[0]

    def _meta(self, key: str, otherwise: int) -> int:
        """A number that is kept; the other one is kept from now on where there is none."""
        if self._writes:
            self._link.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, otherwise))
        found = self._link.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return otherwise if found is None else int(found[0])

    def _set_meta(self, key: str, value: int) -> None:
        self._link.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _row(record: NodeRecord | PodRecord | WorkloadRecord) -> list[Any]:
    return [
        each.value
        if isinstance(each, ShareMode)
        else json.dumps(each)
        if isinstance(each, tuple)
        else each
        for each in astuple(record)
    ]


def _node(row: tuple[Any, ...]) -> NodeRecord:
    values = dict(zip((each.name for each in fields(NodeRecord)), row, strict=True))
    return NodeRecord(**(values | {"mode": ShareMode(values["mode"])}))


def _pod(row: tuple[Any, ...]) -> PodRecord:
    values = dict(zip((each.name for each in fields(PodRecord)), row, strict=True))
    return PodRecord(
        **(
            values
            | {
                "profiles": tuple(json.loads(values["profiles"])),
                "whole": bool(values["whole"]),
                "expected": bool(values["expected"]),
                "served": bool(values["served"]),
            }
        )
    )
