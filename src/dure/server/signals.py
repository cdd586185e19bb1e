"""What is said of loads from outside: checked, bounded, passed on to clusters; nothing is stored.

A signal holds for seconds and the next one is on its way: like what instances write it goes over
the link that a server has, and one that is lost is not said again.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dure.api.base import duration_ns, moment_ns
from dure.api.jobs import Serving
from dure.api.loads import LoadReport
from dure.domain.errors import InputError
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.server.handover import Pace, shares
from dure.stores.rows import Attempt

MOST_SOURCES = 64
"""Of one service at a time."""
MOST_SERVICES = 10_000
"""Whose sources are remembered; beyond, those that were heard of longest ago are forgotten."""
LEAST_PAUSE_NS = NS_PER_S // 4
"""Between two reports of one source: loads are looked at every two seconds."""
OLDEST_NS = 60 * NS_PER_S
AHEAD_NS = 10 * NS_PER_S
"""How far the clock of a source may be ahead."""
LONGEST_NS = 120 * NS_PER_S
_ABSURD = 100.0
"""A load of so many times what all instances could ever serve is a mistake, not a load."""


class TooOftenError(InputError):
    """A source says more than anybody looks at, or there are too many of them."""


@dataclass(slots=True)
class SignalDesk:
    """Which sources speak of which service, on this server."""

    _heard: OrderedDict[str, dict[str, int]] = field(default_factory=OrderedDict)
    """By job and source: when it last spoke."""

    def admit(self, job: str, source: str, now_ns: int) -> None:
        """Let a source speak, or raise `TooOftenError`."""
        sources = self._heard.setdefault(job, {})
        self._heard.move_to_end(job)
        for each in [each for each, at_ns in sources.items() if now_ns - at_ns > LONGEST_NS]:
            del sources[each]
        last_ns = sources.get(source)
        if last_ns is not None and now_ns - last_ns < LEAST_PAUSE_NS:
            raise TooOftenError(
                f"{source} spoke less than {LEAST_PAUSE_NS / NS_PER_S:g} s ago",
                "report every second or two, with what was seen since",
                field="source",
            )
        if last_ns is None and len(sources) >= MOST_SOURCES:
            raise TooOftenError(
                f"{MOST_SOURCES} sources speak of this service already",
                "give the same source each time, and let few report for many",
                field="source",
            )
        sources[source] = now_ns
        if len(self._heard) > MOST_SERVICES:
            self._heard.popitem(last=False)


def check(report: LoadReport, service: Serving, now_ns: int) -> int:
    """Refuse what cannot be; tells when it was measured."""
    most = service.most * service.replica_requests_per_second * _ABSURD
    if report.requests_per_second is not None and report.requests_per_second > most:
        raise InputError(
            f"{report.requests_per_second:g} requests/s is more than {_ABSURD:g} times what all "
            f"{service.most} instances it may have could serve",
            "check the unit, or correct replicaRequestsPerSecond of the job",
            field="requestsPerSecond",
        )
    if duration_ns(report.valid_for) > LONGEST_NS:
        raise InputError(
            f"{report.valid_for} is too long for something that changes by the second",
            f"write at most {LONGEST_NS // NS_PER_S}s and report again",
            field="validFor",
        )
    if report.at is None:
        return now_ns
    at_ns = moment_ns(report.at)
    if at_ns < now_ns - OLDEST_NS:
        raise InputError(
            f"was measured {(now_ns - at_ns) / NS_PER_S:.0f} s ago, which says nothing of now",
            f"report within {OLDEST_NS // NS_PER_S} s, or leave it out",
            field="at",
        )
    if at_ns > now_ns + AHEAD_NS:
        raise InputError(
            f"is {(at_ns - now_ns) / NS_PER_S:.0f} s in the future",
            "set the clock of the source right, or leave it out",
            field="at",
        )
    return at_ns


def parts_of(attempts: Sequence[Attempt], now_ns: int, pace: Pace) -> dict[str, float]:
    """Which part of a service's requests each of its clusters gets; in all 1, or there is none.

    Where nothing is ready, as in a service that sleeps, all that could start something share."""
    live = [each for each in attempts if each.state in _LIVE]
    weights = shares(live, now_ns, pace)
    if not any(weights.values()):
        weights = {each.attempt: 1.0 for each in live}
    parts: dict[str, float] = {}
    for each in live:
        parts[each.cluster] = parts.get(each.cluster, 0.0) + weights.get(each.attempt, 0.0)
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items() if part > 0}


_LIVE = (AttemptState.COMMITTED, AttemptState.RUNNING)


def signals_of(
    job: str, source: str, report: LoadReport, at_ns: int, parts: Mapping[str, float]
) -> Iterable[tuple[str, LoadSignal]]:
    """What each cluster is told of a report."""
    named = {report.cluster: 1.0} if report.cluster in parts else {}
    for cluster, part in (parts if report.cluster is None else named).items():
        rate, queue, latency = report.requests_per_second, report.queue, report.latency
        assert cluster is not None
        yield (
            cluster,
            LoadSignal(
                workload=WorkloadId(job),
                source=source,
                at_ns=at_ns,
                until_ns=at_ns + duration_ns(report.valid_for),
                requests_per_s=None if rate is None else rate * part,
                queue_length=None if queue is None else queue * part,
                latency_ms=None if latency is None else duration_ns(latency) / NS_PER_MS,
            ),
        )
