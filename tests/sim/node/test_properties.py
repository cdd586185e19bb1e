"""Promises that hold in whatever scenario, under every strategy."""

import pytest
from hypothesis import HealthCheck as Check
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dure.node.settings import NodeSettings
from dure.sim.node.containers import ContainerSpec, HealthCheck
from dure.sim.node.faults import Deed, Fault, FaultKind, PersonAct
from dure.sim.node.model import GpuModel, HostModel
from dure.sim.node.modes import MODES
from dure.sim.node.results import NodeResult
from dure.sim.node.run import Setting, run
from dure.sim.node.steps import (
    Allocate,
    Close,
    Copy,
    Free,
    HostWork,
    Kernel,
    Loop,
    Meet,
    Serve,
    Step,
    matmul,
)
from dure.sim.node.world import KILLED_HELD, STOPPED
from tests.sim.node.worlds import GB, MS, S

MANAGED = [name for name, mode in MODES.items() if mode.strategy is not None]
LIMIT_NS = 900 * S
SETTINGS = NodeSettings(
    max_pause_ns=20 * S, max_freeze_ns=15 * S, max_freeze_checked_ns=6 * S, max_admission_ns=30 * S
)
LONGEST_S = 30.0
"""The longest of these bounds."""
LATE_S = 0.1
"""How much later than its deadline a pause may end: letting go by Docker takes 35 ms."""


@st.composite
def programs(draw: st.DrawFn) -> tuple[Step, ...]:
    """One of the kinds of program that are hard to queue."""
    size = draw(st.integers(1, 60)) * GB
    kernel = Kernel(draw(st.sampled_from((5, 40, 300, 1500, 4000))) * MS)
    rest = HostWork(draw(st.sampled_from((1, 20, 500, 2500))) * MS)
    turns = draw(st.integers(1, 8))
    match draw(st.sampled_from(("product", "iterating", "looper", "closing", "server", "late"))):
        case "product":
            return matmul(draw(st.sampled_from((4_096, 8_192, 13_312, 19_456))))
        case "iterating":
            loop = Loop(turns, (kernel, rest))
            return (Allocate(size), Copy(size // 4, into_gpu=True), loop)
        case "looper":
            once = (Allocate(size), Copy(size // 8, into_gpu=True), kernel, Free(), rest)
            return (Loop(turns, once),)
        case "closing":
            return (Loop(turns, (Allocate(size), kernel, Close(), rest)),)
        case "server":
            gap = draw(st.sampled_from((30, 200, 1500))) * MS
            arrivals = tuple(gap * n for n in range(20))
            return (Allocate(size), Serve(arrivals, (HostWork(MS), Kernel(4 * MS))))
        case _:
            return (rest, Allocate(size), rest, kernel, Copy(size // 8, into_gpu=False), rest)


LABELS = st.sampled_from(
    (
        {},
        {"dure.priority": "high"},
        {"dure.priority": "low", "dure.weight": "3"},
        {"dure.max-wait": "2s"},
        {"dure.deadline": "20s", "dure.expect": "1s"},
        {"dure.memory": "62GB"},
        {"dure.exempt": "true"},
        {"dure.max-wait": "whenever"},
    )
)


@st.composite
def containers(draw: st.DrawFn, gpus: int) -> tuple[ContainerSpec, ...]:
    found = []
    for number in range(draw(st.integers(2, 6))):
        labels = draw(LABELS)
        both = gpus > 1 and draw(st.booleans())
        checked = draw(st.booleans())
        steps = draw(programs())
        if both:
            steps = (Allocate(GB), Loop(4, (Kernel(200 * MS), Meet(f"ring-{number}"))))
        found.append(
            ContainerSpec(
                f"c{number}",
                steps,
                start_ns=draw(st.sampled_from((0, 0, 50, 700, 3000))) * MS,
                release_ns=draw(st.sampled_from((None, None, 4 * S))),
                gpus=(0, 1) if both else (draw(st.integers(0, gpus - 1)),),
                image=f"image-{draw(st.integers(0, 2))}",
                labels=tuple(labels.items()),
                project=draw(st.sampled_from((None, None, "stack"))),
                health=HealthCheck(2 * S, 4, restart=True) if checked else None,
                restarts=draw(st.sampled_from((0, 50))),
                max_wait_ns=2 * S if labels.get("dure.max-wait") == "2s" else None,
            )
        )
    return tuple(found)


FAULTS = st.lists(
    st.builds(
        Fault,
        st.sampled_from(FaultKind),
        st.integers(0, 20).map(lambda second: second * S + 137 * MS),
        st.sampled_from((500 * MS, 3 * S, 12 * S)),
    ),
    max_size=3,
    unique_by=lambda fault: fault.kind,
)
ACTS = st.lists(
    st.builds(
        PersonAct,
        st.integers(1, 150).map(lambda tenth: tenth * 100 * MS),
        st.sampled_from(("c0", "c1", "c2")),
        st.sampled_from((Deed.RESUME, Deed.EXEMPT, Deed.DOCKER_UNPAUSE, Deed.DOCKER_STOP)),
    ),
    max_size=2,
)


@st.composite
def scenarios(draw: st.DrawFn, *, troubled: bool) -> Setting:
    gpus = draw(st.integers(1, 2))
    return Setting(
        containers=draw(containers(gpus)),
        gpus=(GpuModel(memory_bytes=draw(st.sampled_from((64, 90, 141))) * GB),) * gpus,
        host=HostModel(lockable=draw(st.booleans())),
        settings=SETTINGS,
        faults=tuple(draw(FAULTS)) if troubled else (),
        acts=tuple(draw(ACTS)) if troubled else (),
        limit_ns=LIMIT_NS,
    )


def check_ends(setting: Setting, result: NodeResult) -> None:
    """All end, by themselves or for lack of memory, and nobody is left held."""
    known = [None, "out of memory", STOPPED]
    if setting.faults:
        known.append(KILLED_HELD)  # neither Docker nor a watchdog may be there to let go
    for each in result.containers:
        assert each.failure in known, (result.mode, each)
        assert not each.held_at_end, (result.mode, each)
        assert each.longest_wait_s <= LONGEST_S + LATE_S, (result.mode, each)


def check_calm(setting: Setting, result: NodeResult) -> None:
    """Where nothing breaks, the machine needs no watchdog and keeps to labels and bounds."""
    assert result.overdue == 0, result
    assert result.past_labels == 0, result
    assert result.failed_actions == 0, result
    bound_s = setting.settings.idle_bound_ns / S
    assert result.longest_stall_s <= bound_s + 0.5, result
    for spec, each in zip(setting.containers, result.containers, strict=True):
        if dict(spec.labels).get("dure.exempt"):
            assert each.pauses == 0, (result.mode, each)
        # A wait for memory may be longer than a health check allows: the other end is a failure.
        starved = any(name == spec.name and "memory" in what for _, name, what in result.decisions)
        if spec.health is not None and not starved:
            assert each.unhealthy == 0, (result.mode, each)


MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(Check),
    # A failing run takes seconds: shrinking it would take an hour.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@pytest.mark.parametrize("mode", MANAGED)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(Check))
@given(scenario=scenarios(troubled=False))
def test_all_end_in_time_and_nobody_is_held_past_its_deadline(mode: str, scenario: Setting) -> None:
    result = run(scenario, MODES[mode])
    check_ends(scenario, result)
    check_calm(scenario, result)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MANAGED)
@MANY
@given(scenario=scenarios(troubled=False))
def test_all_end_in_time_in_many_scenarios(mode: str, scenario: Setting) -> None:
    result = run(scenario, MODES[mode])
    check_ends(scenario, result)
    check_calm(scenario, result)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MANAGED)
@MANY
@given(scenario=scenarios(troubled=True))
def test_all_end_though_things_break_and_people_meddle(mode: str, scenario: Setting) -> None:
    check_ends(scenario, run(scenario, MODES[mode]))
