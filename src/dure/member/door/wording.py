"""What an AcceleratorJob shows: answers of the centre as its status, prices not too often."""

import datetime
from collections.abc import Mapping
from typing import Any

from dure.api.cluster_views import GRAMS_PER_HOUR
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.wishes import Standing

PENDING, REFUSED, SUSPENDED = "Pending", "Refused", "Suspended"
ENDS = frozenset(phase.value.capitalize() for phase in JobPhase if phase.ended)
ACCEPTED = "Accepted"
PRICES = ("costPerHour", GRAMS_PER_HOUR)
PRICED_AT = "pricedAt"
CHANGE_SHARE = 0.05
"""Prices that differ by more are written at once,"""
EVERY_S = 60.0
"""others so often."""

Status = Mapping[str, Any]


def unanswered(generation: int, before: Status, now_s: float) -> dict[str, Any]:
    """The status of a job of which the centre has not said anything yet."""
    what = "the centre has not answered yet; it will be asked until it does"
    return {
        "phase": PENDING,
        "message": what,
        "conditions": [_condition(("Unknown", "NotAnswered", what), generation, before, now_s)],
    }


def answered(standing: Standing, generation: int, before: Status, now_s: float) -> dict[str, Any]:
    """The status that an answer means, all fields of it; None removes one."""
    refusal = standing.refusal
    if refusal is not None:
        where = f"{refusal.field}: " if refusal.field else ""
        what = "; ".join(part for part in (f"{where}{refusal.what}", refusal.remedy) if part)
        accepted = ("False", refusal.reason, what)
        return _blank() | {
            "observedGeneration": generation,
            "jobId": standing.job or None,
            "phase": REFUSED,
            "message": what,
            "conditions": [_condition(accepted, generation, before, now_s)],
        }
    accepted = ("True", "Stored", f"the centre has it as job {standing.job}")
    made = _blank() | {
        "observedGeneration": standing.generation,
        "jobId": standing.job,
        "phase": phase_of(standing),
        "attempt": standing.attempt or None,
        "cluster": standing.cluster or None,
        "slice": standing.slice or None,
        "message": standing.why or None,
        "conditions": [_condition(accepted, standing.generation, before, now_s)],
    }
    prices: dict[str, Any] = dict.fromkeys((*PRICES, "currency"))
    if standing.slice:
        figures = (standing.cost_per_hour, standing.g_co2_per_hour)
        prices = dict(zip(PRICES, figures, strict=True)) | {"currency": standing.currency}
    return made | priced(prices, before, now_s)


def phase_of(standing: Standing) -> str:
    """As people of Kubernetes write it."""
    if standing.suspended and standing.phase is JobPhase.QUEUED:
        return SUSPENDED
    return standing.phase.value.capitalize()


def priced(prices: Mapping[str, Any], before: Status, now_s: float) -> dict[str, Any]:
    """Prices as they are to be shown: those shown before, unless they differ enough or are old."""
    then = before.get(PRICED_AT)
    old = then is None or now_s - seconds(then) >= EVERY_S
    shown = {name: before.get(name) for name in prices}
    if dict(prices) == shown or not (old or any(_differs(prices[n], shown[n]) for n in prices)):
        return shown | {PRICED_AT: then}
    return dict(prices) | {PRICED_AT: moment(now_s)}


def _differs(now: Any, shown: Any) -> bool:
    if not isinstance(now, float | int) or not isinstance(shown, float | int):
        return bool(now != shown)
    return abs(now - shown) > CHANGE_SHARE * abs(shown)


def _blank() -> dict[str, Any]:
    names = ("jobId", "attempt", "cluster", "slice", "message", "currency", PRICED_AT, *PRICES)
    return dict.fromkeys(names)


def _condition(
    said: tuple[str, str, str], generation: int, before: Status, now_s: float
) -> dict[str, Any]:
    status, reason, message = said
    told = before.get("conditions") or ()
    known: Status = next((each for each in told if each.get("type") == ACCEPTED), {})
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    return {
        "type": ACCEPTED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or moment(now_s),
        "observedGeneration": generation,
    }


def changes(wanted: Status, before: Status) -> dict[str, Any]:
    """What of a status is to be written."""
    return {name: value for name, value in wanted.items() if before.get(name) != value}


def moment(now_s: float) -> str:
    """A moment as Kubernetes writes it."""
    return datetime.datetime.fromtimestamp(int(now_s), tz=datetime.UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def seconds(text: str) -> float:
    """The same in seconds since 1970; 0 for what is no moment."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def forgotten() -> dict[str, Any]:
    """The status of a job that the centre does not know any more: it is over."""
    what = "the centre has removed it from its books; delete this object"
    return {"phase": JobPhase.CANCELLED.value.capitalize(), "message": what}
