"""Whatever happens in whatever order: nothing runs twice, nothing is lost, nothing stays behind."""

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, Want
from dure.domain.fleet.protocol.reports import RunPhase
from dure.domain.ids import WorkloadId
from dure.member.ports import InventoryChanged, Life, Seen
from tests.member.core.factories import (
    Bench,
    SimulatedCluster,
    a_job,
    a_service,
    inventory,
    released,
    seconds,
    surroundings,
)

NODES, DEVICES = 3, 4
JOBS = {"j1": (1, 1), "j2": (2, 1), "j3": (1, 2), "j4": (3, 1)}
"""Workers, and devices of each: all of them fit at once, with all services."""
SERVICES = ("s1", "s2")
AROUND = replace(surroundings(), policy=FleetPolicy(serving=ClassPolicy(migrate=False)))
"""Services stay where they are: two of one are never right."""
FENCE_S = 40.0


def make(name: str, attempt: int) -> Desired:
    if name in SERVICES:
        return a_service(name, attempt)
    workers, devices = JOBS[name]
    fence = FENCE_S if name == "j3" else None
    return a_job(name, attempt, workers=workers, devices=devices, fence_after_s=fence)


class MemberMachine(RuleBasedStateMachine):
    """A centre that keeps the rules, a cluster where anything happens, a member that may die."""

    @initialize()
    def begin(self) -> None:
        self.bench = Bench(SimulatedCluster(inventory=inventory(NODES, DEVICES)))
        self.desired: dict[AttemptKey, Desired] = {}
        self.attempts: Counter[str] = Counter()
        self.epoch, self.revision = 1, 0
        self.plans: list[Plan] = []
        self.known: dict[AttemptKey, Desired] = {}
        self.linked = True
        self.send(whole=True)

    # The centre

    def _gone(self, key: AttemptKey) -> bool:
        status = self.bench.told.get(key)
        return status is not None and status.phase is RunPhase.GONE

    def _live(self, name: str) -> list[AttemptKey]:
        return [key for key in self.desired if key.job == name and not self._gone(key)]

    @rule(name=st.sampled_from([*JOBS, *SERVICES]))
    def place(self, name: str) -> None:
        live = self._live(name)
        if len(live) >= (2 if name in SERVICES else 1):
            return
        self.attempts[name] += 1
        each = make(name, self.attempts[name])
        self.desired[each.key] = each

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        keys = [key for key, each in self.desired.items() if each.want is Want.RUN]
        if keys:
            key = data.draw(st.sampled_from(keys))
            self.desired[key] = released(self.desired[key])

    @rule()
    def acknowledge_ends(self) -> None:
        """The centre has stored what it was told: what is gone leaves the set."""
        if self.linked:
            for key in [key for key in self.desired if self._gone(key)]:
                del self.desired[key]

    @rule(whole=st.booleans())
    def send(self, whole: bool) -> None:
        if not self.linked:
            return
        desires = self.bench.desk.desires
        fits = desires.epoch == self.epoch and desires.revision == self.revision
        base = self.revision if fits and not whole and self.plans else None
        changed = [each for key, each in self.desired.items() if self.known.get(key) != each]
        removed = tuple(key for key in self.known if key not in self.desired)
        self.revision += 1
        plan = Plan(
            self.epoch,
            self.revision,
            base=base,
            desired=tuple(self.desired.values() if base is None else changed),
            removed=() if base is None else removed,
            surroundings=AROUND if base is None else None,
        )
        self.known = dict(self.desired)
        self.plans.append(plan)
        assert self._give(plan)

    def _give(self, plan: Plan) -> bool:
        answer = self.bench.desk.plan(plan, {}, self.bench.now_ns)
        self.bench.act()
        self.bench.desk.contact(self.bench.now_ns)
        return answer.taken

    @rule(data=st.data())
    def say_an_old_plan_again(self, data: st.DataObject) -> None:
        plan = data.draw(st.sampled_from(self.plans))
        done = len(self.bench.done)
        desires = self.bench.desk.desires
        said, before = (plan.epoch, plan.revision), (desires.epoch, desires.revision)
        first = not self.bench.desk.planned  # strangers may go once any plan is taken
        taken = self._give(plan)
        assert taken or said != before
        if said < before:
            assert not taken
        if said < before or (said == before and not first):
            assert len(self.bench.done) == done

    @rule()
    def another_leads(self) -> None:
        self.epoch, self.revision = self.epoch + 1, 0
        self.send(whole=True)

    @rule()
    def cut_or_mend(self) -> None:
        self.linked = not self.linked

    # The cluster

    def _alive(self) -> list[Seen]:
        return self.bench.cluster.alive()

    @rule(
        data=st.data(),
        life=st.sampled_from(
            [Life.READY, Life.READY, *[Life.SUCCEEDED, Life.FAILED, Life.GONE, Life.UNBOUND]]
        ),
    )
    def something_becomes(self, data: st.DataObject, life: Life) -> None:
        alive = [seen for seen in self._alive() if seen.life is not Life.ENDING]
        if alive:
            seen = data.draw(st.sampled_from(alive))
            self.bench.become(seen.instance, life, started_ns=self.bench.now_ns)

    @rule()
    def all_get_ready(self) -> None:
        self.bench.run_all()

    @rule()
    def endings_end(self) -> None:
        self.bench.finish_endings()

    @rule(s=st.sampled_from([0.5, 3.0, 20.0]))
    def time_passes(self, s: float) -> None:
        self.bench.wait(s)
        if self.linked:
            self.bench.desk.contact(self.bench.now_ns)

    @rule(
        down=st.sampled_from(["n0", "n1", "n2", ""]), why=st.sampled_from(["not ready", "cordoned"])
    )
    def nodes_change(self, down: str, why: str) -> None:
        self._nodes(inventory(NODES, DEVICES, [down] if down else [], why))

    @rule(order=st.permutations(range(NODES)))
    def nodes_are_numbered_anew(self, order: list[int]) -> None:
        known = self.bench.cluster.inventory
        self._nodes(replace(known, nodes=tuple(known.nodes[each] for each in order)))

    def _nodes(self, there: object) -> None:
        self.bench.cluster.inventory = there  # type: ignore[assignment]
        self.bench.desk.see(InventoryChanged(self.bench.cluster.inventory), self.bench.now_ns)
        self.bench.act()

    # Death

    @rule(away_s=st.sampled_from([0.0, 5.0, 60.0]))
    def the_member_dies(self, away_s: float) -> None:
        self._restart(away_s)

    @rule()
    @precondition(lambda self: self.linked)
    def the_member_dies_in_the_middle_of_a_plan(self) -> None:
        """It took the plan and did part of it; nothing of that is in its memory."""
        self.revision += 1
        plan = Plan(
            self.epoch,
            self.revision,
            desired=tuple(self.desired.values()),
            surroundings=AROUND,
        )
        self.plans.append(plan)
        self.known = dict(self.desired)
        self.bench.desk.plan(plan, {}, self.bench.now_ns)
        for action in self.bench.desk.actions()[:1]:
            self.bench._do(action)
        self._restart(0.0)

    def _restart(self, away_s: float) -> None:
        bench = self.bench
        bench.now_ns += seconds(away_s)
        bench.ending = [name for name in bench.ending if name in bench.cluster.objects]
        bench.start()

    # Always

    @invariant()
    def a_job_never_runs_twice(self) -> None:
        by_job: dict[WorkloadId, list[Seen]] = {}
        for seen in self._alive():
            by_job.setdefault(seen.instance.workload, []).append(seen)
        for name, alive in by_job.items():
            if name in JOBS:
                assert len({each.instance.attempt for each in alive}) == 1
                assert len(alive) <= JOBS[name][0]

    @invariant()
    def a_service_has_no_more_replicas_than_wanted(self) -> None:
        count = Counter(
            (seen.instance.workload, seen.instance.attempt)
            for seen in self._alive()
            if seen.instance.workload in SERVICES and seen.life is not Life.ENDING
        )
        assert all(each <= 1 for each in count.values())

    @invariant()
    def no_device_has_two_holders(self) -> None:
        held = Counter(
            (seen.node, device) for seen in self._alive() for device in seen.devices or ()
        )
        assert all(count == 1 for count in held.values())

    def teardown(self) -> None:
        """All is well again: what is wanted runs, what is not is gone, what ended is told."""
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        self.linked = True
        self._nodes(inventory(NODES, DEVICES))
        self.send(whole=True)
        for _ in range(3):
            bench.desk.contact(bench.now_ns)
            bench.settle()
            bench.now_ns += seconds(61)
            bench.desk.contact(bench.now_ns)
            bench.settle()
        wanted = {key for key, each in self.desired.items() if each.want is Want.RUN}
        running = {
            AttemptKey(seen.instance.workload, seen.instance.attempt) for seen in self._alive()
        }
        assert running <= wanted
        for key, each in self.desired.items():
            phase = bench.told[key].phase
            if key in running:
                assert phase is RunPhase.RUNNING
            else:
                assert phase is RunPhase.GONE, bench.desk.books.attempts[key]
                assert bench.told[key].outcome is not None
            if each.want is Want.RELEASE:
                assert phase is RunPhase.GONE
        done = len(bench.done)
        assert self._give(self.plans[-1])
        assert len(bench.done) == done
        self.desired = {key: self.desired[key] for key in self.desired if key in running}
        self.send(whole=True)
        bench.settle()
        kept = {AttemptKey(name.workload, name.attempt) for name in bench.cluster.objects}
        assert kept == running


MemberMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMember = MemberMachine.TestCase
