"""Advises on the policies of all GPUs of an agent, in a thread of its own.

A tick only leaves its readings in a queue. Dry runs are done by another process, one at a time, and
what they find is heard here at the next round. Whatever goes wrong is told once and tried again:
no tenant waits for it.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from dure.agent.actor import Actor
from dure.agent.dry_run_process import Question
from dure.agent.dry_runs import DryRuns
from dure.agent.gpu import Gpu
from dure.domain.adaptation import (
    AdaptBy,
    Advice,
    AdviceKind,
    AskDryRun,
    Choice,
    ChoiceInForce,
    DryRunEnded,
    Foretold,
)
from dure.domain.errors import DureError
from dure.domain.events import (
    ReadingsTaken,
    RiskCleared,
    RiskRaised,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.kernel.advisor import Advisor, AdvisorEvent, AdvisorSettings
from dure.kernel.chooser import Chooser, EveryPolicy
from dure.kernel.snapshot import Lately, Snapshot, recent, take_snapshot

_log = logging.getLogger(__name__)

_ROUND_S = 0.5
_KEPT_EVENTS = 2048
_KEPT_ADVICE = 20

_Answer = tuple[tuple[Foretold, ...], str]


@dataclass(slots=True)
class Desk:
    """One GPU's advisor, with what it waits for and what it said."""

    actor: Actor
    advisor: Advisor
    heard: deque[ReadingsTaken | RiskRaised | RiskCleared] = field(
        default_factory=lambda: deque(maxlen=_KEPT_EVENTS)
    )
    said: deque[tuple[float, Advice]] = field(default_factory=lambda: deque(maxlen=_KEPT_ADVICE))
    """With the time of day."""
    counted: Counter[AdviceKind] = field(default_factory=Counter)
    foretold: tuple[Foretold, ...] = ()
    """By the last dry run."""
    dry_runs: int = 0
    objective: float | None = None
    """As measured when it was last looked, for those who ask from other threads."""
    waiting: "Future[_Answer] | None" = None
    trouble: str = ""


@dataclass(slots=True)
class Adviser:
    """All GPUs of an agent."""

    actors: Sequence[Actor]
    adapt: AdaptBy
    chooser: Callable[[], Chooser] = EveryPolicy
    clock: Callable[[], int] = time.monotonic_ns
    desks: dict[str, Desk] = field(default_factory=dict)
    _runs: DryRuns = field(default_factory=DryRuns)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="dry-run")
    )
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        for actor in self.actors:
            inforce = Choice(actor.gpu.policy, actor.gpu.parameters)
            settings = AdvisorSettings(adapt=self.adapt)
            self.desks[actor.uuid] = Desk(actor, Advisor(inforce, settings, self.chooser()))

    def start(self) -> None:
        """Begin to look, where anything is to be done about it."""
        if self.adapt is AdaptBy.OFF:
            return
        self._thread = threading.Thread(target=self._run, name="adviser", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._runs.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._thread is not None:
            self._thread.join(1.0)

    def hear(self, uuid: str, event: ReadingsTaken | RiskRaised | RiskCleared) -> None:
        """Something was read or foreseen on a GPU; from any thread."""
        desk = self.desks.get(uuid)
        if desk is not None and self.adapt is not AdaptBy.OFF:
            desk.heard.append(event)

    def _run(self) -> None:
        while not self._stop.wait(_ROUND_S):
            for desk in self.desks.values():
                try:
                    self.look(desk)
                except Exception:  # noqa: BLE001, logged with its trace
                    _log.exception("GPU %d: advising failed", desk.actor.gpu.identity.index)

    def look(self, desk: Desk) -> None:
        """Take in what happened since last time, and do what follows from it."""
        gpu, advisor = desk.actor.gpu, desk.advisor
        self._meet(desk)
        inforce = Choice(gpu.policy, gpu.parameters)
        if inforce != advisor.inforce:
            self._tell(desk, ChoiceInForce(self.clock(), inforce))
        while desk.heard:
            event = desk.heard.popleft()
            if not isinstance(event, RiskCleared):
                self._tell(desk, event)
        if desk.waiting is not None and desk.waiting.done():
            answer, desk.waiting = desk.waiting, None
            self._answered(desk, answer)
        desk.objective = advisor.measured

    def _meet(self, desk: Desk) -> None:
        """Tell the advisor who is there now: who has a process on the GPU."""
        now_ns, known = self.clock(), desk.advisor.tenants
        seats = tuple(desk.actor.gpu.seats.values())
        present = {seat.tenant.id: seat.tenant for seat in seats if seat.slots}
        for gone in set(known) - set(present):
            self._tell(desk, TenantLeft(now_ns, gone))
        for id_, tenant in present.items():
            if id_ not in known:
                self._tell(desk, TenantJoined(now_ns, tenant))
            elif known[id_] != tenant:
                self._tell(desk, TenantChanged(now_ns, tenant))

    def _tell(self, desk: Desk, event: AdvisorEvent) -> None:
        for instruction in desk.advisor.handle(event):
            if isinstance(instruction, AskDryRun):
                lately = recent(desk.advisor.meter)
                desk.waiting = self._pool.submit(self._dry_run, desk, instruction, lately)
            else:
                self._carry_out(desk, instruction)

    def _dry_run(self, desk: Desk, asked: AskDryRun, lately: Lately) -> _Answer:
        """In the thread that waits for the other process."""
        desk.dry_runs += 1
        try:
            snapshot = desk.actor.call(_snapshot(lately, self.clock()))
            question = Question(snapshot, asked.choices, desk.dry_runs)
            return self._runs.ask(question), ""
        except DureError as error:
            return (), str(error)
        except Exception as error:  # noqa: BLE001, told, and logged with its trace
            _log.exception("GPU %d: a dry run failed", desk.actor.gpu.identity.index)
            return (), f"a dry run failed ({type(error).__name__})"

    def _answered(self, desk: Desk, answer: "Future[_Answer]") -> None:
        foretold, trouble = answer.result()
        desk.foretold = foretold
        if trouble and trouble != desk.trouble:
            self._note(desk, f"no advice: {trouble}")
        desk.trouble = trouble
        self._tell(desk, DryRunEnded(self.clock(), foretold))

    def _carry_out(self, desk: Desk, advice: Advice) -> None:
        desk.said.append((time.time(), advice))
        desk.counted[advice.kind] += 1
        self._note(desk, str(advice))
        if advice.kind in (AdviceKind.SWITCHED, AdviceKind.ROLLED_BACK):
            after = advice.after
            desk.actor.call(
                lambda gpu: gpu.request_policy(after.policy, after.parameters, dry_run=False)
            )

    def _note(self, desk: Desk, text: str) -> None:
        gpu = desk.actor.gpu
        gpu.events.add("advice", text, gpu=gpu.identity.uuid)


def _snapshot(lately: Lately, now_ns: int) -> Callable[[Gpu], Snapshot]:
    """Copies what a dry run needs, in the GPU's own thread: some milliseconds."""
    return lambda gpu: take_snapshot(gpu.machine, lately, now_ns)
