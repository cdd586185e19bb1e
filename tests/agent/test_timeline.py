"""The timeline of a GPU: device time where it was used, bubbles where nobody's kernels ran."""

import pytest

from dure.agent.timeline import Part, Slice, Timeline, spread
from dure.devices.plane import TurnReading
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.kernel import KernelClass
from dure.domain.plan import Plan, SmSet, Squad, SquadMember
from dure.domain.readings import TenantReading
from dure.domain.units import NS_PER_MS, NS_PER_S

WEB, TRAIN = TenantId("web"), TenantId("train")
SMS = 100
TICK_NS = 20 * NS_PER_MS


def part(tenant: TenantId, gpu_ms: float, busy_ms: float = 20.0, sms: SmSet | None = None) -> Part:
    gpu_ns, busy_ns = round(gpu_ms * NS_PER_MS), round(busy_ms * NS_PER_MS)
    return Part(tenant, sms or SmSet(0, SMS), gpu_ns, busy_ns, 0)


def slices(*columns: tuple[Part, ...]) -> list[Slice]:
    return [
        Slice(number, number * TICK_NS, TICK_NS, 1, 0, 1, parts)
        for number, parts in enumerate(columns, 1)
    ]


def reading(
    tenant: TenantId, gpu_ns: int = 0, busy_ns: int = 0, gated_ns: int = 0
) -> TenantReading:
    return TenantReading(
        tenant, True, 1, gpu_ns, busy_ns, gated_ns, 0, 0, 0, (), False, 0, 0, 0, 0, 0,
        KernelClass.COMPUTE,
    )  # fmt: skip


def turn(epoch: int = 0, squad: int = 0, edges: int = 0) -> TurnReading:
    return TurnReading(epoch, squad, False, edges, 0, 0)


def test_a_long_kernel_is_shown_in_the_slices_it_ran_in_not_where_it_ended() -> None:
    shown = spread(slices((part(TRAIN, 0),), (part(TRAIN, 0),), (part(TRAIN, 50),)), SMS)
    assert [each.parts[0].ran for each in shown] == [0.5, 1.0, 1.0]


def test_time_is_not_moved_into_a_slice_without_work() -> None:
    shown = spread(slices((part(TRAIN, 0, busy_ms=0),), (part(TRAIN, 30),)), SMS)
    assert [each.parts[0].ran for each in shown] == [0.0, 1.0]


def test_a_bubble_is_work_that_waits_while_nothing_runs() -> None:
    shown = spread(slices((part(WEB, 5), part(TRAIN, 5))), SMS)
    assert shown[0].bubble == pytest.approx(0.5)


def test_half_of_the_units_idle_beside_a_confined_tenant_are_half_a_bubble() -> None:
    shown = spread(slices((part(WEB, 20, sms=SmSet(0, 50)),)), SMS)
    assert shown[0].bubble == pytest.approx(0.5)


def test_an_idle_device_has_no_bubble() -> None:
    assert spread(slices((), (part(WEB, 2, busy_ms=2),)), SMS)[0].bubble == 0.0
    assert spread(slices((part(WEB, 2, busy_ms=2),)), SMS)[0].bubble == pytest.approx(0.0)


def test_a_slice_says_on_which_units_the_squad_of_now_puts_each_tenant() -> None:
    timeline = Timeline(SMS)
    squads = (
        Squad((SquadMember(WEB, SmSet(0, 40)),), TICK_NS),
        Squad((SquadMember(WEB, SmSet(0, 100)), SquadMember(TRAIN, SmSet(40, 60))), TICK_NS),
    )
    timeline.publish(Plan(PlanEpoch(7), "slo", squads))
    timeline.add(NS_PER_S, NS_PER_S, turn(7), ())
    timeline.add(NS_PER_S + TICK_NS, 0, turn(7, 0, 3), (reading(WEB, 1, 1), reading(TRAIN, 1, 1)))
    (shown,) = timeline.since(0, NS_PER_S)
    assert [(each.tenant, each.sm_first, each.sm_count) for each in shown.parts] == [
        ("web", 0, 40),
        ("train", 40, 60),
    ]
    assert (shown.squads, shown.epoch) == (3, 7)


def test_only_what_is_new_is_answered_and_never_more_than_was_asked_for() -> None:
    timeline = Timeline(SMS)
    for number in range(100):
        timeline.add(NS_PER_S + number * TICK_NS, 0, turn(), (reading(WEB, 1, 1),))
    assert [each.number for each in timeline.since(97, NS_PER_S)] == [98, 99]
    assert len(timeline.since(0, 10 * TICK_NS)) == 10


def test_slices_join_however_late_the_clock_was_read_and_follow_it_when_it_is_set() -> None:
    timeline, day_ns = Timeline(SMS), 86_400 * NS_PER_S
    for number, late_ns in enumerate((0, 0, 9 * NS_PER_MS, 3 * NS_PER_MS)):
        now_ns = NS_PER_S + number * TICK_NS
        timeline.add(now_ns, now_ns + late_ns, turn(), ())
    first, second, third = timeline.since(0, NS_PER_S)
    assert first.at_ms + first.length_ms == second.at_ms
    assert second.at_ms + second.length_ms == third.at_ms
    timeline.add(2 * NS_PER_S, 2 * NS_PER_S + day_ns, turn(), ())
    (last,) = timeline.since(third.number, 10 * NS_PER_S)
    assert last.at_ms + last.length_ms == (2 * NS_PER_S + day_ns) / NS_PER_MS


def test_the_memory_of_a_timeline_is_bounded() -> None:
    timeline = Timeline(SMS)
    for number in range(5000):
        timeline.publish(Plan(PlanEpoch(number), "slo", ()))
        timeline.add(NS_PER_S + number * TICK_NS, 0, turn(number), (reading(WEB, 1, 1),))
    assert len(timeline.since(0, 10**18)) == 3000
    assert len(timeline._plans) <= 4
