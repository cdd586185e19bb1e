"""What is kept of a run while it goes on: hourly figures, explanations, warnings."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dure.domain.fleet.decisions import Order, Site, SiteSummary
from dure.domain.fleet.instructions import ReportSummary, WarnKind
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.sim.fleet.billing import Totals
from dure.sim.fleet.results import ExplanationSample

if TYPE_CHECKING:
    from dure.sim.fleet.world import World

_MOST_WARNINGS = 50
_MOST_SIZES = 10
"""Of these, how many at most say that a workload should ask for another size."""
_MOST_SAMPLES = 60
"""Explanations kept: the first of each kind and every so many after."""


@dataclass(slots=True)
class Hours:
    """One value an hour, of each figure."""

    rent: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    transfers: list[float] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)
    kg_co2: list[float] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)
    open_share: list[float] = field(default_factory=list)
    fragmentation: list[float] = field(default_factory=list)
    service_within_target: list[float] = field(default_factory=list)
    jobs_on_time: list[float] = field(default_factory=list)
    waiting_jobs: list[int] = field(default_factory=list)
    running_jobs: list[int] = field(default_factory=list)
    congestion: list[float] = field(default_factory=list)


class History:
    """Figures of a run that only exist while it goes on."""

    def __init__(self, wanted: frozenset[str] = frozenset()) -> None:
        """`wanted` are workloads of which every placement is kept."""
        self.hours = Hours()
        self.warnings: list[str] = []
        self._sizes = 0
        self.samples: list[ExplanationSample] = []
        self.moved_gb = 0.0
        self.lost_device_s = 0.0
        self._sites: dict[Site, SiteSummary] = {}
        self._before = Totals(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self._due: dict[int, list[int]] = {}
        """By hour: deadlines in it, and how many of them were met."""
        self._wanted = wanted
        self._asked_for: list[ExplanationSample] = []
        self._explained = 0
        self._every = 1

    def warn(self, text: str, kind: WarnKind = WarnKind.GENERAL) -> None:
        """Keep the first few warnings; of right sizes only some, so that others have room."""
        sizes = kind is WarnKind.RIGHT_SIZE
        if len(self.warnings) < _MOST_WARNINGS and not (sizes and self._sizes >= _MOST_SIZES):
            self.warnings.append(text)
            self._sizes += sizes

    def summary(self, report: ReportSummary) -> None:
        """Keep the latest of every site."""
        for site in report.sites:
            self._sites[site.site] = site

    def job_submitted(self, workload: Workload, end_ns: int) -> None:
        """A deadline within the run will be met or not."""
        deadline_ns = workload.sla.deadline_ns
        if deadline_ns is not None and deadline_ns <= end_ns:
            self._due.setdefault(deadline_ns // HOUR_NS, [0, 0])[0] += 1

    def job_ended(self, workload: Workload, now_ns: int) -> None:
        """A job is done."""
        deadline_ns = workload.sla.deadline_ns
        if deadline_ns is not None and now_ns <= deadline_ns:
            due = self._due.get(deadline_ns // HOUR_NS)
            if due is not None:
                due[1] += 1

    def explain(self, order: Order, now_ns: int) -> None:
        """Keep a thinning sample of placements over the run: when it is full, every other goes."""
        self._explained += 1
        if not order.explanation.terms:
            return
        if order.workload.id in self._wanted:
            self._asked_for.append(_sample(order, now_ns))
        elif self._explained % self._every == 0:
            self.samples.append(_sample(order, now_ns))
            if len(self.samples) >= _MOST_SAMPLES:
                self.samples = self.samples[::2]
                self._every *= 2

    @property
    def explanations(self) -> tuple[ExplanationSample, ...]:
        """Those asked for, then the sample."""
        return (*self._asked_for, *self.samples)

    def hour(self, world: "World", now_ns: int) -> None:
        """An hour is full; every meter has been read."""
        totals, before, hours = world.books.totals(), self._before, self.hours
        self._before = totals
        hours.rent.append(totals.rent - before.rent)
        hours.energy.append(totals.energy - before.energy)
        hours.transfers.append(totals.transfers - before.transfers)
        hours.penalties.append(totals.penalties - before.penalties)
        hours.kg_co2.append((totals.g_co2 - before.g_co2) / 1000.0)
        devices = sum(member.hardware.devices for member in world.members)
        hours.utilisation.append((totals.device_h - before.device_h) / devices)
        hours.open_share.append((totals.open_device_h - before.open_device_h) / devices)
        hours.fragmentation.append(self._fragmentation())
        services = world.services
        violated = services.hour_violated / services.hour_minutes if services.hour_minutes else 0.0
        hours.service_within_target.append(1.0 - violated)
        services.hour_minutes = services.hour_violated = 0.0
        due, met = self._due.get(now_ns // HOUR_NS - 1, (0, 0))
        hours.jobs_on_time.append(met / due if due else 1.0)
        hours.waiting_jobs.append(world.waiting)
        hours.running_jobs.append(world.open_jobs - world.waiting)
        prices = world.prices.values()
        hours.congestion.append(sum(prices) / len(prices) if prices else 0.0)

    def _fragmentation(self) -> float:
        """Of all sites, by their free capacity."""
        free = sum(site.free_compute_milli for site in self._sites.values())
        if not free:
            return 0.0
        lost = sum(s.fragmentation * s.free_compute_milli for s in self._sites.values())
        return lost / free


def _sample(order: Order, now_ns: int) -> ExplanationSample:
    why = order.explanation
    second = why.runner_up
    return ExplanationSample(
        workload=order.workload.id,
        kind=order.workload.kind.value,
        tenant=order.workload.tenant,
        at_ns=now_ns,
        site=str(order.site),
        terms=why.terms,
        money=why.money,
        congestion=why.congestion,
        kg_co2=why.g_co2 / 1000.0,
        sla_risk=why.sla_risk,
        runner_up=str(second.site) if second is not None else "",
        runner_up_total=second.total if second is not None else 0.0,
        note=why.note,
        runner_up_start_ns=max(now_ns, second.start_ns) if second is not None else 0,
        runner_up_why=second.why if second is not None else "",
    )
