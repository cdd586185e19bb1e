"""What a person says of a tenant on the command line, read into the agent's words.

`dure run --memory-limit 20GiB` and `dure set web memory-limit=20GiB` share one list of settings, so
that what can be stated at the start can be changed later under the same name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

from dure.client.schema import (
    NAME_PATTERN,
    AvailabilityPromise,
    LatencyPromise,
    TenantPatch,
    TenantSpec,
    ThroughputPromise,
)
from dure.domain.errors import InputError
from dure.domain.promises import (
    parse_availability_slo,
    parse_bytes_per_s,
    parse_latency_slo,
    parse_share,
    parse_throughput_slo,
)
from dure.domain.tenant import Goal, TenantClass
from dure.domain.units import parse_bytes, parse_duration_ns

CLEARED = "none"
"""Written instead of a value: as if it had never been stated."""
_LONGEST_NAME = 32


def _latency(text: str) -> LatencyPromise:
    slo = parse_latency_slo(text)
    return LatencyPromise(target_ns=slo.target_ns, percentile=slo.percentile)


def _throughput(text: str) -> ThroughputPromise:
    return ThroughputPromise(items_per_s=parse_throughput_slo(text).items_per_s)


def _availability(text: str) -> AvailabilityPromise:
    return AvailabilityPromise(share=parse_availability_slo(text).share)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0.0 < weight < float("inf"):
        raise ValueError(f"'{text}' is not a weight; write a number above 0, such as '2'")
    return weight


def _span_ns(text: str) -> int:
    span_ns = parse_duration_ns(text)
    if span_ns <= 0:
        raise ValueError("must be longer than nothing; write '2h'")
    return span_ns


def _one_of(known: Sequence[str], kind: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = text.strip().lower().replace("_", "-")
        if word not in known:
            raise ValueError(f"'{text}' is not a {kind}; use one of {', '.join(known)}")
        return word

    return read


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("yes", "no"):
        raise ValueError(f"'{text}' is neither yes nor no; write one of them")
    return word == "yes"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be said of a tenant: its field in the agent's words, how it is read."""

    field: str
    read: Callable[[str], Any]


SETTINGS: dict[str, Setting] = {
    "weight": Setting("weight", _weight),
    "class": Setting("tenant_class", _one_of([each.value for each in TenantClass], "class")),
    "goal": Setting("goal", _one_of([each.value for each in Goal], "goal")),
    "latency-slo": Setting("latency_slo", _latency),
    "throughput-slo": Setting("throughput_slo", _throughput),
    "availability-slo": Setting("availability_slo", _availability),
    "memory-limit": Setting("memory_limit_bytes", parse_bytes),
    "memory-reserve": Setting("memory_reserve_bytes", parse_bytes),
    "sm-share": Setting("sm_share", parse_share),
    "expect": Setting("expected_ns", _span_ns),
    "deadline": Setting("deadline_in_ns", _span_ns),
    "copy-limit": Setting("copy_bytes_per_s", parse_bytes_per_s),
    "free": Setting("free", _switch),
    "keep": Setting("keep", _switch),
}


def _read(key: str, text: str, field: str) -> Any:
    try:
        return SETTINGS[key].read(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise InputError(what, remedy, field=field) from error


def spec_of(stated: Mapping[str, str | None], **more: Any) -> TenantSpec:
    """A tenant from options as they were written; those that are None were not stated."""
    fields = {
        SETTINGS[key].field: _read(key, text, f"--{key}")
        for key, text in stated.items()
        if text is not None
    }
    _refuse_contradictions(fields, "--")
    return TenantSpec(**fields, **more)


def patch_of(assignments: Sequence[str]) -> TenantPatch:
    """Changes from `key=value` words; `none` as value clears."""
    fields: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip().lstrip("-").replace("_", "-")
        if not equals:
            raise InputError(f"'{assignment}' changes nothing", "write KEY=VALUE, as in 'weight=2'")
        if key not in SETTINGS:
            raise InputError(f"a tenant has no setting '{key}'", _nearest(key))
        cleared = text.strip().lower() == CLEARED
        fields[SETTINGS[key].field] = None if cleared else _read(key, text, key)
    _refuse_contradictions(fields, "")
    return TenantPatch(**fields)


def _nearest(key: str) -> str:
    close = get_close_matches(key, SETTINGS, n=1)
    return f"did you mean '{close[0]}'?" if close else f"use one of {', '.join(SETTINGS)}"


def _refuse_contradictions(fields: Mapping[str, Any], dashes: str) -> None:
    """What cannot hold together is known before anything is asked of the agent."""
    limit, reserve = fields.get("memory_limit_bytes"), fields.get("memory_reserve_bytes")
    if limit == 0:
        raise InputError(
            "a tenant without memory cannot run",
            f"write more, or '{CLEARED}'" if not dashes else "write more, or leave it out",
            field=f"{dashes}memory-limit",
        )
    if limit is not None and reserve is not None and reserve > limit:
        raise InputError(
            "more memory is reserved than the tenant may take",
            "raise the limit or lower the reserve",
            field=f"{dashes}memory-reserve",
        )
    promised = any(fields.get(f"{kind}_slo") for kind in ("latency", "throughput", "availability"))
    if promised and fields.get("tenant_class") == TenantClass.BEST_EFFORT.value:
        raise InputError(
            "nothing can be promised to a best-effort tenant: it takes what is left",
            "leave out the promise, or choose the class 'standard'",
        )
    expected, deadline = fields.get("expected_ns"), fields.get("deadline_in_ns")
    if expected and deadline and deadline < expected:
        raise InputError(
            "the deadline is sooner than the job takes alone",
            "allow more time",
            field=f"{dashes}deadline",
        )


def checked_name(name: str) -> str:
    """A tenant's name as the agent takes it."""
    if re.fullmatch(NAME_PATTERN.strip("^$"), name) is None:
        raise InputError(
            f"'{name}' cannot name a tenant",
            f"use up to {_LONGEST_NAME} letters, digits, '.', '_' and '-', a letter or digit first",
            field="--tenant",
        )
    return name


def name_of(command: Sequence[str]) -> str:
    """A name for a tenant nobody named: its script, or else its program."""
    script = next((word for word in command[1:] if word.endswith(".py")), command[0])
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(script).name.removesuffix(".py"))
    return stem.lstrip("._-")[:_LONGEST_NAME] or "program"
