"""Random histories of a kernel machine: any well-formed events, extreme figures included."""

from dataclasses import dataclass

from hypothesis import strategies as st

from dure.domain.events import (
    Event,
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    RiskCleared,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass, KernelSignature
from dure.domain.latency import BUCKET_COUNT
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.risks import Risk, RiskKind
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    Tenant,
    TenantClass,
    ThroughputSlo,
)
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S
from dure.kernel.machine import MachineSettings
from dure.kernel.policies.registry import POLICIES
from tests.kernel.factories import H200

IDS = [TenantId(name) for name in "abcdef"]
_HOUR_NS = 3600 * NS_PER_S

_ids = st.sampled_from(IDS)
_ns = st.one_of(
    st.integers(0, 100 * NS_PER_MS), st.integers(0, _HOUR_NS), st.sampled_from([0, 1, 2**60])
)
_shares = st.floats(0.0, 1.0)

slos = st.builds(
    Slo,
    st.none() | st.builds(LatencySlo, st.integers(1, 10 * NS_PER_S), st.floats(1.0, 99.999)),
    st.none() | st.builds(ThroughputSlo, st.floats(1e-3, 1e7), st.integers(NS_PER_MS, _HOUR_NS)),
    st.none()
    | st.builds(AvailabilitySlo, st.floats(0.01, 1.0), _shares, st.integers(1, 10 * NS_PER_S)),
)

tenants = st.builds(
    Tenant,
    id=_ids,
    weight=st.floats(1e-3, 1e3),
    tenant_class=st.sampled_from(TenantClass),
    goal=st.sampled_from(Goal),
    slo=slos,
    memory=st.builds(MemoryClaim, st.none() | st.integers(0, 200 * GIB), st.integers(0, 80 * GIB)),
    floor_share=_shares,
    expected_ns=st.none() | _ns,
    deadline_ns=st.none() | _ns,
    copy_bytes_per_s=st.none() | st.floats(0.0, 1e12),
)

signatures = st.builds(
    KernelSignature,
    st.integers(0, 5),
    st.integers(1, 1_000_000),
    st.sampled_from([32, 256, 1024]),
    st.integers(1, 32),
    st.booleans(),
)


@st.composite
def _readings(draw: st.DrawFn, tenant: TenantId) -> TenantReading:
    latencies = tuple(
        sorted(
            draw(
                st.dictionaries(st.integers(0, BUCKET_COUNT - 1), st.integers(1, 10**6), max_size=3)
            ).items()
        )
    )
    requests = sum(count for _, count in latencies)
    busy_ns = draw(_ns)
    return TenantReading(
        tenant=tenant,
        busy=draw(st.booleans()),
        launches=draw(st.integers(0, 10**9)),
        gpu_ns=draw(_ns),
        busy_ns=busy_ns,
        gated_ns=draw(st.integers(0, busy_ns)),
        longest_hold_ns=draw(_ns),
        bursts=draw(st.integers(0, 10**6)),
        late=draw(st.integers(0, requests)),
        latencies=latencies,
        reported=draw(st.booleans()),
        burst_gpu_ns=draw(_ns),
        gap_ns=draw(_ns),
        longest_kernel_ns=draw(_ns),
        memory_bytes=draw(st.integers(0, 141 * GIB)),
        memory_peak_bytes=draw(st.integers(0, 141 * GIB)),
        running=draw(st.sampled_from(KernelClass)),
    )


_samples = st.builds(
    KernelSample,
    _ids,
    signatures,
    st.integers(1, 1000),
    _ns,
    st.sampled_from([8, 32, 64, 68, 100, 132]),
    st.lists(_ids, unique=True, max_size=3).map(tuple),
)


@st.composite
def _reading_event(draw: st.DrawFn, now_ns: int) -> ReadingsTaken:
    present = draw(st.lists(_ids, unique=True, max_size=len(IDS)))
    return ReadingsTaken(
        now_ns,
        tuple(draw(_readings(tenant)) for tenant in present),
        tuple(
            entry
            for entry in draw(st.lists(_samples, max_size=4))
            if entry.tenant not in entry.company
        ),
    )


_parameters = st.one_of(
    st.just(()),
    st.tuples(st.tuples(st.just("tolerance"), st.floats(0.0, 1.0))),
    st.tuples(st.tuples(st.just("starvation_s"), st.floats(0.0, 100.0))),
    st.tuples(st.tuples(st.just("patience"), st.floats(0.0, 10.0))),
    st.just((("no-such-parameter", 1.0),)),
)


_risks = st.builds(
    Risk,
    series=st.sampled_from(["one", "other"]),
    kind=st.sampled_from(RiskKind),
    confidence=_shares,
    reason=st.just("because"),
    tenant=st.none() | _ids,
    violation_in_ns=st.none() | _ns,
    shortfall=_shares,
)


@st.composite
def _risk_event(draw: st.DrawFn, now_ns: int) -> Event:
    risk = draw(_risks)
    if draw(st.booleans()):
        return RiskRaised(now_ns, risk)
    return RiskCleared(now_ns, risk.series, risk.kind, risk.tenant)


@st.composite
def _events(draw: st.DrawFn, now_ns: int) -> Event:
    kind = draw(
        st.sampled_from(["join"] * 3 + ["read"] * 4 + ["change", "leave", "tell", "ask", "risk"])
    )
    if kind in ("read", "risk"):
        return draw(_reading_event(now_ns) if kind == "read" else _risk_event(now_ns))
    if kind == "join":
        return TenantJoined(now_ns, draw(tenants))
    if kind == "change":
        return TenantChanged(now_ns, draw(tenants))
    if kind == "leave":
        return TenantLeft(now_ns, draw(_ids))
    if kind == "tell":
        total = draw(st.floats(0.0, 1e12))
        return ProgressReported(now_ns, draw(_ids), draw(_shares) * total, total)
    policy = draw(st.sampled_from([*POLICIES, "no-such-policy"]))
    return PolicyRequested(now_ns, policy, draw(_parameters), draw(st.booleans()))


@dataclass(frozen=True)
class History:
    """A machine's settings and what it lives through."""

    settings: MachineSettings
    events: tuple[Event, ...]


@st.composite
def histories(draw: st.DrawFn, max_events: int = 12) -> History:
    """A machine that checks itself, and events in the order of their time."""
    settings = MachineSettings(
        H200,
        draw(st.sampled_from([*POLICIES])),
        side_by_side=draw(st.booleans()),
        validate=True,
    )
    now_ns = 0
    events = []
    for _ in range(draw(st.integers(1, max_events))):
        events.append(draw(_events(now_ns)))
        now_ns += draw(st.sampled_from([0, 1, 20 * NS_PER_MS, 20 * NS_PER_MS, NS_PER_S, _HOUR_NS]))
    return History(settings, tuple(events))
