"""Whatever happens in whatever order: nothing is lost, placed twice, or given out twice."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dure.domain.fleet.events import (
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    GlobalEvent,
    OrderTurnedDown,
    RoundDue,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    RefuseWorkload,
)
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import WhenCutOff, Workload
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from tests.fleet.factories import cluster, fleet, group, job, patient, summary

MEMBERS = (
    cluster("own", rent=None, groups=(group(nodes=1),)),
    cluster("cloud", groups=(group(nodes=2),)),
    cluster("edge", rent=3.0, groups=(group(nodes=1, devices=4),)),
)
DEVICES = {str(member.id): member.groups[0].count * member.groups[0].devices for member in MEMBERS}


@dataclass
class Ground:
    """A crude world that keeps its own count of who is where."""

    machine: GlobalMachine
    now_ns: int = 0
    live: dict[tuple[WorkloadId, int], tuple[str, int]] = field(default_factory=dict)
    """By workload and attempt: cluster and devices."""
    known: dict[WorkloadId, Workload] = field(default_factory=dict)
    done: set[WorkloadId] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    said: list[GlobalInstruction] = field(default_factory=list)
    later: list[GlobalEvent] = field(default_factory=list)

    def tell(self, event: GlobalEvent) -> None:
        for each in self.machine.handle(event):
            self.said.append(each)
            match each:
                case PlaceWorkload(order) | MoveWorkload(order=order):
                    name, cluster_id = order.workload.id, str(order.site.cluster)
                    assert cluster_id not in self.lost, "ordered to a cluster that is lost"
                    assert (name, order.attempt) not in self.live, "an attempt was used twice"
                    assert name not in self.done
                    if isinstance(each, PlaceWorkload):
                        twice = [where for (other, _), where in self.live.items() if other == name]
                        assert all(where[0] in self.lost for where in twice), "placed twice"
                    devices = order.workload.demand.devices * order.instances
                    assert order.instances == order.workload.gang.workers, "half a gang"
                    self.live[name, order.attempt] = (cluster_id, devices)
                case PreemptWorkload(workload=name, attempt=attempt):
                    self.stop(name, attempt)
                case RefuseWorkload(workload=name):
                    self.done.add(name)

    def stop(self, name: WorkloadId, attempt: int) -> None:
        if self.live.pop((name, attempt), None) is not None:
            self.later.append(WorkloadStopped(self.now_ns, name, attempt, 0.25, "displaced"))

    def used(self, cluster_id: str) -> int:
        return sum(devices for where, devices in self.live.values() if where == cluster_id)

    def round(self) -> None:
        events, self.later = self.later, []
        for event in events:
            self.tell(event)
        for member in MEMBERS:
            if str(member.id) not in self.lost:
                used = min(self.used(str(member.id)), DEVICES[str(member.id)])
                self.tell(ClusterSummarised(self.now_ns, (summary(member, used=used),)))
        self.tell(RoundDue(self.now_ns))


steps = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "submit",
                "submit",
                "submit",
                "start",
                "progress",
                "end",
                "down",
                "stop",
                "lose",
                "back",
            )
        ),
        st.integers(0, 10_000),
        st.integers(0, 5),
    ),
    min_size=5,
    max_size=50,
)


def play(history: list[tuple[str, int, int]], policy: FleetPolicy) -> Ground:
    """Feed a history to a machine that checks itself after every event."""
    machine = GlobalMachine(GlobalSettings(fleet(*MEMBERS), policy, validate=True))
    ground = Ground(machine)
    for member in MEMBERS:
        ground.tell(ClusterJoined(0, member))
    for number, (what, pick, rounds) in enumerate(history):
        act(ground, what, pick, number)
        for _ in range(rounds):
            ground.now_ns += HOUR_NS // 6
            ground.round()
    for name in ground.lost:
        ground.tell(ClusterJoined(ground.now_ns, next(m for m in MEMBERS if m.id == name)))
    ground.lost = set()
    return ground


def act(ground: Ground, what: str, pick: int, number: int) -> None:
    """One thing that may happen."""
    now_ns = ground.now_ns
    if what == "submit":
        workload = made_up(pick, number, now_ns)
        ground.known[workload.id] = workload
        ground.tell(WorkloadSubmitted(now_ns, workload))
        return
    if what in ("lose", "back"):
        member = MEMBERS[pick % len(MEMBERS)]
        if what == "lose" and len(ground.lost) < 2 and member.id not in ground.lost:
            ground.lost.add(str(member.id))
            ground.tell(ClusterLost(now_ns, member.id))
        elif what == "back" and member.id in ground.lost:
            ground.lost.discard(str(member.id))
            ground.tell(ClusterJoined(now_ns, member))
        return
    reachable = [key for key, where in ground.live.items() if where[0] not in ground.lost]
    if not reachable:
        return
    name, attempt = reachable[pick % len(reachable)]
    match what:
        case "start":
            ground.tell(WorkloadStarted(now_ns, name, attempt))
        case "progress":
            ground.tell(WorkloadProgressed(now_ns, name, 0.5, 0.25, 1))
        case "end":
            ground.done.add(name)
            for key in [key for key in ground.live if key[0] == name]:
                del ground.live[key]
            ground.tell(WorkloadEnded(now_ns, name))
        case "down":
            del ground.live[name, attempt]
            ground.tell(OrderTurnedDown(now_ns, name, attempt, "full"))
        case "stop":
            del ground.live[name, attempt]
            ground.tell(WorkloadStopped(now_ns, name, attempt, 0.5, "node died"))


def made_up(pick: int, number: int, now_ns: int) -> Workload:
    """A job of some shape."""
    rest: dict[str, Any] = {
        "hours": 0.5 + pick % 7,
        "devices": (1, 1, 2, 4, 8)[pick % 5],
        "workers": (1, 1, 1, 2)[pick % 4],
        "priority": (0, 0, 0, 3)[pick % 4],
        "tenant": TenantId(("ann", "bob", "eve")[pick % 3]),
        "when_cut_off": tuple(WhenCutOff)[pick % 3],
        "submitted_ns": now_ns,
    }
    if pick % 2:
        return patient(f"w{number}", due_h=now_ns / HOUR_NS + 4 + pick % 30, **rest)
    return job(f"w{number}", **rest)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps)
def test_no_job_is_lost_or_placed_twice(history: list[tuple[str, int, int]]) -> None:
    ground = play(history, FleetPolicy())
    tracked = set(ground.machine.state.tracks)
    assert tracked == set(ground.known) - ground.done
    for _ in range(12):
        ground.now_ns += HOUR_NS
        ground.round()
    # With nothing else happening, whoever has no place is one that there is no room for.
    for name in tracked:
        track = ground.machine.state.tracks[name]
        assert track.active or ground.machine.why_waiting(name)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(steps)
def test_capacity_is_never_given_out_twice(history: list[tuple[str, int, int]]) -> None:
    policy = FleetPolicy(migrate=False, most_preemptions=0)
    ground = play(history, policy)
    for member in MEMBERS:
        assert ground.used(str(member.id)) <= DEVICES[str(member.id)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(steps)
def test_a_round_on_an_unchanged_state_says_nothing(history: list[tuple[str, int, int]]) -> None:
    ground = play(history, FleetPolicy())
    ground.round()
    assert ground.machine.handle(RoundDue(ground.now_ns)) == []


@settings(max_examples=20, deadline=None, derandomize=True)
@given(steps)
def test_the_same_events_give_the_same_instructions(history: list[tuple[str, int, int]]) -> None:
    assert play(history, FleetPolicy()).said == play(history, FleetPolicy()).said


@settings(max_examples=20, deadline=None, derandomize=True)
@given(steps)
@example([("submit", 0, 0), ("submit", 1, 1), ("down", 1, 1), ("start", 1, 5), ("start", 1, 0)])
def test_no_move_saves_less_than_the_threshold(history: list[tuple[str, int, int]]) -> None:
    policy = FleetPolicy()
    for each in play(history, policy).said:
        if isinstance(each, MoveWorkload):
            rule = policy.of(each.order.workload.kind)
            assert each.expected_saving >= rule.migration_threshold
