"""A local stage that takes over another's cluster says the same of it and goes on the same way."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.events import (
    ForeignUsed,
    InstanceEnded,
    InstanceFound,
    NodeCordoned,
    NodeLost,
    OrderGiven,
    RoundDue,
)
from dure.domain.fleet.instructions import StartInstance
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Workload
from dure.fleet.local.settings import LocalSettings
from tests.fleet.local.factories import Rig, batch, cluster, group, order, serving, training

GROUPS = (
    group("gpus", 3, 4, link_domain=2),
    group("mig", 2, 2, ShareMode.MIG),
    group("mps", 1, 2, ShareMode.MPS),
)
NODES, DEVICES = 6, 18
TEMPLATES = {
    "": 1000,
    "1g.10gb": 142,
    "2g.20gb": 285,
    "3g.40gb": 428,
    "mps.5pc": 50,
    "mps.20pc": 200,
    "mps.50pc": 500,
    "nothing": 100,
}


def _settings() -> LocalSettings:
    still = {"elastic": False, "defragment": False, "power_down": False}
    return LocalSettings(cluster(*GROUPS), validate=True, **still)  # type: ignore[arg-type]


@st.composite
def workloads(draw: st.DrawFn, name: str) -> tuple[Workload, str, int | None]:
    """Something to run, in which group, how often."""
    where = draw(st.sampled_from(["gpus", "mig", "mps"]))
    kind = draw(st.sampled_from(["train", "batch", "serve"]))
    if kind == "train":
        made = training(name, draw(st.integers(1, 5)), draw(st.integers(1, 2)))
        return made, "gpus", None
    memory = draw(st.sampled_from([4, 15, 30]))
    if kind == "batch":
        return batch(name, memory), where, None
    return serving(name, 1, memory), where, draw(st.integers(1, 4))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[Any]]:
    """What happens to nodes, orders before the restart, orders after it."""
    nodes: list[Any] = []
    for node in range(NODES):
        match draw(st.sampled_from(["well", "well", "well", "cordoned", "lost", "foreign"])):
            case "cordoned":
                nodes.append(NodeCordoned(0, node))
            case "lost":
                nodes.append(NodeLost(0, node))
            case "foreign":
                use = draw(st.integers(0, 6)), draw(st.integers(0, 80_000))
                nodes.append(ForeignUsed(0, node, *use))
    before = [draw(workloads(f"a{number}")) for number in range(draw(st.integers(0, 8)))]
    after = [draw(workloads(f"b{number}")) for number in range(draw(st.integers(0, 5)))]
    return nodes, before, after


def _give(it: Rig, work: list[Any]) -> None:
    for workload, where, instances in work:
        it.tell(OrderGiven(it.now_ns, order(workload, instances, group=where)))


def _figures(it: Rig) -> Any:
    return {name: replace(each, revision=0) for name, each in it.summary.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), late=st.booleans(), data=st.data())
def test_who_takes_over_says_the_same_and_goes_on_alike(
    history: tuple[list[Any], list[Any], list[Any]], late: bool, data: st.DataObject
) -> None:
    """Nodes fall ill before or after work was placed; then the stage is restarted."""
    nodes, before, after = history
    it = Rig(_settings())
    if not late:
        for event in nodes:
            it.tell(event)
    _give(it, before)
    it.round()
    it.warm_all()
    if late:
        for event in nodes:
            it.tell(event)
        it.round()
        it.warm_all()
    it.round()

    new = Rig(_settings())
    for event in nodes:
        new.tell(event)
    names = data.draw(st.permutations(sorted(it.running, key=str)))
    for name in names:
        new.running[name], new.orders[name] = it.running[name], it.orders[name]
        new._ever.add(name)
        found = InstanceFound(0, it.orders[name], name, it.running[name], warm=True)
        assert new.tell(found) == [], "a place that is there was refused"
    for task in it.machine.floor.tasks.values():
        for index in set(range(task.next_index)) - set(task.instances):
            ended = InstanceId(task.order.workload.id, task.order.attempt, index)
            if task.serving or not task.instances:
                new.tell(InstanceEnded(0, ended))
        new.tell(OrderGiven(task.given_ns, task.order))
    answer = new.round()
    assume(not new.turned_down)  # what waited for a group of which nothing is left goes back
    assert not [each for each in answer if isinstance(each, StartInstance)]
    assert new.running == it.running
    assert _figures(new) == _figures(it)

    for rig in (it, new):
        _give(rig, after)
        rig.round()
    assert new.running == it.running
    assert _figures(new) == _figures(it)


def _node_of(device: int) -> int:
    return device // 4 if device < 12 else 3 + (device - 12) // 2


@st.composite
def likely(draw: st.DrawFn) -> Placement:
    """A place that may well be true."""
    device = draw(st.integers(0, DEVICES - 1))
    if device < 12:
        return Placement(_node_of(device), (device,))
    if device < 16:
        name = draw(st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb"]))
        mask = draw(st.sampled_from([1, 2, 3, 12, 15, 64, 240]))
        return Placement(_node_of(device), (device,), (mask,), name, TEMPLATES[name])
    name = draw(st.sampled_from(["mps.5pc", "mps.20pc", "mps.50pc"]))
    return Placement(_node_of(device), (device,), (), name, TEMPLATES[name])


@st.composite
def unlikely(draw: st.DrawFn) -> Placement:
    """Anything that somebody might claim."""
    node = draw(st.integers(-1, NODES))
    devices = tuple(draw(st.lists(st.integers(-1, DEVICES), max_size=3)))
    masks = draw(st.sampled_from([(), (1,), (64,), (300, 1)]))
    template = draw(st.sampled_from(sorted(TEMPLATES)))
    milli = draw(st.sampled_from([TEMPLATES[template], 0]))
    return Placement(node, devices, masks, template, milli)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    claims=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 3), likely() | likely() | unlikely(), st.booleans()
        ),
        max_size=12,
    ),
    history=histories(),
)
def test_whatever_is_claimed_nothing_is_given_out_twice(
    claims: list[tuple[int, int, Placement, bool]], history: tuple[list[Any], list[Any], list[Any]]
) -> None:
    """Claims that cannot be are answered by a stop; the checks of rig and machine see the rest."""
    nodes, before, after = history
    it = Rig(_settings())
    for event in nodes:
        it.tell(event)
    orders = [order(work, count, group=where) for work, where, count in before]
    for which, index, place, warm in claims:
        if which >= len(orders):
            continue
        made = orders[which]
        name = InstanceId(made.workload.id, made.attempt, index)
        if name in it.running:
            continue
        answer = it.machine.handle(InstanceFound(0, made, name, place, warm))
        it._ever.add(name)
        for stop in answer:
            it._forget(stop.instance)  # type: ignore[union-attr]
        if all(stop.instance != name for stop in answer):  # type: ignore[union-attr]
            it.running[name], it.orders[name] = place, made
            it._check_capacity()
    _give(it, after)
    it.tell(RoundDue(0))
    it.warm_all()
    it.round(10.0)
