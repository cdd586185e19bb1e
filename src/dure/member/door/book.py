"""What people want of the fleet in this cluster, and what the centre has heard of it. No I/O.

Objects are their own outbox: one whose generation the centre has not stored is said to it, on every
link anew until it is. What has no object any more has a tombstone, kept in the member's memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.protocol.wishes import Standing, Wish
from dure.kube.resources import Object, ObjectKey, key_of, uid_of
from dure.member.door import wording
from dure.member.door.kinds import FINALIZER

ASK_AGAIN_S = 30.0
"""After which a job is wished for again that was refused for reasons that may pass."""
PENDING_S = 2.0
"""How long an answer may take before the object says that it is awaited."""


@dataclass(slots=True, eq=False)
class Entry:
    """One AcceleratorJob."""

    thing: Object
    seen_s: float
    """When it was first seen."""
    standing: Standing | None = None
    """The last answer to it."""
    stored: int = 0
    """Up to which generation the centre has it."""
    said: int = -1
    """The generation that was said on this link; -1: none."""
    said_s: float = 0.0

    @property
    def key(self) -> ObjectKey:
        """Its namespace and name."""
        return key_of(self.thing)

    @property
    def generation(self) -> int:
        """Counts its changes."""
        return int(self.thing["metadata"].get("generation", 0))

    @property
    def held(self) -> bool:
        """Whether it cannot go without us."""
        return FINALIZER in (self.thing["metadata"].get("finalizers") or ())

    @property
    def deleting(self) -> bool:
        """Whether somebody deleted it."""
        return "deletionTimestamp" in self.thing["metadata"]

    @property
    def status(self) -> dict[str, Any]:
        """As it is shown."""
        return dict(self.thing.get("status") or {})

    @property
    def over(self) -> bool:
        """Whether it shows how its job ended."""
        return self.status.get("phase") in wording.ENDS

    def wish(self, *, whole: bool) -> Wish:
        """It as a word to the centre."""
        namespace, name = self.key
        document = self.thing.get("spec") or {} if whole else {}
        return Wish(uid_of(self.thing), self.generation, namespace, name, document)

    def tombstone(self) -> Wish:
        """Its end as a word to the centre."""
        namespace, name = self.key
        return Wish(uid_of(self.thing), self.generation, namespace, name, withdrawn=True)


@dataclass(slots=True)
class DoorBook:
    """All of them."""

    entries: dict[str, Entry] = field(default_factory=dict)
    """By UID."""
    tombstones: dict[str, Wish] = field(default_factory=dict)
    """That are safe in memory, and of which the centre has not said that it knows."""
    _buried: set[str] = field(default_factory=set)
    """Of those, what was said on this link."""

    # What the cluster shows

    def put(self, thing: Object, now_s: float) -> Entry:
        """An object is there, new or changed."""
        uid = uid_of(thing)
        entry = self.entries.get(uid)
        if entry is None:
            entry = self.entries[uid] = Entry(thing, now_s)
            if entry.status.get("jobId"):
                entry.stored = int(entry.status.get("observedGeneration") or 0)
        entry.thing = thing
        return entry

    def gone(self, uid: str) -> Entry | None:
        """An object is there no more."""
        return self.entries.pop(uid, None)

    def bury(self, wishes: Iterable[Wish]) -> None:
        """Ends that are safe in memory: the centre is told until it knows."""
        for wish in wishes:
            self.tombstones[wish.uid] = wish

    # What the centre is told, and says

    def linked(self) -> None:
        """A new link: all that is not over is said on it once."""
        self._buried.clear()
        for entry in self.entries.values():
            entry.said = -1

    def wishes(self, now_s: float, most: int) -> list[Wish]:
        """What is to be said now; it counts as said."""
        made: list[Wish] = []
        for uid, wish in self.tombstones.items():
            if len(made) >= most:
                return made
            if uid not in self._buried:
                self._buried.add(uid)
                made.append(wish)
        for entry in self.entries.values():
            if len(made) >= most:
                break
            if self._is_due(entry, now_s):
                entry.said, entry.said_s = entry.generation, now_s
                made.append(entry.wish(whole=entry.stored < entry.generation))
        return made

    def _is_due(self, entry: Entry, now_s: float) -> bool:
        if not entry.held or entry.deleting or entry.over:
            return False
        if entry.said < entry.generation:
            return True
        refusal = entry.standing.refusal if entry.standing is not None else None
        passing = refusal is not None and not refusal.final
        return passing and now_s - entry.said_s >= ASK_AGAIN_S

    def hear(self, standing: Standing) -> Entry | None:
        """An answer; the entry that shows something else now, if any."""
        entry = self.entries.get(standing.uid)
        if entry is None:
            return None
        if not standing.job and standing.refusal is None and not standing.withdrawn:
            entry.stored, entry.said = 0, -1  # It does not know it: say it whole.
            return None
        entry.standing = standing
        if standing.job:
            entry.stored = max(entry.stored, standing.generation)
        return entry

    def known_gone(self, standings: Iterable[Standing]) -> list[str]:
        """Tombstones that the centre has stored; they are forgotten here."""
        known = [each.uid for each in standings if each.withdrawn and each.uid in self.tombstones]
        for uid in known:
            del self.tombstones[uid]
            self._buried.discard(uid)
        return known

    # What is shown

    def shown(self, entry: Entry, now_s: float) -> dict[str, Any]:
        """What of an object's status is to be written now; empty: nothing."""
        if entry.deleting:
            return {}
        before = entry.status
        if entry.standing is not None and not entry.standing.withdrawn:
            wanted = wording.answered(entry.standing, entry.generation, before, now_s)
            return wording.changes(wanted, before)
        if entry.standing is not None:
            return {} if entry.over else wording.changes(wording.forgotten(), before)
        if entry.stored or before.get("phase") or now_s - entry.seen_s < PENDING_S:
            return {}
        return wording.unanswered(entry.generation, before, now_s)
