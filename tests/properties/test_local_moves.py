"""Whatever comes and goes, moves inside a cluster harm nobody and leave the books straight."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.events import NodeBack, NodeLost
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import WorkloadKind
from dure.fleet.local.settings import LocalSettings, TidyRules
from tests.fleet.local.factories import Rig, batch, cluster, group, order, serving, training

TIDY = TidyRules(interval_ns=10 * MINUTE_NS, blocked_ns=5 * MINUTE_NS, gain=0.5, rest_ns=0)

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["train", "train", "serve", "batch", "end", "end", "warm", "save", "save", "lose"]
        ),
        st.integers(0, 99),
    ),
    min_size=15,
    max_size=50,
)


def play(history: list[tuple[str, int]]) -> Rig:
    """A cluster in which much comes and goes."""
    groups = (group(count=3), group("mig", 1, 2, ShareMode.MIG))
    it = Rig(LocalSettings(cluster(*groups), tidy=TIDY, validate=True))
    for number, (what, choice) in enumerate(history):
        running = sorted({str(name.workload) for name in it.running})
        name = running[choice % len(running)] if running else ""
        match what:
            case "train":
                devices = (1, 1, 1, 2, 4)[choice % 5]
                it.give(order(training(f"t{number}", 1, devices, hours=50)))
            case "serve":
                where = "gpus" if choice % 2 else "mig"
                it.give(order(serving(f"s{number}", whole=choice % 2 == 1), group=where))
            case "batch":
                memory = (4, 15, 30, 60)[choice % 4]
                it.give(order(batch(f"b{number}", memory, hours=50), group="mig"))
            case "end" if name.startswith("s"):
                it.withdraw(name)
            case "end" if name:
                it.end(name)
            case "warm":
                it.warm_all()
            case "save" if name.startswith(("t", "b")):
                it.checkpoint(name)
            case "lose" if choice % 5 == 0:
                it.tell(NodeLost(it.now_ns, choice % 4))
                it.round()
                it.tell(NodeBack(it.now_ns, choice % 4))
        it.round(6)
    return it


@settings(max_examples=40, deadline=None)
@given(steps)
def test_moves_oversubscribe_nothing_and_lose_nobody(history: list[tuple[str, int]]) -> None:
    it = play(history)
    tasks = it.machine.floor.tasks
    for name in it.running:
        assert name.index in tasks[name.workload].instances
    for task in tasks.values():
        assert set(task.instances) == {each.index for each in it.of(task.id)}
        if task.order.workload.kind is not WorkloadKind.SERVING:
            assert len(task.instances) in {0, task.wanted}


@settings(max_examples=15, deadline=None)
@given(steps)
def test_when_all_moves_are_done_every_place_but_the_running_is_free(
    history: list[tuple[str, int]],
) -> None:
    it = play(history)
    for name in sorted({str(each.workload) for each in it.running}):
        if it.of(name)[0].workload[0] != "s":
            it.checkpoint(name)
    it.warm_all()
    for name in sorted({str(each) for each in it.machine.floor.tasks}):
        it.withdraw(name)
    assert not it.running
    for told in it.summary.values():
        assert told.free_devices == told.devices
        assert told.free_compute_milli == 1000 * told.devices
        assert told.nodes_in_use == 0
    assert not any(each.draining.any() for each in it.machine.floor.yard.fields)
