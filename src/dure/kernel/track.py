"""One tenant as the machine knows it: what it was told, and what it learned since."""

from dataclasses import dataclass, field
from enum import Enum
from math import exp

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.ids import TenantId
from dure.domain.readings import TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import Tenant, TenantClass
from dure.domain.units import MIB, NS_PER_MS, NS_PER_S
from dure.kernel.attainment import Attainment
from dure.kernel.book import KernelBook

_STEP = 0.2
_DEMAND_STEP = 0.05
_PRESENT_DEMAND = 0.02
_RUN_GAP_SHARE = 0.25
"""A tick with more idle time than this ends a run of work."""
_FAILING = 8.0
"""Late share over the allowed one above which even a lenient policy reacts."""
_PATIENCE_DOWN = 0.93
_LENIENT_UP = 1.01
"""Per tick: halves in 0.2 s while a promise fails, doubles in 1.4 s while it does not."""
_STRICT_UP = 0.02
_STRICT_DOWN = 0.04
"""A strict policy's patience moves per tick by this power of how many times over the target is
kept. Its window remembers for over a second, so a faster fall would still go on when what was
too much is long gone."""
_SELDOM_UP = 1.003
"""Per tick, where too few requests come to know that distance: doubles in 4.6 s. Without it a
service of ten requests a second would keep for ever what the first late one left of it."""
_FORESEEN_MARGIN = 1.5
"""While a target is foreseen to be missed, patience grows only where it is kept so many times over.
What there is need not go for it: patience is quicker to shrink than load to grow."""
_QUIET_NS = 200 * NS_PER_MS
"""Without a request for so long, nothing is learned of how much patience is in time."""
_FIRST_PATIENCE = 0.0625
_LEAST_STRICT = 0.005
_LEAST_LENIENT = 0.02
_WEIGHT_RATE = 0.1
"""Eq. 3's α, per tick of full shortfall."""
_WEIGHT_RANGE = 2.0
"""A weight grows at most by this factor over what its owner set, by what was measured."""
_RISK_RATE = 2.0
"""Eq. 3's α for a shortfall that is foreseen: there is no time to wait for it to be measured."""
_RISK_RANGE = 16.0
"""A weight grows at most by this factor while its tenant's promise is foreseen to fail: others
make room for it 16 times as soon, which in the simulator is all that room can do."""
_TOLD = 2.0
"""A weight that moved by this factor is told."""
_RESERVE_MARGIN = 1.15
_MEMORY_MARGIN = 1.1
_MEMORY_ROUND_BYTES = 256 * MIB


class RemainingSource(Enum):
    """Where a remaining time comes from, best first."""

    PROGRESS = "reported progress"
    EXPECTED = "stated expectation"
    REQUEST = "length of its requests"
    HISTORY = "history of its runs"
    ATTAINED = "least attained service"


@dataclass(slots=True)
class Track:
    """Everything known of one tenant."""

    tenant: Tenant
    book: KernelBook
    attainment: Attainment
    weight: float
    """Eq. 3's w_m(t), starting at the tenant's weight."""
    joined_ns: int = 0
    busy: bool = False
    demand: float = 0.5
    """Share of time in which it has work."""
    load: float = 0.5
    """Share of time its kernels would take alone."""
    burst_ns: float = 1.0 * NS_PER_MS
    """Device time of a typical burst."""
    _bursts_seen: int = 0
    attained_ns: float = 0.0
    """Device time received in all."""
    run_attained_ns: float = 0.0
    """Device time received since it last paused."""
    _run_mean_ns: float = 0.0
    _runs_seen: int = 0
    _progress: tuple[float, float] | None = None
    _progress_base: tuple[float, float] = (0.0, 0.0)
    """Progress and device time when the present job was first heard of."""
    hungry_since_ns: int | None = None
    """Since when it has had work and received nothing."""
    memory_peak_bytes: int = 0
    _quiet_ns: int = 0
    """Since its last request ended."""
    strict_patience: float = _FIRST_PATIENCE
    """Part of a policy's patience that is left, for policies that let no promise get near
    failing."""
    lenient_patience: float = 1.0
    """The same for policies that weigh promises against the rest."""
    risks: dict[tuple[str, RiskKind], Risk] = field(default_factory=dict)
    """What is foreseen for it now, by series and kind."""
    _told_weight: float = 0.0
    """As it was told last; 0: never."""

    @classmethod
    def start(cls, tenant: Tenant, profile: AcceleratorProfile, now_ns: int) -> "Track":
        """A tenant nothing is known of yet."""
        return cls(
            tenant=tenant,
            book=KernelBook(profile),
            attainment=Attainment(tenant.slo),
            weight=tenant.weight,
            joined_ns=now_ns,
        )

    @property
    def id(self) -> TenantId:
        return self.tenant.id

    @property
    def present(self) -> bool:
        """Whether it has work, or is likely to have some any moment."""
        return self.busy or self.demand > _PRESENT_DEMAND or self.serves_requests

    @property
    def serves_requests(self) -> bool:
        """Whether its work is a stream of requests, each of which counts by itself."""
        return self.tenant.slo.latency is not None

    def retell(self, tenant: Tenant) -> None:
        """The owner changed its wishes; what was learned stays."""
        self.weight *= tenant.weight / self.tenant.weight
        self._told_weight *= tenant.weight / self.tenant.weight
        if tenant.slo.latency != self.tenant.slo.latency:
            self.strict_patience = min(self.strict_patience, _FIRST_PATIENCE)
        self.tenant = tenant
        self.attainment.slo = tenant.slo

    def learn(self, now_ns: int, elapsed_ns: int, reading: TenantReading) -> None:
        """Take in one reading."""
        self.busy = reading.busy
        self.attained_ns += reading.gpu_ns
        if elapsed_ns > 0:
            share = min(1.0, reading.busy_ns / elapsed_ns)
            self.demand += _DEMAND_STEP * (share - self.demand)
            load = min(1.0, reading.gpu_ns / elapsed_ns)
            self.load += _DEMAND_STEP * (load - self.load)
            self._learn_run(1.0 - share, reading)
        if reading.bursts > 0:
            mean = reading.burst_gpu_ns / reading.bursts
            step = max(_STEP, 1.0 / (1 + self._bursts_seen))
            self.burst_ns += step * (mean - self.burst_ns)
            self._bursts_seen += reading.bursts
        if reading.gpu_ns > 0 or not (reading.busy or reading.busy_ns):
            self.hungry_since_ns = None
        elif self.hungry_since_ns is None:
            self.hungry_since_ns = now_ns
        self.memory_peak_bytes = max(self.memory_peak_bytes, reading.memory_peak_bytes)
        self._quiet_ns = 0 if reading.latencies else self._quiet_ns + elapsed_ns
        self.attainment.learn(now_ns, elapsed_ns, reading)

    def _learn_run(self, idle_share: float, reading: TenantReading) -> None:
        """A run is work without a pause worth the name; its usual length predicts its end."""
        self.run_attained_ns += reading.gpu_ns
        if idle_share <= _RUN_GAP_SHARE:
            return
        if self.run_attained_ns > 0 and reading.bursts > 0:
            length = self.run_attained_ns / reading.bursts
            step = max(_STEP, 1.0 / (1 + self._runs_seen))
            self._run_mean_ns += step * (length - self._run_mean_ns)
            self._runs_seen += 1
        self.run_attained_ns = 0.0

    @property
    def run_mean_ns(self) -> float:
        """Device time of a typical run of work between two pauses; 0 while none was seen."""
        return self._run_mean_ns

    def report_progress(self, done: float, total: float) -> None:
        """The tenant said how far its job is; less than before means it is another job."""
        if self._progress is None or done < self._progress[0] or total != self._progress[1]:
            self._progress_base = (done, self.attained_ns)
        self._progress = (done, total)

    def remaining(self) -> tuple[float, RemainingSource]:
        """Predicted device time to the end of its job, and what that rests on."""
        if self._progress is not None:
            done, total = self._progress
            gained = done - self._progress_base[0]
            spent = self.attained_ns - self._progress_base[1]
            left = total - done if done < total else total
            each = spent / gained if gained > 0 and spent > 0 else self.burst_ns
            return left * each, RemainingSource.PROGRESS
        if self.tenant.expected_ns is not None:
            left = self.tenant.expected_ns - self.attained_ns
            return max(left, self.burst_ns), RemainingSource.EXPECTED
        if self.serves_requests:
            return self.burst_ns, RemainingSource.REQUEST
        if self._runs_seen >= 3:
            left = self._run_mean_ns - self.run_attained_ns
            least = max(self.burst_ns, 0.5 * self.run_attained_ns)
            return max(left, least), RemainingSource.HISTORY
        return self.run_attained_ns + self.burst_ns, RemainingSource.ATTAINED

    def deadline_at_risk(self, now_ns: int) -> bool:
        """Whether its job must run nearly undisturbed from now on to be done in time."""
        deadline = self.tenant.deadline_ns
        if deadline is None or self.tenant.tenant_class is TenantClass.BEST_EFFORT:
            return False
        return self.remaining()[0] * _RESERVE_MARGIN >= deadline - now_ns

    def promised(self, now_ns: int) -> bool:
        """Whether others are held for it: a latency target, or a deadline about to be missed."""
        latency = self.tenant.protected and self.tenant.slo.latency is not None
        return latency or self.deadline_at_risk(now_ns)

    def reserved_share(self) -> float:
        """Share of time its throughput and availability promises need, 0 if it has none."""
        share = self.tenant.floor_share
        if not self.tenant.protected:
            return share
        slo = self.tenant.slo
        if slo.throughput is not None:
            share = max(share, slo.throughput.items_per_s * self.burst_ns / NS_PER_S)
        if slo.availability is not None:
            share = max(share, slo.availability.floor_share)
        if self.attainment.throughput_at_risk() or self.attainment.availability_at_risk():
            share *= _RESERVE_MARGIN
        return min(1.0, share * _RESERVE_MARGIN)

    def at_risk(self) -> bool:
        """Whether a promise is in danger, or is foreseen to be."""
        return self.attainment.at_risk() or self.foreseen_shortfall() > 0.0

    def foreseen_shortfall(self) -> float:
        """Eq. 3's SLO_target − SLO_actual as it will be if nothing is done, by how sure that is."""
        return max((risk.confidence * risk.shortfall for risk in self.risks.values()), default=0.0)

    def adapt_patience(self) -> None:
        """Make room sooner when promises get into danger, and later again while all is well."""
        failing = self.attainment.late_pressure() > _FAILING
        lenient = self.lenient_patience * (_PATIENCE_DOWN if failing else _LENIENT_UP)
        self.lenient_patience = min(max(lenient, _LEAST_LENIENT), 1.0)
        strict = self.strict_patience * self._strict_step()
        self.strict_patience = min(max(strict, _LEAST_STRICT), 1.0)

    def _strict_step(self) -> float:
        """By what a strict policy's patience is multiplied: towards keeping the target just so."""
        if self.attainment.failing():
            return _PATIENCE_DOWN
        kept = self.attainment.safety()
        if self._quiet_ns > _QUIET_NS and kept >= 1.0:
            return 1.0
        if self.attainment.seldom_asked():
            safe = self.attainment.kept_of_late() and self.foreseen_shortfall() <= 0.0
            return _SELDOM_UP if safe else 1.0
        if kept > 1.0 and self.foreseen_shortfall() > 0.0:
            kept = max(kept / _FORESEEN_MARGIN, 1.0)
        return float(max(kept ** (_STRICT_UP if kept > 1.0 else _STRICT_DOWN), _PATIENCE_DOWN))

    def adapt_weight(self) -> None:
        """Eq. 3: w(t+1) = w(t) · exp(α · (SLO_target − SLO_actual)), within a range.

        SLO_actual is what was measured or, where that is worse, what is foreseen.
        """
        base = self.tenant.weight
        foreseen = self.foreseen_shortfall()
        measured = self.attainment.shortfall()
        if foreseen > 0.0 and _RISK_RATE * foreseen > _WEIGHT_RATE * measured:
            most = base * _RISK_RANGE
            grown = self.weight * exp(_RISK_RATE * foreseen)
        else:
            # What was foreseen stays until it is seen that less would do.
            most = max(base * _WEIGHT_RANGE, self.weight)
            grown = self.weight * exp(_WEIGHT_RATE * measured)
        self.weight = min(max(grown, base), most)

    def told_weight(self) -> tuple[float, float] | None:
        """The weight as it was told last and as it is, once that is worth telling."""
        base = self.tenant.weight
        told = self._told_weight or base
        moved = max(self.weight / told, told / self.weight)
        if moved < _TOLD and not (self.weight == base != told):
            return None
        self._told_weight = self.weight
        return told, self.weight

    def suggested_limit_bytes(self) -> int | None:
        """A memory limit that fits what it really used, in round figures."""
        if self.memory_peak_bytes == 0:
            return None
        wanted = int(self.memory_peak_bytes * _MEMORY_MARGIN)
        return -(-wanted // _MEMORY_ROUND_BYTES) * _MEMORY_ROUND_BYTES
