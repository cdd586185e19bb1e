"""The start barrier: a folder that all containers see (its files: native/tenants/rounds.c)."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dure.domain.errors import DureError

_POLL_S = 0.002


class BarrierError(DureError):
    """Somebody did not come to the barrier, or did not come back."""


@dataclass(frozen=True, slots=True)
class Release:
    """A round that is on."""

    round: int
    at_ns: int
    """When, on the monotonic clock."""
    members: range


class Barrier:
    """Releases rounds and collects what the members of each did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.round = 0

    def await_ready(
        self, members: Sequence[int], limit_s: float, look: Callable[[], None] = lambda: None
    ) -> None:
        """Until they all stand there; `look` raises where one cannot come any more."""
        missing = self._await([f"ready-{index}" for index in members], limit_s, look)
        if missing:
            raise BarrierError(
                f"{len(missing)} containers did not come to the start within {limit_s:.0f} s",
                "look at their logs",
            )

    def release(self, members: range) -> Release:
        """Start a round for these members."""
        self.round += 1
        draft = self.folder / ".go"
        now_ns = time.monotonic_ns()
        words = (self.round, now_ns, members.start, members.stop - 1)
        draft.write_text(" ".join(map(str, words)) + "\n", encoding="utf-8")
        draft.rename(self.folder / "go")
        return Release(self.round, now_ns, members)

    def results(
        self, releases: Sequence[Release], limit_s: float, look: Callable[[], None] = lambda: None
    ) -> list[dict[str, Any]]:
        """What each member of these rounds did, in that order."""
        names = [f"done-{each.round}-{index}" for each in releases for index in each.members]
        missing = self._await(names, limit_s, look)
        if missing:
            raise BarrierError(
                f"{len(missing)} of {len(names)} containers were not done within {limit_s:.0f} s",
                "look at what the agent says of them",
            )
        return [json.loads((self.folder / name).read_text(encoding="utf-8")) for name in names]

    def quit(self) -> None:
        """Everybody may leave."""
        (self.folder / "quit").touch()

    def _await(self, names: list[str], limit_s: float, look: Callable[[], None]) -> list[str]:
        until_s = time.monotonic() + limit_s
        missing = names
        while missing and time.monotonic() < until_s:
            missing = [name for name in missing if not (self.folder / name).exists()]
            if missing:
                look()
                time.sleep(_POLL_S)
        return missing
