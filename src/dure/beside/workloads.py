"""Reads a Workload of Kueue: whether it is ours to nominate for now, and if not, why."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dure.beside import kinds
from dure.kube.resources import Object, ObjectKey, key_of, uid_of


class Standing(Enum):
    """What may be done about a Workload."""

    NOT_OURS = "not-ours"
    """No admission check of MultiKueue that is ours."""
    NOT_YET = "not-yet"
    """Has no quota, or waits for other checks."""
    OPEN = "open"
    """Waits to be sent somewhere: ours to nominate."""
    PLACED = "placed"
    """Has its cluster, or is on its way back from it: hands off."""
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Sight:
    """A Workload as it is now."""

    key: ObjectKey
    uid: str
    standing: Standing
    check: str = ""
    """Admission check of MultiKueue."""
    nominated: tuple[str, ...] = ()
    cluster: str = ""
    reserved_at: str = ""
    """Since when it has its quota: another moment is another try."""


def read_sight(workload: Object, ours: frozenset[str]) -> Sight:
    """Look at a Workload; `ours` are admission checks of MultiKueue that are."""
    key, uid = key_of(workload), uid_of(workload)
    status = workload.get("status") or {}
    checks = {each["name"]: each.get("state") for each in status.get("admissionChecks") or ()}
    mine = [name for name in checks if name in ours]
    if not mine:
        return Sight(key, uid, Standing.NOT_OURS)
    conditions = _conditions(status)
    reserved = conditions.get(kinds.QUOTA_RESERVED, {})
    return Sight(
        key,
        uid,
        _standing(workload, checks, mine[0]),
        mine[0],
        tuple(status.get("nominatedClusterNames") or ()),
        status.get("clusterName") or "",
        str(reserved.get("lastTransitionTime", "")),
    )


def _standing(workload: Object, checks: Mapping[str, str | None], mine: str) -> Standing:
    status = workload.get("status") or {}
    conditions = _conditions(status)
    active = (workload.get("spec") or {}).get("active", True)
    if workload["metadata"].get("deletionTimestamp") or _holds(conditions, kinds.FINISHED):
        return Standing.OVER
    if not active or _holds(conditions, kinds.EVICTED):
        return Standing.OVER
    if not _holds(conditions, kinds.QUOTA_RESERVED):
        return Standing.NOT_YET
    if status.get("clusterName") or checks[mine] != kinds.PENDING:
        return Standing.PLACED
    others = (state for name, state in checks.items() if name != mine)
    return Standing.OPEN if all(each == kinds.READY for each in others) else Standing.NOT_YET


def _conditions(status: Object) -> dict[str, Object]:
    return {each["type"]: each for each in status.get("conditions") or ()}


def _holds(conditions: Mapping[str, Object], kind: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == "True")


def clusters_by_check(
    checks: Mapping[ObjectKey, Object],
    configs: Mapping[ObjectKey, Object],
    only: frozenset[str] | None,
) -> dict[str, tuple[str, ...]]:
    """The clusters of each admission check of MultiKueue; `only` where given."""
    found = {}
    for key, check in checks.items():
        spec = check.get("spec") or {}
        named = spec.get("parameters") or {}
        wanted = only is None or key.name in only
        if spec.get("controllerName") != kinds.MULTIKUEUE or not wanted:
            continue
        config = configs.get(ObjectKey("", str(named.get("name", ""))), {})
        found[key.name] = tuple((config.get("spec") or {}).get("clusters") or ())
    return found
