"""The launch rule, the ledger and the limits of the C library, case by case."""

import ctypes
import random

import pytest

from dure.devices import layout
from dure.devices.plane_library import Launch, plane_library
from dure.domain.latency import BUCKET_COUNT, bucket_of
from tests.native.planes import MemoryPlane

MS = 1_000_000
T0 = 1_000 * MS
PASS, BUDGET, IN_ORDER, PROMISE, IN_FLIGHT = range(5)
COMPUTE, MEMORY, SMALL, LONG = range(4)
NOBODY = layout.TENANTS

SERVER, TRAINER = 0, 1


def _plan(**trainer: int) -> layout.PlanBuffer:
    """A server, and a trainer that yields to it; both for as long as anybody has work."""
    plan = layout.PlanBuffer(epoch=1, squads=1)
    server, other = plan.orders[0][SERVER], plan.orders[0][TRAINER]
    server.member = other.member = 1
    other.yields = 1 << SERVER
    for name, value in trainer.items():
        setattr(other, name, value)
    return plan


def _world(plan: layout.PlanBuffer, owners: tuple[int, ...] = (SERVER, TRAINER)) -> MemoryPlane:
    world = MemoryPlane(owners)
    world.beat(T0)
    world.publish(plan)
    world.turn_over(T0)
    return world


def _server_works(world: MemoryPlane, at_ns: int = T0) -> None:
    world.launched(SERVER, Launch(COMPUTE, 1 * MS), at_ns)


SHORT = Launch(COMPUTE, 10_000)


class TestTheRule:
    def test_yields_to_who_has_work_and_passes_when_it_ended(self) -> None:
        world = _world(_plan())
        assert world.ask(TRAINER, SHORT, T0) == (PASS, NOBODY)
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0) == (IN_ORDER, SERVER)
        world.drained(SERVER, T0 + 5)
        assert world.ask(TRAINER, SHORT, T0 + 5) == (PASS, NOBODY)

    def test_a_promise_is_the_stronger_reason(self) -> None:
        plan = _plan()
        plan.promised = 1 << SERVER
        world = _world(plan)
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0) == (PROMISE, SERVER)

    def test_nobody_yields_to_itself(self) -> None:
        plan = _plan(yields=0b11)
        world = _world(plan)
        world.launched(TRAINER, SHORT, T0)
        assert world.ask(TRAINER, SHORT, T0) == (PASS, NOBODY)

    def test_patience_lets_others_pass_for_a_while(self) -> None:
        plan = _plan()
        plan.orders[0][SERVER].patience_ns = 2 * MS
        world = _world(plan)
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0 + 2 * MS - 1)[0] == PASS
        assert world.ask(TRAINER, SHORT, T0 + 2 * MS)[0] == IN_ORDER

    def test_a_pause_not_worth_the_name_does_not_renew_patience(self) -> None:
        plan = _plan()
        plan.orders[0][SERVER].patience_ns = 2 * MS
        world = _world(plan)
        _server_works(world)
        world.drained(SERVER, T0 + 1 * MS)
        _server_works(world, T0 + 1 * MS + 200_000)
        assert world.ask(TRAINER, SHORT, T0 + 2 * MS)[0] == IN_ORDER
        world.drained(SERVER, T0 + 2 * MS)
        _server_works(world, T0 + 2 * MS + 200_001)
        assert world.ask(TRAINER, SHORT, T0 + 3 * MS)[0] == PASS

    def test_who_lingers_is_yielded_to_until_its_time_is_over(self) -> None:
        plan = _plan()
        plan.orders[0][SERVER].linger_ns = 50_000
        world = _world(plan)
        _server_works(world)
        world.drained(SERVER, T0 + MS)
        assert world.ask(TRAINER, SHORT, T0 + MS + 49_999)[0] == IN_ORDER
        assert world.ask(TRAINER, SHORT, T0 + MS + 50_000)[0] == PASS

    def test_the_matrix_lets_classes_pass_beside_one_another(self) -> None:
        plan = _plan()
        plan.corun[SMALL][COMPUTE] = 1
        world = _world(plan)
        _server_works(world)
        assert world.ask(TRAINER, Launch(SMALL, 10), T0)[0] == PASS
        assert world.ask(TRAINER, Launch(LONG, 10), T0)[0] == IN_ORDER
        assert world.ask(TRAINER, Launch(77, 10), T0)[0] == IN_ORDER

    def test_in_flight_work_is_bounded_but_one_launch_always_passes(self) -> None:
        world = _world(_plan(inflight_ns=100))
        large = Launch(COMPUTE, 1000)
        assert world.ask(TRAINER, large, T0)[0] == PASS
        world.launched(TRAINER, large, T0)
        assert world.ask(TRAINER, Launch(COMPUTE, 1), T0)[0] == IN_FLIGHT
        world.finished(TRAINER, 1000, T0)
        assert world.ask(TRAINER, large, T0)[0] == PASS

    def test_a_spent_budget_holds_until_the_others_have_spent_theirs(self) -> None:
        plan = _plan(budget_ns=1 * MS, yields=0)
        plan.orders[0][SERVER].budget_ns = 1 * MS
        world = _world(plan)
        for client in (SERVER, TRAINER):
            assert world.ask(client, SHORT, T0)[0] == PASS
            world.launched(client, Launch(COMPUTE, 600_000), T0)
        world.launched(TRAINER, Launch(COMPUTE, 600_000), T0)
        assert world.ask(TRAINER, SHORT, T0)[0] == BUDGET
        edges = world.rotation.edges
        world.launched(SERVER, Launch(COMPUTE, 600_000), T0)
        assert world.ask(TRAINER, SHORT, T0)[0] == PASS
        assert world.rotation.edges == edges + 1

    def test_clients_of_a_tenant_share_budget_and_bound(self) -> None:
        plan = _plan(budget_ns=1 * MS, inflight_ns=10 * MS, yields=0)
        plan.orders[0][SERVER].budget_ns = 1 * MS
        world = _world(plan, (SERVER, TRAINER, TRAINER))
        world.ask(SERVER, SHORT, T0)
        for client in (1, 2):
            world.launched(client, Launch(COMPUTE, 500_000), T0)
        assert world.ask(1, SHORT, T0)[0] == BUDGET
        assert world.ask(2, SHORT, T0)[0] == BUDGET

    def test_who_has_no_part_is_held(self) -> None:
        world = _world(_plan(member=0))
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0) == (BUDGET, NOBODY)

    def test_a_free_tenant_is_never_held(self) -> None:
        world = _world(_plan(member=0))
        _server_works(world)
        world.control.tenants[TRAINER].flags = layout.TENANT_FREE
        assert world.ask(TRAINER, SHORT, T0)[0] == PASS


class TestWhatFailsOpen:
    def test_all_pass_without_a_plan(self) -> None:
        world = MemoryPlane((SERVER, TRAINER))
        world.beat(T0)
        assert world.ask(TRAINER, SHORT, T0)[0] == PASS

    def test_all_pass_when_the_agent_is_gone(self) -> None:
        world = _world(_plan(member=0))
        _server_works(world)
        world.control.heartbeat_ns = T0
        assert world.ask(TRAINER, SHORT, T0 + 250 * MS - 1)[0] == BUDGET
        assert world.ask(TRAINER, SHORT, T0 + 250 * MS)[0] == PASS
        world.launched(TRAINER, SHORT, T0 + 250 * MS)
        counters = world.slots[TRAINER].counters
        assert (counters.passes_open, counters.flags) == (1, layout.FLAG_OPEN)
        world.beat(T0 + 300 * MS)
        world.launched(TRAINER, SHORT, T0 + 300 * MS)
        assert (counters.passes_open, counters.flags) == (1, 0)

    def test_work_that_should_have_ended_long_ago_holds_nobody(self) -> None:
        world = _world(_plan())
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0 + 100 * MS)[0] == IN_ORDER
        assert world.ask(TRAINER, SHORT, T0 + 104 * MS)[0] == PASS

    def test_a_plan_that_is_being_written_lets_pass(self) -> None:
        world = _world(_plan(member=0))
        world.control.plans[world.control.published].epoch = 0
        assert world.ask(TRAINER, SHORT, T0)[0] == PASS

    @pytest.mark.parametrize("seed", range(20))
    def test_no_scribbled_word_crashes_or_wedges_a_neighbour(self, seed: int) -> None:
        """After the scribbling ends, the neighbour passes within the longest time a squad lasts."""
        rng = random.Random(seed)
        plan = _plan(yields=0)
        plan.duration_ns[0] = 1 * MS
        world = _world(plan)
        now_ns = T0
        for step in range(300):
            address = ctypes.addressof(world.rotation)
            words = (ctypes.c_uint64 * 8).from_address(address)
            words[rng.randrange(8)] = rng.getrandbits(64) >> rng.randrange(64)
            slot = (ctypes.c_uint64 * 16).from_buffer(world.slots[SERVER])
            slot[rng.randrange(16)] = rng.getrandbits(64) >> rng.randrange(64)
            now_ns = T0 + step * 10_000
            why, held_for = world.ask(TRAINER, SHORT, now_ns)
            assert 0 <= why < layout.REASONS
            assert 0 <= held_for <= layout.TENANTS
            world.turn_over(now_ns)
        assert world.ask(TRAINER, SHORT, now_ns + 2 * MS)[0] == PASS

    def test_a_turn_that_starts_in_the_future_ends_now(self) -> None:
        plan = _plan(yields=0)
        plan.squads = 2
        plan.duration_ns[0] = plan.duration_ns[1] = 10 * MS
        plan.orders[1][SERVER].member = 1
        world = _world(plan)
        _server_works(world)
        start_us = (T0 // 1000 + 3_000_000) & 0xFFFFFFFF
        world.rotation.turn = 1 << 40 | 1 << 32 | start_us
        assert world.ask(TRAINER, SHORT, T0)[0] == PASS
        assert layout.turn_squad(world.rotation.turn) == 0


class TestPublishing:
    def test_a_plan_takes_effect_at_the_next_edge(self) -> None:
        plan = _plan(yields=0)
        plan.duration_ns[0] = 1 * MS
        world = _world(plan)
        world.ask(TRAINER, SHORT, T0)
        later = _plan(member=0)
        later.epoch = 2
        world.publish(later)
        _server_works(world)
        assert world.ask(TRAINER, SHORT, T0 + MS // 2)[0] == PASS
        assert world.ask(TRAINER, SHORT, T0 + MS)[0] == BUDGET
        assert world.rotation.adopted_ns == T0 + MS

    def test_an_idle_device_adopts_when_the_agent_turns_over(self) -> None:
        world = _world(_plan())
        second = _plan()
        second.epoch = 2
        world.publish(second)
        world.turn_over(T0 + 5)
        assert world.control.plans[layout.turn_buffer(world.rotation.turn)].epoch == 2

    def test_a_plan_never_reached_gives_way_to_the_next(self) -> None:
        world = _world(_plan(yields=0))
        world.ask(TRAINER, SHORT, T0)
        for epoch in (2, 3, 4):
            plan = _plan(yields=0)
            plan.epoch = epoch
            world.publish(plan)
            in_force = world.control.plans[layout.turn_buffer(world.rotation.turn)].epoch
            assert in_force == max(1, epoch - 1)
            assert world.control.plans[world.control.published].epoch == epoch

    def test_members_and_budgets_are_masked(self) -> None:
        plan = _plan(budget_ns=5)
        world = _world(plan)
        buffer = world.control.plans[world.control.published]
        assert (buffer.members[0], buffer.budgeted[0]) == (0b11, 0b10)


class TestTheLedger:
    def test_a_burst_is_from_first_launch_to_drained(self) -> None:
        world = _world(_plan())
        world.control.tenants[SERVER].target_ns = 2 * MS
        for began, ended in ((T0, T0 + MS), (T0 + 4 * MS, T0 + 7 * MS)):
            _server_works(world, began)
            world.launched(SERVER, Launch(COMPUTE, 300_000), began + 1000)
            world.finished(SERVER, 1 * MS, ended, took_ns=800_000)
            world.finished(SERVER, 300_000, ended)
            world.drained(SERVER, ended)
        slot = world.slots[SERVER]
        counters = slot.counters
        assert (counters.launches, counters.bursts, counters.late) == (4, 2, 1)
        # the first burst was over before what its second kernel was predicted to take
        assert (counters.busy_ns, counters.gpu_ns) == (4 * MS, 2_100_000)
        assert counters.burst_gpu_ns == 2_100_000
        assert (counters.gap_ns, counters.longest_kernel_ns) == (3 * MS, 1 * MS)
        assert [slot.latency[bucket_of(MS)], slot.latency[bucket_of(3 * MS)]] == [1, 1]
        assert slot.activity.busy_since_ns == 0
        assert slot.activity.idle_since_ns == T0 + 7 * MS

    def test_time_lost_by_company_adds_up_over_gaps_that_are_no_pauses(self) -> None:
        world = _world(_plan())
        for began, ended in (
            (T0, T0 + MS),
            (T0 + MS + 100_000, T0 + 3 * MS),
            (T0 + 3 * MS + 100_000, T0 + 5 * MS),
            (T0 + 7 * MS, T0 + 8 * MS),
        ):
            _server_works(world, began)
            world.finished(SERVER, 1 * MS, ended)
            world.drained(SERVER, ended)
        slot = world.slots[SERVER]
        assert slot.lost[bucket_of(0)] == 2
        assert slot.lost[bucket_of(896_000)] == 1
        assert slot.lost[bucket_of(1_789_000)] == 1
        assert slot.counters.burst_alone_ns == pytest.approx(4 * MS, rel=0.01)

    def test_figures_of_a_tick_begin_anew_with_the_next(self) -> None:
        world = _world(_plan())
        _server_works(world)
        world.control.tick = 2
        world.launched(SERVER, Launch(SMALL, 7), T0 + 1)
        counters = world.slots[SERVER].counters
        assert (counters.mark, counters.longest_kernel_ns, counters.gap_ns) == (2, 7, 0)

    def test_more_finished_than_launched_leaves_nothing_in_flight(self) -> None:
        world = _world(_plan())
        _server_works(world)
        world.finished(SERVER, 50 * MS, T0)
        assert world.slots[SERVER].activity.inflight_ns == 0

    def test_reported_requests_have_their_own_buckets(self) -> None:
        world = _world(_plan())
        world.control.tenants[SERVER].target_ns = 2 * MS
        for latency_ns in (MS, 3 * MS):
            plane_library().dure_reported(world.planes[SERVER], latency_ns)
        slot = world.slots[SERVER]
        assert (slot.counters.reported, slot.counters.reported_late) == (2, 1)
        assert slot.reported_latency[bucket_of(3 * MS)] == 1
        assert sum(slot.latency) == 0

    def test_samples_come_out_once_and_the_oldest_are_lost(self) -> None:
        world = _world(_plan())
        taken = (layout.Sample * layout.SAMPLES)()
        tail = ctypes.c_uint64(0)

        def take(most: int = layout.SAMPLES) -> list[int]:
            count = plane_library().dure_take_samples(world.slots[SERVER], tail, taken, most)
            return [taken[index].function for index in range(count)]

        def write(numbers: range) -> None:
            for number in numbers:
                sample = layout.Sample(function=number, duration_ns=5)
                plane_library().dure_sampled(world.planes[SERVER], sample)

        write(range(3))
        assert take(2) == [0, 1]
        assert take() == [2]
        assert take() == []
        write(range(10, 10 + layout.SAMPLES + 5))
        assert take() == list(range(15, 15 + layout.SAMPLES))
        world.slots[SERVER].sample_head = 2**63
        assert take() == []

    def test_buckets_are_those_of_the_domain(self) -> None:
        rng = random.Random(7)
        edges = [round(1000 * 2 ** (k / 8)) + d for k in range(BUCKET_COUNT) for d in (-1, 0, 1)]
        drawn = [int(10 ** rng.uniform(2, 13)) for _ in range(20_000)]
        for latency_ns in [0, 1, 999, 1000, 1001, 2**63, *edges, *drawn]:
            assert plane_library().dure_bucket(latency_ns) == bucket_of(latency_ns)


class TestSets:
    def test_confined_beside_work_and_free_without(self) -> None:
        world = _world(_plan(yields=0, beside=1, group_first=8, group_count=8))

        def groups(now_ns: int) -> tuple[int, int]:
            found = plane_library().dure_set_now(world.planes[TRAINER], now_ns)
            return found.group_first, found.group_count

        assert groups(T0) == (0, 0)
        _server_works(world)
        assert groups(T0 + 1) == (8, 8)
        world.drained(SERVER, T0 + 2)
        assert groups(T0 + 2) == (0, 0)

    def test_who_is_held_with_nothing_submitted_confines_nobody(self) -> None:
        world = _world(_plan(yields=0, beside=1, group_first=8, group_count=8))
        _server_works(world)
        activity = world.slots[SERVER].activity
        activity.waiting, activity.inflight_ns = 1, 0
        assert plane_library().dure_set_now(world.planes[TRAINER], T0).group_count == 0

    def test_a_set_the_device_does_not_have_is_the_whole_device(self) -> None:
        world = _world(_plan(yields=0, beside=1, group_first=12, group_count=8))
        _server_works(world)
        assert plane_library().dure_set_now(world.planes[TRAINER], T0).group_count == 0

    def test_company_is_who_has_work_and_is_believed_by_the_agent(self) -> None:
        world = _world(_plan(), (SERVER, TRAINER, 5))
        _server_works(world)
        world.launched(2, SHORT, T0)
        assert plane_library().dure_company(world.planes[TRAINER], T0) == 1 << SERVER | 1 << 5
        world.slots[2].activity.tenant = 9
        assert plane_library().dure_company(world.planes[TRAINER], T0) == 1 << SERVER


class TestMemory:
    def _may(self, world: MemoryPlane, client: int, size: int, free: int = 2**64 - 1) -> bool:
        return bool(plane_library().dure_memory_may_take(world.planes[client], size, free))

    def _live(self) -> MemoryPlane:
        world = _world(_plan(), (SERVER, TRAINER, TRAINER))
        world.beat(int(plane_library().dure_now_ns()))
        return world

    def test_a_limit_is_the_tenants_over_all_its_clients(self) -> None:
        world = self._live()
        world.control.tenants[TRAINER].memory_limit_bytes = 100
        assert self._may(world, 1, 60)
        plane_library().dure_memory_took(world.planes[1], 60)
        assert not self._may(world, 2, 41)
        assert self._may(world, 2, 40)
        plane_library().dure_memory_gave(world.planes[1], 60)
        assert self._may(world, 2, 100)
        assert world.slots[2].counters.memory_refused == 1
        assert world.slots[1].counters.memory_peak_bytes == 60

    def test_a_reserve_keeps_others_out_until_it_is_used(self) -> None:
        world = self._live()
        world.control.tenants[SERVER].memory_reserve_bytes = 50
        assert not self._may(world, TRAINER, 60, free=100)
        assert self._may(world, SERVER, 60, free=100)
        plane_library().dure_memory_took(world.planes[SERVER], 50)
        assert self._may(world, TRAINER, 50, free=50)

    def test_without_the_drivers_word_the_books_say_what_is_free(self) -> None:
        world = self._live()
        world.control.memory_bytes = 100
        world.control.tenants[SERVER].memory_reserve_bytes = 50
        plane_library().dure_memory_took(world.planes[TRAINER], 30)
        assert self._may(world, TRAINER, 20)
        assert not self._may(world, TRAINER, 21)

    def test_what_a_program_sees_is_narrowed(self) -> None:
        world = self._live()
        world.control.tenants[TRAINER].memory_limit_bytes = 80
        world.control.tenants[SERVER].memory_reserve_bytes = 30
        plane_library().dure_memory_took(world.planes[TRAINER], 10)
        free, total = ctypes.c_uint64(90), ctypes.c_uint64(100)
        plane_library().dure_memory_info(world.planes[TRAINER], free, total)
        assert (free.value, total.value) == (60, 80)

    def test_no_limit_binds_when_the_agent_is_gone(self) -> None:
        world = self._live()
        world.control.tenants[TRAINER].memory_limit_bytes = 10
        world.control.heartbeat_ns = 1
        assert self._may(world, TRAINER, 1000)


def test_copies_keep_to_their_rate_with_a_little_ahead() -> None:
    world = _world(_plan())
    world.control.tenants[TRAINER].copy_bytes_per_s = 1_000_000_000
    now_ns = waited_ns = T0
    for _ in range(100):
        wait_ns = plane_library().dure_copy_wait_ns(world.planes[TRAINER], 4 * MS, now_ns)
        waited_ns += wait_ns
        now_ns += wait_ns
    assert now_ns - T0 == pytest.approx(400 * MS, abs=20 * MS)
    assert world.slots[TRAINER].counters.copied_bytes == 400 * MS
    assert plane_library().dure_copy_wait_ns(world.planes[SERVER], 1 << 40, T0) == 0
