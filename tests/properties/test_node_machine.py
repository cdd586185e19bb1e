"""Whatever happens to containers in whatever order: nobody is frozen past what was promised."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.containers import Container, PauseWay
from dure.domain.ids import ContainerId
from dure.domain.node_events import (
    ContainerStopping,
    GuardChanged,
    Missing,
    PausedByOthers,
    PauseEnded,
    PersonExempted,
    PersonPaused,
    PersonResumed,
    ResumedByOthers,
    ResumeEnded,
    TableTaken,
)
from dure.domain.node_instructions import NodeInstruction, Pause, PollEvery, Resume, WakeAt
from dure.domain.units import GIB, NS_PER_S
from dure.node.settings import NodeSettings
from dure.node.strategies.registry import STRATEGIES
from tests.node.factories import GPU, MS, OTHER_GPU, Host, container

NAMES = [f"c{number}" for number in range(6)]
LABELS: list[dict[str, str]] = [
    {},
    {},
    {"priority": "high"},
    {"priority": "low", "weight": "2"},
    {"deadline": "5s"},
    {"max-wait": "1s"},
    {"memory": "50GiB"},
    {"memory": "50GiB", "max-wait": "2s"},
    {"expect": "5ms"},
    {"exempt": "true"},
    {"weight": "nonsense"},
]


class Books(Host):
    """A host that checks every instruction against what people and the runtime said."""

    held_by_others: set[str]
    stopping: set[str]
    exempted: set[str]
    person: set[str]
    idle_since_ns: int
    last_sight: tuple[Any, ...]
    idle_bound_ns: int

    def begin(self, idle_bound_ns: int) -> None:
        self.held_by_others, self.stopping = set(), set()
        self.exempted, self.person = set(), set()
        self.idle_since_ns, self.last_sight = self.now_ns, ()
        self.idle_bound_ns = idle_bound_ns

    def send(self, event: Any) -> tuple[NodeInstruction, ...]:
        before = dict(self.paused)
        asked = super().send(event)
        if hasattr(self, "person"):
            self._check(before, asked)
        return asked

    def _check(self, before: dict[str, Pause], asked: tuple[NodeInstruction, ...]) -> None:
        for each in asked:
            if isinstance(each, Pause) and not each.by_person:
                self._check_pause(each.container, before)
            if isinstance(each, Resume):
                kept = before.get(each.container)
                assert kept is None or not kept.by_person or each.container not in self.person, (
                    "a person's pause was undone"
                )
        for name, pause in self.paused.items():
            assert self.now_ns <= pause.resume_by_ns, f"{name} is paused past its deadline"
            assert self.guard or pause.by_person, f"{name} is paused without a watchdog"
            assert name not in self.stopping, f"{name} is kept from stopping"

    def _check_pause(self, name: str, before: dict[str, Pause]) -> None:
        made = self.running[name]
        assert self.guard, "paused without a watchdog"
        assert made.gpus, "paused though it was given no GPU"
        assert name not in self.held_by_others | self.stopping | self.exempted | self.person
        assert name not in before, "paused twice"
        assert dict(made.labels).get("dure.exempt") is None
        assert dict(made.labels).get("dure.weight") != "nonsense"

    def pass_time(self, time_ns: int) -> None:
        """Look every 50 ms and keep an eye on GPUs that idle while containers wait."""
        end_ns = self.now_ns + time_ns
        while self.now_ns < end_ns:
            self.until(min(end_ns, self.now_ns + 50 * MS))
            # What is kept from the GPU computes nothing.
            for name in self.paused:
                self.tasks[name].share = 0.0
            self.look()
            self._watch_idle()

    def _watch_idle(self) -> None:
        sight = (
            tuple((name, task.memory_bytes) for name, task in sorted(self.tasks.items())),
            any(task.share > 0.01 and task.memory_bytes for task in self.tasks.values()),
            tuple(self.paused),
        )
        if sight[1] or sight != self.last_sight:
            self.idle_since_ns = self.now_ns
        self.last_sight = sight
        idle_ns = self.now_ns - self.idle_since_ns
        queued = [
            name
            for name, pause in self.paused.items()
            if not pause.by_person
            and not self.machine.state.unit_of(
                self.machine.state.tracks[ContainerId(name)]
            ).memory_wait
        ]
        assert not queued or idle_ns <= self.idle_bound_ns, f"{queued} wait for an idle GPU"


gpus = st.sampled_from([(GPU,), (GPU,), (GPU,), (GPU, OTHER_GPU), (OTHER_GPU,), ()])
actions = st.one_of(
    st.tuples(
        st.just("start"),
        st.sampled_from(NAMES),
        st.sampled_from(LABELS),
        gpus,
        st.sampled_from([None, None, None, "job"]),
        st.booleans(),
    ),
    st.tuples(
        st.just("work"),
        st.sampled_from(NAMES),
        st.sampled_from([0.0, 0.5, 4.0, 4.0, 30.0]),
        st.sampled_from([0.0, 0.2, 1.0, 1.0]),
    ),
    st.tuples(st.just("pass"), st.sampled_from([5, 50, 300, 1500, 4000])),
    st.tuples(
        st.sampled_from(["end", "stop", "docker pause", "docker unpause", "pause", "resume"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.just("exempt"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("guard"), st.sampled_from([None, *Missing])),
    st.tuples(st.just("answers"), st.sampled_from([None, "it failed"])),
)


def act(host: Books, action: tuple[Any, ...]) -> None:
    kind, *rest = action
    name = rest[0] if rest else ""
    now = host.now_ns
    if kind == "pass":
        host.pass_time(rest[0] * MS)
    elif kind == "guard":
        host.guard = rest[0] is None
        host.send(GuardChanged(now, rest[0]))
    elif kind == "answers":
        for asked in (*host.due,):
            host.due.remove(asked)
            if isinstance(asked, Resume):
                host.send(ResumeEnded(now, asked.container, rest[0]))
            elif rest[0] is None or asked.container in host.paused:
                if rest[0] is not None:
                    host.paused.pop(asked.container, None)
                    host.person.discard(asked.container)
                host.send(PauseEnded(now, asked.container, asked.way, rest[0]))
    elif kind == "start":
        if name not in host.running:
            start(host, name, *rest[1:])
    elif name in host.running:
        on_container(host, kind, name, rest[1:])


def start(
    host: Books,
    name: str,
    labels: dict[str, str],
    given: tuple[Any, ...],
    project: str | None,
    paused: bool,
) -> None:
    said = tuple((f"dure.{key}", value) for key, value in labels.items())
    made: Container = replace(container(name, gpus=given), labels=said)
    made = replace(made, project=project, paused=paused, health_checked=len(labels) == 2)
    if paused:
        host.held_by_others.add(name)
    host.start(made)


def on_container(host: Books, kind: str, name: str, rest: list[Any]) -> None:
    now, who = host.now_ns, ContainerId(name)
    match kind:
        case "work":
            memory, share = rest
            if name not in host.held_by_others and host.running[name].gpus:
                host.work(name, memory, share if name not in host.paused else 0.0)
        case "end":
            for books in (host.held_by_others, host.stopping, host.exempted, host.person):
                books.discard(name)
            host.due = [asked for asked in host.due if asked.container != name]
            host.end(name)
        case "stop":
            host.stopping.add(name)
            host.person.discard(name)
            host.send(ContainerStopping(now, who))
        case "docker pause" if name not in host.paused and name not in host.held_by_others:
            if not any(asked.container == name for asked in host.due):
                host.held_by_others.add(name)
                host.send(PausedByOthers(now, who))
        case "docker unpause":
            host.held_by_others.discard(name)
            host.person.discard(name)
            pause = host.paused.get(name)
            pending = any(asked.container == name for asked in host.due)
            if pause is not None and pause.way is PauseWay.DOCKER and not pending:
                host.paused.pop(name)
            host.send(ResumedByOthers(now, who))
        case "pause" if host.running[name].gpus and name not in host.stopping:
            host.person.add(name)
            host.send(PersonPaused(now, who))
        case "resume":
            host.person.discard(name)
            host.send(PersonResumed(now, who))
        case "exempt":
            (host.exempted.add if rest[0] else host.exempted.discard)(name)
            host.send(PersonExempted(now, who, exempt=rest[0]))


def books(strategy: str, ways: tuple[PauseWay, ...], prompt: bool) -> Books:
    made = NodeSettings(
        strategy=strategy,
        ways=ways,
        max_pause_ns=8 * NS_PER_S,
        max_freeze_ns=6 * NS_PER_S,
        max_admission_ns=5 * NS_PER_S,
        hands_off_ns=3 * NS_PER_S,
        turn_ns=3 * NS_PER_S,
    )
    host = Books(made, prompt=prompt)
    # One bound until somebody is let go, and one look.
    host.begin(made.idle_bound_ns + 100 * MS)
    return host


ways = st.sampled_from(
    [
        (PauseWay.DOCKER,),
        (PauseWay.CUDA_LOCK, PauseWay.DOCKER),
        (PauseWay.CUDA_LOCK,),
    ]
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(history=st.lists(actions, min_size=10, max_size=80), ways=ways, prompt=st.booleans())
@settings(max_examples=60)
def test_no_history_breaks_a_promise(
    strategy: str, history: list[tuple[Any, ...]], ways: tuple[PauseWay, ...], prompt: bool
) -> None:
    host = books(strategy, ways, prompt)
    for action in history:
        act(host, action)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(history=st.lists(actions, max_size=40), ways=ways)
@settings(max_examples=40)
def test_a_plan_on_an_unchanged_table_is_empty(
    strategy: str, history: list[tuple[Any, ...]], ways: tuple[PauseWay, ...]
) -> None:
    host = books(strategy, ways, prompt=True)
    for action in history:
        act(host, action)
        host.look()
        again = host.send(TableTaken(host.now_ns, host.table()))
        assert not [each for each in again if not isinstance(each, PollEvery | WakeAt)]
        assert host.send(TableTaken(host.now_ns, host.table())) == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(history=st.lists(actions, max_size=40), ways=ways)
@settings(max_examples=25)
def test_the_same_events_give_the_same_instructions(
    strategy: str, history: list[tuple[Any, ...]], ways: tuple[PauseWay, ...]
) -> None:
    first, second = books(strategy, ways, True), books(strategy, ways, True)
    for action in history:
        act(first, action)
        act(second, action)
    assert first.said == second.said


@given(
    gaps=st.lists(st.sampled_from([0, 5, 40, 200, 900]), min_size=2, max_size=6),
    ways=ways,
    length=st.sampled_from([600, 1200, 3000]),
)
@settings(max_examples=20)
def test_within_a_class_turns_come_in_the_order_of_arrival(
    gaps: list[int], ways: tuple[PauseWay, ...], length: int
) -> None:
    """One-shot tasks that are alike: each computes for its length once it is let go."""
    host = Host(NodeSettings(ways=ways))
    left: dict[str, float] = {}
    ended: list[str] = []
    arrivals_ns = [host.now_ns + sum(gaps[: number + 1]) * MS for number in range(len(gaps))]
    started = 0
    while len(ended) < len(gaps):
        while started < len(gaps) and arrivals_ns[started] <= host.now_ns:
            name = host.start(container(f"t{started}", image="same"))
            left[name] = float(length)
            started += 1
        free = [name for name in left if name not in host.paused]
        for name in left:
            host.work(name, 4.0, 1.0 / len(free) if name in free else 0.0)
        for name in free:
            left[name] -= 20 / len(free)
            if left[name] <= 0:
                ended.append(name)
                del left[name]
                host.end(name)
        host.look()
        host.until(host.now_ns + 20 * MS)
        assert host.now_ns < arrivals_ns[-1] + 60 * NS_PER_S, "somebody never had its turn"
    assert ended == sorted(ended)


@given(
    needs=st.lists(
        st.tuples(st.sampled_from([5, 30, 50, 75]), st.sampled_from([0, 300, 2500])),
        min_size=2,
        max_size=8,
    ),
    ways=ways,
    stay=st.sampled_from([800, 3000]),
)
@settings(max_examples=30)
def test_whoever_states_its_memory_finds_it(
    needs: list[tuple[int, int]], ways: tuple[PauseWay, ...], stay: int
) -> None:
    """Each takes what it said as soon as it may, keeps it for a while, and ends."""
    host = Host(NodeSettings(ways=(*ways, PauseWay.DOCKER)))
    taken_ns: dict[str, int] = {}
    done: set[str] = set()
    host.look()
    starts_ns = host.now_ns
    for number, (_, after) in enumerate(needs):
        starts_ns += after * MS
        needs[number] = (needs[number][0], starts_ns)
    waiting = dict(enumerate(needs))
    while len(done) < len(needs):
        host.until(host.now_ns + 50 * MS)
        assert host.now_ns < starts_ns + 120 * NS_PER_S, "somebody never found its memory"
        for number, (need, at_ns) in list(waiting.items()):
            if at_ns <= host.now_ns:
                host.start(container(f"m{number}", memory=f"{need}GiB"))
                del waiting[number]
        for name in sorted(host.free):
            if name not in taken_ns:
                host.work(name, needs[int(name[1:])][0], 0.4)
                taken_ns[name] = host.now_ns
                used = sum(task.memory_bytes for task in host.tasks.values())
                assert used <= 80 * GIB, f"{name} died of out-of-memory"
            elif host.now_ns - taken_ns[name] >= stay * MS:
                host.end(name)
                done.add(name)
        host.look()
