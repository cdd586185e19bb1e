"""A member at work: its core in the loop with cluster, memory and time, centre or no centre."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Partition, Plan, PlanAnswer
from dure.domain.fleet.protocol.reports import Report
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.units import NS_PER_S
from dure.kit.backoff import Backoff
from dure.kit.tracing import Tracer
from dure.member.clock import FleetClock
from dure.member.core.actions import Action, Begin, Divide, End, Forget, Request, Resize
from dure.member.core.books import key_of
from dure.member.core.desk import Desk
from dure.member.ports import (
    Carrier,
    Fence,
    Memory,
    PartitionFailedError,
    PartitionRefusedError,
    Seen,
    Sight,
    Unreachable,
    Warned,
)

_log = logging.getLogger("dure.member")

_TICK_S = 0.5
_GATHER_S = 0.01
"""In which what happens at once is taken in before anything is decided about it."""
_SAVE_S = 1.0
"""How late what is not urgent may be stored."""
_AGAIN_S = 10.0
"""Before the removal of remains that failed is tried again."""
_MOST_HANDS = 32
"""Requests to the cluster at a time."""


class Member:
    """Drives the core."""

    def __init__(
        self,
        desk: Desk,
        carrier: Carrier,
        memory: Memory,
        clock: FleetClock,
        fence: Fence | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.desk = desk
        self._fence = fence
        self._fenced_ns = 0
        self.carrier = carrier
        self.clock = clock
        self._memory = memory
        self._changed: dict[str, Any] = {}
        self._removed: set[str] = set()
        self._owed = False
        """Whether something urgent is on its way to memory and not known to be there."""
        self._saving = asyncio.Lock()
        self._news = asyncio.Event()
        self._stirring = False
        self._ended = False
        self._ready = asyncio.Event()
        self._recalled: Mapping[str, Any] = {}
        """What memory held at the start."""
        self._loaded = asyncio.Event()
        self._hands = asyncio.Semaphore(_MOST_HANDS)
        self._turns: dict[AttemptKey, asyncio.Lock] = {}
        self._at_work: set[asyncio.Task[None]] = set()
        self._tracer = tracer
        self.failures = 0
        """Things done in the cluster that failed, ever."""

    async def run(self) -> None:
        """Until cancelled; what runs in the cluster runs on then."""
        self._recalled = await self._memory.load()
        self.clock.begin(self.desk.load(self._recalled, self.clock.host_ns()))
        self._loaded.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch())
                tasks.create_task(self._every(_TICK_S, self._tick))
                tasks.create_task(self._every(_SAVE_S, self._save_all))
        finally:
            self._ended = True
            for task in list(self._at_work):
                task.cancel()
            await asyncio.gather(*self._at_work, return_exceptions=True)
            with suppress(DureError):
                # Those who fence and the next member must agree on when the last contact was.
                await self._hold_fence()
                await self.save()

    @property
    def actions(self) -> int:
        """Things it does in the cluster now."""
        return len(self._at_work)

    async def ready(self) -> None:
        """Returns when the cluster has been seen."""
        await self._ready.wait()

    # Eyes and time

    async def _watch(self) -> None:
        backoff = Backoff()
        while True:
            try:
                async for sight in self.carrier.watch():
                    self.desk.see(self._timed(sight), self.clock.now_ns())
                    if self.desk.synced:
                        self._ready.set()
                        backoff.reset()
                    self.stir()
            except DureError as error:
                _log.warning("the cluster cannot be seen: %s", error)
                self.desk.see(Unreachable(str(error)), self.clock.now_ns())
            await asyncio.sleep(backoff.next_s())

    def _timed(self, sight: Sight) -> Sight:
        """A sight with its moments in the fleet's time: nodes stamp by the calendar."""
        if not isinstance(sight, Seen):
            return sight
        ahead_ns = self.clock.stamps_ahead_ns()
        started_ns = None if sight.started_ns is None else sight.started_ns + ahead_ns
        ended_ns = None if sight.ended_ns is None else sight.ended_ns + ahead_ns
        return replace(sight, started_ns=started_ns, ended_ns=ended_ns)

    async def _every(self, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(period_s)
            await work()

    async def _tick(self) -> None:
        await self._hold_fence()
        self.desk.tick(self.clock.now_ns())
        self.stir()

    async def _hold_fence(self) -> None:
        """Let those who fence know of the last contact, before anything they watch can start."""
        heard_ns = self.desk.contact_ns
        if self._fence is not None and self._fenced_ns != heard_ns:
            self._fenced_ns = heard_ns
            await self._fence.heard(max(0, self.clock.now_ns() - heard_ns) / NS_PER_S)

    def hear_time(self, centre_ns: int) -> None:
        """What time it is at the centre; that a clock is set is no silence."""
        stamps_ns = self.clock.stamps_ahead_ns()
        jump_ns = self.clock.hear(centre_ns)
        self.desk.put_forward(jump_ns, self.clock.stamps_ahead_ns() - stamps_ns)

    def signals(self, signals: Iterable[LoadSignal]) -> None:
        """What is seen of loads from outside."""
        self.desk.signals(signals, self.clock.now_ns())

    # Plans

    async def plan(self, plan: Plan) -> PlanAnswer:
        """Take a plan; the cluster is asked about what is new."""
        began_ns = self.clock.now_ns()
        unknown = self.desk.unknown(plan)
        said = await asyncio.gather(*(self._refusal(each) for each in unknown))
        refusals = {each.key: why for each, why in zip(unknown, said, strict=True) if why}
        await self._hold_fence()
        answer = self.desk.plan(plan, refusals, self.clock.now_ns())
        self.stir()
        for each in unknown:
            self._trace(each.key, "cluster.plan", began_ns)
        return answer

    def _trace(self, key: AttemptKey, name: str, began_ns: int) -> None:
        """Tell a step of a job where traces are wanted; its id is the context that came with it."""
        if self._tracer is not None:
            about = {"dure.job": str(key.job), "dure.cluster": str(self.desk.cluster)}
            self._tracer.part(key.job, name, (began_ns, self.clock.now_ns()), **about)

    async def _refusal(self, desired: Any) -> str:
        async with self._hands:
            try:
                return await self.carrier.refusal(desired)
            except DureError as error:  # whoever cannot be asked has not refused
                _log.warning("cannot say whether %s can run here: %s", desired.key, error)
                return ""

    # Hands

    def stir(self) -> None:
        """Something changed: soon decide, do what is to be done, and let whoever reports know."""
        if not self._stirring:
            self._stirring = True
            asyncio.get_running_loop().call_later(_GATHER_S, self._decide)

    def _decide(self) -> None:
        self._stirring = False
        if self._ended:
            return
        self.desk.settle(self.clock.now_ns())
        for action in self.desk.actions():
            self._begin(action)
        self._news.set()

    def _begin(self, action: Action) -> None:
        if self._ended:
            return
        if isinstance(action, Divide):
            task = asyncio.create_task(self._divide(action.partition))
        else:
            task = asyncio.create_task(self._carry_out(action))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _divide(self, partition: Partition) -> None:
        phase = PartitionPhase.UNDER_WAY
        try:
            async with self._hands:
                why = await self.carrier.repartition(partition)
            if not why:
                phase = PartitionPhase.DONE
        except PartitionRefusedError as error:
            phase, why = PartitionPhase.REFUSED, str(error)
        except PartitionFailedError as error:
            phase, why = PartitionPhase.FAILED, str(error)
        except DureError as error:
            _log.warning("node %s is not divided anew yet: %s", partition.node, error)
            why = str(error)
        self.desk.divided(partition, phase, why, self.clock.now_ns())
        self.stir()

    async def _carry_out(self, action: Begin | End | Request | Forget | Resize) -> None:
        """One thing of an attempt after the other: an end must not overtake a beginning."""
        first = action.starts[0].instance if isinstance(action, Begin) else action.instance
        turn = self._turns.setdefault(key_of(first), asyncio.Lock())
        async with turn, self._hands:
            try:
                await self._do(action)
            except DureError as error:
                _log.warning("%s failed: %s", type(action).__name__.lower(), error)
                self.failures += 1
                self._failed(action, str(error))
        if not turn.locked() and key_of(first) not in self.desk.books.attempts:
            self._turns.pop(key_of(first), None)

    def _failed(self, action: Begin | End | Request | Forget | Resize, why: str) -> None:
        """Starts and requests are decided anew; the core asks again for ends and sizes, we for
        remains, which nobody can want back."""
        if isinstance(action, Begin):
            self.desk.start_failed(action.starts, why, self.clock.now_ns())
            self.stir()
        elif isinstance(action, Request):
            self.desk.request_failed(action.instance, action.number, self.clock.now_ns())
        elif isinstance(action, Forget):
            asyncio.get_running_loop().call_later(_AGAIN_S, self._begin, action)

    async def _do(self, action: Begin | End | Request | Forget | Resize) -> None:
        match action:
            case Begin(starts):
                began_ns = self.clock.now_ns()
                await self.carrier.start(starts)
                self._trace(key_of(starts[0].instance), "cluster.start", began_ns)
            case End(instance, grace_s):
                await self.carrier.stop(instance, grace_s)
            case Request(instance, number):
                await self.carrier.request(instance, number)
            case Forget(instance):
                await self.carrier.forget(instance)
            case Resize(instance, placement):
                await self.carrier.resize(instance, placement)
                self.desk.resized(instance, placement)
                self.stir()

    # Memory

    async def _save_all(self) -> None:
        try:
            await self.save()
        except DureError as error:
            _log.warning("%s", error)

    async def save(self) -> None:
        """Store what changed; what could not be stored is tried again next time."""
        async with self._saving:
            changed, removed, urgent = self.desk.memory(self.clock.ahead_ns())
            self._owed |= urgent
            for name in removed:
                self._changed.pop(name, None)
            self._removed = (self._removed | set(removed)) - set(changed)
            self._changed |= changed
            if self._changed or self._removed:
                await self._memory.save(self._changed, sorted(self._removed))
                self._changed, self._removed = {}, set()
            self._owed = False

    async def recall(self, prefix: str) -> Mapping[str, Any]:
        """What was kept at the start under names that begin so."""
        await self._loaded.wait()
        return {name: each for name, each in self._recalled.items() if name.startswith(prefix)}

    async def keep(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Keep entries of others than the core, under names of their own; safe when it returns."""
        async with self._saving:
            await self._memory.save(changed, removed)

    def warn(self, what: str) -> None:
        """Tell people of the fleet."""
        self.desk.see(Warned(what), self.clock.now_ns())
        self.stir()

    # News

    async def stirred(self) -> None:
        """Returns when there may be something to tell."""
        await self._news.wait()
        self._news.clear()

    async def news(self, *, whole: bool) -> Report | None:
        """What is to be told; all that it says of ends is safe in memory."""
        while self._owed or self.desk.books.urgent:
            await self.save()
        return self.desk.news(self.clock.now_ns(), whole=whole)

    def logs(
        self, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """What an instance wrote."""
        instance = self.desk.instance(key, index)
        if instance is None:
            raise DureError(f"attempt {key.attempt} has no instance {index} here")
        return self.carrier.logs(instance, follow=follow, tail=tail)
