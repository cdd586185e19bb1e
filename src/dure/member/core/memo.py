"""What a member must not forget, as entries of plain data, and how it is read again."""

from collections.abc import Mapping
from typing import Any

from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Surroundings
from dure.domain.fleet.protocol.reports import Outcome, Sizing
from dure.member.core.contact import Kept
from dure.member.core.desires import DesiredSet
from dure.member.core.held import Ended, Held
from dure.wire.plain import pack, unpack

HEAD = "plan"
SURROUNDINGS = "surroundings"
_ATTEMPT = "attempt"


def name_of(key: AttemptKey) -> str:
    """The name of an attempt's entry."""
    return f"{_ATTEMPT}/{key.job}/{key.attempt}"


def head(desires: DesiredSet, contact: Kept) -> dict[str, Any]:
    """The entry of what plan was taken last, and when the centre last heard of this member."""
    return {
        "epoch": desires.epoch,
        "revision": desires.revision,
        "contact_ns": contact.at_ns,
        "contact_host_ns": contact.host_ns,
    }


def surroundings(around: Surroundings) -> dict[str, Any]:
    """The entry of what the centre said of the surroundings."""
    return pack(around)


def entry(held: Held) -> dict[str, Any]:
    """The entry of an attempt in the desired set."""
    assert held.desired is not None
    made: dict[str, Any] = {
        "desired": pack(held.desired),
        "losses": held.losses,
        "saved_share": held.saved_share,
    }
    moves = {
        hand.id.index: hand.replaces.id.index
        for hand in held.hands.values()
        if hand.replaces is not None
    }
    if moves:
        made["moves"] = [list(move) for move in moves.items()]
    if held.sizing is not None:
        size = held.sizing  # what was heard of its load is not kept: it is old by then
        made["size"] = [size.serving, size.standby, size.level, size.why, size.changed_ns]
    if held.started_ns is not None:
        made["started_ns"] = held.started_ns
    if held.end is not None:
        end = held.end
        made["end"] = {
            "outcome": end.outcome.value,
            "why": end.why,
            "at_ns": end.at_ns,
            "exit_code": end.exit_code,
        }
    return made


def read_head(entries: Mapping[str, Any]) -> tuple[DesiredSet, Kept | None]:
    """The desired set with its attempts, and the last contact; nothing where nothing is kept."""
    found = entries.get(HEAD)
    if found is None:
        return DesiredSet(), None
    desires = DesiredSet(int(found["epoch"]), int(found["revision"]))
    at_ns = int(found["contact_ns"])  # of earlier versions alone: taken for the host's calendar
    return desires, Kept(at_ns, int(found.get("contact_host_ns", at_ns)))


def read_surroundings(entries: Mapping[str, Any]) -> Surroundings | None:
    """What the centre said of the surroundings."""
    found = entries.get(SURROUNDINGS)
    return None if found is None else unpack(Surroundings, found)


def read_attempts(entries: Mapping[str, Any]) -> list[Held]:
    """All attempts that are kept."""
    return [
        _read(found) for name, found in sorted(entries.items()) if name.startswith(f"{_ATTEMPT}/")
    ]


def _read(found: Mapping[str, Any]) -> Held:
    desired = unpack(Desired, found["desired"])
    held = Held(desired.key, desired, wanted=True)
    held.losses = int(found.get("losses", 0))
    held.saved_share = float(found.get("saved_share", 0.0))
    held.started_ns = found.get("started_ns")
    held.moves = dict(found.get("moves", ()))
    if "size" in found:
        held.sizing = Sizing(*found["size"])
    end = found.get("end")
    if end is not None:
        held.end = Ended(Outcome(end["outcome"]), end["why"], end["at_ns"], end["exit_code"])
    return held
