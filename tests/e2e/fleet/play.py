"""What people do to a fleet while it suffers: submit by both doors, and cancel."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import yaml

from dure.api.jobs import JobSpec
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.fleet.centre import Centre
from tests.e2e.fleet.manifest import Entry, Hand
from tests.e2e.fleet.sights import Witness

_FILE_JOBS = 8
"""Entries in one file for the command line."""


class Play:
    """The manifest on its way; one thread for each door, one for hands."""

    def __init__(
        self, centre: Centre, entries: Sequence[Entry], witness: Witness, folder: Path
    ) -> None:
        self._centre = centre
        self._witness = witness
        self._folder = folder
        self._lock = Lock()
        # Every fifth goes by the command line.
        self._by_rest = [entry for number, entry in enumerate(entries) if number % 5]
        self._by_cli = [entry for number, entry in enumerate(entries) if number % 5 == 0]
        self.ids: dict[str, Entry] = {}
        """Jobs that the centre took, with what they were submitted as."""
        self._handled: set[str] = set()
        self._pause_s = 0.0
        self.submitted_s: float | None = None
        """How long it took to submit everything."""

    def submit_all_in(self, over_s: float) -> None:
        """Spread what goes by REST over a time."""
        self._pause_s = over_s / max(1, len(self._by_rest))

    def by_rest(self) -> None:
        """Submit one entry after the other."""
        began_s = time.monotonic()
        with self._centre.client() as client:
            for number, entry in enumerate(self._by_rest):
                time.sleep(max(0.0, began_s + number * self._pause_s - time.monotonic()))
                spec = JobSpec.model_validate_json(json.dumps(entry.spec))
                self._took(entry, client.do(calls.submit(spec, f"rest-{entry.name}")).ids)
        self.submitted_s = time.monotonic() - began_s

    def by_cli(self) -> None:
        """Submit files of several, one after the other."""
        files = [
            self._by_cli[first : first + _FILE_JOBS]
            for first in range(0, len(self._by_cli), _FILE_JOBS)
        ]
        began_s = time.monotonic()
        every_s = self._pause_s * len(self._by_rest) / max(1, len(files))
        for number, entries in enumerate(files):
            time.sleep(max(0.0, began_s + number * every_s - time.monotonic()))
            file = self._folder / f"jobs-{number}.yaml"
            file.write_text(yaml.safe_dump_all([entry.spec for entry in entries]), encoding="utf-8")
            ids = self._centre.submit_files(file, f"cli-{number}")
            for entry in entries:
                self._took(entry, ids[: entry.count])
                ids = ids[entry.count :]

    def _took(self, entry: Entry, ids: Sequence[str]) -> None:
        assert len(ids) == entry.count, f"{entry.name}: {len(ids)} jobs for {entry.count}"
        with self._lock:
            for job in ids:
                self.ids[job] = entry
                if entry.exclusive:
                    self._witness.exclusive.add(job)

    def jobs(self) -> dict[str, Entry]:
        """Those that were taken until now."""
        with self._lock:
            return dict(self.ids)

    def cancel_some(self) -> None:
        """Cancel whatever is to be cancelled while things go on."""
        phases = {Hand.CANCEL_QUEUED: JobPhase.QUEUED, Hand.CANCEL_RUNNING: JobPhase.RUNNING}
        todo = {
            job: phases[entry.hand]
            for job, entry in self.jobs().items()
            if entry.hand in phases and job not in self._handled
        }
        if not todo:
            return
        with self._centre.client() as client:
            for job, phase in todo.items():
                if client.do(calls.get_job(job)).phase is phase:
                    client.do(calls.cancel_job(job))
                    self._handled.add(job)

    def cancel_rest(self) -> None:
        """Cancel what was to run until the end."""
        with self._centre.client() as client:
            for job, entry in self.jobs().items():
                if entry.hand is Hand.CANCEL_AT_END:
                    client.do(calls.cancel_job(job))
