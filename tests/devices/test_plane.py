"""The agent's side of the data plane: what a plan becomes in shared memory, what is read back."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.devices import layout, library
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.devices.plane_library import Launch, Plane, plane_library
from dure.domain.errors import InputError
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.latency import bucket_of
from dure.domain.plan import Plan, SmSet, Squad, SquadMember
from tests.native.doors import DEVICE, attach, door, let_in

MS = 1_000_000
WEB, TRAIN = TenantId("web"), TenantId("train")
INDEX = {WEB: 2, TRAIN: 7}


@dataclass(frozen=True, slots=True)
class Words:
    clients: int = 0
    memory_limit_bytes: int = 0
    memory_reserve_bytes: int = 0
    copy_bytes_per_s: int = 0
    target_ns: int = 0
    free: bool = False


@pytest.fixture
def segments() -> Iterator[PlaneSegments]:
    made = PlaneSegments(DEVICE)
    yield made
    made.close()


@pytest.fixture
def client(tmp_path: Path, segments: PlaneSegments) -> Iterator[Plane]:
    """A client of tenant 2 in slot 0, attached over a socket."""
    segments.set_tenant(2, Words(clients=1, target_ns=2 * MS))
    segments.set_live_clients(1)
    with door(tmp_path / "d", let_in(segments, client=0, tenant=2)):
        status, reason, plane = attach(tmp_path / "d")
        assert status == 0, reason
        yield plane
        plane_library().dure_detach(plane)


def _plan(epoch: int = 1, *members: SquadMember) -> Plan:
    return Plan(
        epoch=PlanEpoch(epoch),
        policy="slo",
        squads=(Squad(members, duration_ns=3 * MS),),
        protected=(WEB,),
        corun=tuple(tuple(asks == 2 and runs == 1 for runs in range(4)) for asks in range(4)),
    )


def _published(segments: PlaneSegments) -> layout.PlanBuffer:
    words = segments._plan.words
    buffer: layout.PlanBuffer = words.plans[words.published]
    return buffer


class TestPublishing:
    def test_a_plan_becomes_orders_by_tenant_index(self, segments: PlaneSegments) -> None:
        train = SquadMember(
            TRAIN,
            SmSet(64, 64),
            beside=(WEB,),
            budget_ns=11,
            inflight_ns=12,
            yields_to=(WEB,),
            patience_ns=13,
            linger_ns=14,
        )
        segments.publish(_plan(5, SquadMember(WEB, SmSet(0, 132)), train), INDEX)
        buffer = _published(segments)
        assert (buffer.epoch, buffer.squads, buffer.promised) == (5, 1, 1 << 2)
        assert buffer.duration_ns[0] == 3 * MS
        assert (buffer.members[0], buffer.budgeted[0]) == (1 << 2 | 1 << 7, 1 << 7)
        assert [list(row) for row in buffer.corun] == [[0] * 4, [0] * 4, [0, 1, 0, 0], [0] * 4]
        order = buffer.orders[0][7]
        assert (order.group_first, order.group_count) == (8, 8)
        assert (order.beside, order.yields) == (1 << 2, 1 << 2)
        times = (order.budget_ns, order.inflight_ns, order.patience_ns, order.linger_ns)
        assert times == (11, 12, 13, 14)
        assert buffer.orders[0][2].group_count == 0

    @pytest.mark.parametrize(
        ("sms", "groups"),
        [
            (SmSet(0, 132), (0, 0)),
            (SmSet(0, 128), (0, 0)),
            (SmSet(0, 64), (0, 8)),
            (SmSet(64, 68), (8, 8)),
            (SmSet(120, 12), (15, 1)),
            (SmSet(0, 0), (0, 0)),
        ],
    )
    def test_sets_are_whole_groups_that_the_device_has(
        self, segments: PlaneSegments, sms: SmSet, groups: tuple[int, int]
    ) -> None:
        segments.publish(_plan(1, SquadMember(WEB, sms)), INDEX)
        order = _published(segments).orders[0][2]
        assert (order.group_first, order.group_count) == groups

    def test_a_device_without_groups_has_no_sets(self) -> None:
        segments = PlaneSegments(PlaneDevice(132, 0, 1, bytes(16)))
        segments.publish(_plan(1, SquadMember(WEB, SmSet(0, 64))), INDEX)
        assert _published(segments).orders[0][2].group_count == 0
        segments.close()

    def test_nothing_of_an_earlier_plan_is_left(self, segments: PlaneSegments) -> None:
        for epoch in (1, 2):
            segments.publish(_plan(epoch, SquadMember(TRAIN, SmSet(0, 8), budget_ns=9)), INDEX)
        for epoch in (3, 4):
            segments.publish(_plan(epoch, SquadMember(WEB, SmSet(0, 132))), INDEX)
        for buffer in segments._plan.words.plans:
            assert (buffer.members[0], buffer.budgeted[0]) == (1 << 2, 0)
            assert buffer.orders[0][7].member == 0

    def test_who_left_meanwhile_is_left_out(self, segments: PlaneSegments) -> None:
        train = SquadMember(TRAIN, SmSet(0, 132), yields_to=(WEB,))
        segments.publish(_plan(1, SquadMember(WEB, SmSet(0, 132)), train), {TRAIN: 7})
        buffer = _published(segments)
        assert (buffer.members[0], buffer.promised, buffer.orders[0][7].yields) == (1 << 7, 0, 0)

    def test_an_idle_device_takes_a_plan_up_when_turned_over(self, segments: PlaneSegments) -> None:
        segments.set_gated(True)
        segments.publish(_plan(4, SquadMember(WEB, SmSet(0, 132))), INDEX)
        assert segments.turn().epoch == 0
        segments.turn_over(7 * MS)
        turn = segments.turn()
        assert (turn.epoch, turn.squad, turn.dormant, turn.adopted_ns) == (4, 0, True, 7 * MS)


class TestReading:
    def test_an_empty_slot_has_no_reading(self, segments: PlaneSegments) -> None:
        assert segments.read(0) is None

    def test_what_a_client_counts_is_read(self, segments: PlaneSegments, client: Plane) -> None:
        segments.beat(100 * MS)
        plane_library().dure_launched(client, Launch(1, 5 * MS), 100 * MS)
        working = segments.read(0)
        assert working is not None
        assert working.has_work(103 * MS)
        assert working.busy_ns(103 * MS) == 3 * MS
        plane_library().dure_finished(client, 5 * MS, 4 * MS, 104 * MS)
        plane_library().dure_drained(client, 104 * MS)
        plane_library().dure_reported(client, 1 * MS)
        idle = segments.read(0)
        assert idle is not None
        assert not idle.has_work(104 * MS)
        assert idle.busy_ns(200 * MS) == 4 * MS
        assert (idle.counters.launches, idle.counters.gpu_ns, idle.counters.late) == (1, 4 * MS, 1)
        assert idle.latency[bucket_of(4 * MS)] == 1
        assert idle.reported_latency[bucket_of(MS)] == 1
        assert working.counters.gpu_ns == 0, "a reading stands still"

    def test_work_of_a_stopped_client_counts_until_it_expires(
        self, segments: PlaneSegments, client: Plane
    ) -> None:
        plane_library().dure_launched(client, Launch(1, 0), 100 * MS)
        reading = segments.read(0)
        assert reading is not None
        assert not reading.has_work(900 * MS)
        assert reading.busy_ns(900 * MS) == 100 * MS

    def test_figures_of_a_tick_count_for_that_tick(
        self, segments: PlaneSegments, client: Plane
    ) -> None:
        plane_library().dure_launched(client, Launch(1, 5), 100 * MS)
        before = segments.read(0)
        segments.count_tick()
        after = segments.read(0)
        assert before is not None
        assert after is not None
        assert (before.since_tick, after.since_tick) == (True, False)

    def test_samples_come_once(self, segments: PlaneSegments, client: Plane) -> None:
        for number in range(3):
            sample = layout.Sample(function=number, blocks=4, duration_ns=100 + number)
            plane_library().dure_sampled(client, sample)
        taken = segments.take_samples(0)
        assert [(s.function, s.blocks, s.duration_ns) for s in taken] == [
            (0, 4, 100),
            (1, 4, 101),
            (2, 4, 102),
        ]
        assert segments.take_samples(0) == []

    def test_a_slot_used_again_begins_from_nothing(
        self, segments: PlaneSegments, client: Plane
    ) -> None:
        plane_library().dure_launched(client, Launch(1, 5), 100 * MS)
        plane_library().dure_sampled(client, layout.Sample(function=1, duration_ns=1))
        segments.wipe(0)
        assert segments.read(0) is None
        assert segments.take_samples(0) == []


def test_clients_see_the_words_the_agent_sets(segments: PlaneSegments, client: Plane) -> None:
    segments.beat(50 * MS)
    segments.set_sample_every(16)
    segments.set_tenant(2, Words(3, 100, 10, 1000, 5 * MS, free=True))
    control = client.control.contents
    assert (control.heartbeat_ns, control.sample_every, control.live_clients) == (50 * MS, 16, 1)
    assert (control.sms, control.group_sms, bytes(control.uuid)) == (132, 8, DEVICE.uuid)
    entry = control.tenants[2]
    assert (entry.clients, entry.memory_limit_bytes, entry.memory_reserve_bytes) == (3, 100, 10)
    assert (entry.copy_bytes_per_s, entry.target_ns, entry.flags) == (1000, 5 * MS, 1)
    assert not plane_library().dure_gated(client, 60 * MS)
    segments.set_gated(True)
    assert plane_library().dure_gated(client, 60 * MS)


def test_no_descriptor_is_left_open() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    PlaneSegments(DEVICE).close()
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_file_that_was_not_built_is_named_with_a_remedy() -> None:
    with pytest.raises(InputError, match=r"libnone\.so was not built.*gcc"):
        library.path("libnone.so")


_MANY_GPUS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 8192))
from dure.devices.plane import PlaneDevice, PlaneSegments
gpus = [PlaneSegments(PlaneDevice(132, 8, 1, bytes(16))) for _ in range(8)]
print(len(gpus[7].descriptors_for(0)))
"""


def test_eight_gpus_fit_under_the_usual_limit_of_descriptors() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MANY_GPUS], capture_output=True, text=True, check=False
    )
    assert done.stdout == "67\n", done.stderr
