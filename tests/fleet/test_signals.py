"""Signals move the weights of the fleet: bounded, with hysteresis, told with a reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.fleet.events import SignalSeen
from dure.domain.fleet.instructions import Warn, WarnKind
from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.signals import FleetSignal, FleetSignalKind
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ClusterId
from dure.fleet.adaptation import MOST_LOCALITY, MOST_SENSITIVITY, Adaptation, CongestionBook
from dure.fleet.signals import CONGESTION_PART, HEEDED_NS, SignalWeights
from tests.fleet.factories import cluster, job
from tests.fleet.machines import machine

SERVING = WorkloadKind.SERVING


def latency(strength: float) -> FleetSignal:
    return FleetSignal(FleetSignalKind.LATENCY, SERVING.value, strength, "promises were broken")


def test_a_signal_counts_from_one_strength_on_and_until_a_lower_one() -> None:
    weights = SignalWeights()
    assert weights.hear(0, latency(0.45)) is None
    assert weights.latency(SERVING) == 1.0
    said = weights.hear(1, latency(0.55))
    assert said is not None
    assert "from 1 to 1.5 times" in said
    assert said.endswith("promises were broken")
    assert weights.hear(2, latency(0.3)) is None
    assert weights.latency(SERVING) == 1.5
    assert weights.hear(3, latency(0.2)) is not None
    assert weights.latency(SERVING) == 1.0


def test_a_signal_that_nobody_repeats_is_forgotten() -> None:
    weights = SignalWeights()
    weights.hear(0, latency(1.0))
    assert weights.expire(HEEDED_NS - 1) == []
    ((about, said),) = weights.expire(HEEDED_NS)
    assert about == SERVING.value
    assert "it was not seen again" in said
    assert weights.latency(SERVING) == 1.0


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_weights_stay_within_their_bounds_whatever_is_signalled(
    strengths: list[float], violated: float
) -> None:
    learnt, policy, rule = Adaptation(), FleetPolicy(), ClassPolicy()
    for now_ns, strength in enumerate(strengths):
        learnt.signals.hear(now_ns, latency(strength))
        learnt.signals.hear(now_ns, FleetSignal(FleetSignalKind.LOCALITY, "", strength, "reuse"))
        for _ in range(20):
            learnt.violated(SERVING, violated)
    base = policy.of(SERVING).sla_weight
    assert base <= learnt.sla_weight(SERVING, policy) <= MOST_SENSITIVITY * base
    assert rule.locality_weight <= learnt.locality_weight(job("a"), rule, policy) <= MOST_LOCALITY


def test_a_cluster_that_will_be_full_is_dearer_before_it_is_and_no_other() -> None:
    weights, book = SignalWeights(), CongestionBook()
    book.resize(2)
    full = FleetSignal(FleetSignalKind.CONGESTION, "seoul", 1.0, "it fills")
    assert weights.surcharge({ClusterId("seoul"): [1]}, np.array([2.0, 4.0])) is None
    weights.hear(0, full)
    book.surcharge = weights.surcharge({ClusterId("seoul"): [1]}, np.array([2.0, 4.0]))
    prices = book.ahead(0, [0], forecast=False)
    assert prices[:, 0] == pytest.approx([0.0, CONGESTION_PART * 4.0])


def test_weights_that_do_not_adapt_do_not_follow_signals_either() -> None:
    learnt, frozen = Adaptation(), FleetPolicy(adapt_latency=False, adapt_locality=False)
    learnt.signals.hear(0, latency(1.0))
    assert learnt.sla_weight(SERVING, frozen) == frozen.of(SERVING).sla_weight
    assert CongestionRules().frozen is False


def test_the_machine_tells_what_a_signal_changed_and_says_nothing_where_it_did_not() -> None:
    made = machine(cluster("seoul"))
    (told,) = made.handle(SignalSeen(1, latency(1.0)))
    assert isinstance(told, Warn)
    assert told.kind is WarnKind.ADAPTED
    assert told.about == SERVING.value
    assert "promises were broken" in told.what
    assert made.handle(SignalSeen(2, latency(0.95))) == []
