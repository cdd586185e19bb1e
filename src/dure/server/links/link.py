"""One link to a member: hello, then plans down and reports up until either side is silent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from dure import __version__
from dure.domain.errors import DureError
from dure.domain.fleet.protocol.desired import PlanAnswer
from dure.domain.fleet.protocol.link import (
    AccessAnswer,
    Ack,
    CentreWord,
    Goodbye,
    Hello,
    LogChunk,
    MemberWord,
    Ping,
    Welcome,
)
from dure.domain.fleet.protocol.reports import Report
from dure.domain.fleet.protocol.wishes import Standings, Wishes
from dure.server.hints import DESIRED, EVENTS, Wakeful, woken_by
from dure.server.links.logs import LogDesk
from dure.server.links.plans import Known, PlanSource
from dure.server.links.reports import answer_parts, store_answer, store_report
from dure.server.links.routing import RouteSource
from dure.server.links.signals import SignalPipe
from dure.server.links.standings import StandingSource
from dure.server.links.wishing import WishDesk
from dure.server.services import Services
from dure.server.virtual.access import AccessDesk
from dure.stores.errors import ConflictError, StoreUnavailableError
from dure.stores.rows import Cluster, NewEvent
from dure.stores.transaction import Transaction
from dure.wire.messages import MOST_WISHES

_log = logging.getLogger(__name__)

_STORE_PATIENCE_S = 60.0
"""How long a word of a member waits for a database that is away; the link stays meanwhile."""
_TOKEN_CHECK_S = 30.0
"""How often it is asked whether the member's token still holds."""


ResultT = TypeVar("ResultT")


class LinkOver(Exception):  # noqa: N818 - an end, not always an error
    """The link ends, and why."""

    def __init__(self, why: str, *, retry: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.retry = retry


class Line(Protocol):
    """The stream under a link."""

    async def say(self, word: CentreWord) -> None:
        """Send a word; waits while the other side does not read."""

    async def hear(self) -> MemberWord | None:
        """The next word; None: the other side has ended."""


class Link:
    """Speaks with one member for as long as both want."""

    def __init__(
        self,
        services: Services,
        line: Line,
        hello: Hello,
        still_allowed: Callable[[], Awaitable[bool]],
        wishes: WishDesk,
    ) -> None:
        self._services = services
        self._line = line
        self._hello = hello
        self._still_allowed = still_allowed
        self._plans = PlanSource(services.state)
        self._known = Known()
        self._wishes = wishes
        self._standings = StandingSource(services.state, hello.cluster)
        self._routes = RouteSource(services.state, hello.cluster, services.settings.pace)
        self._epoch = 0
        self._wakeful: Wakeful | None = None
        self._ending = asyncio.Event()
        self._asked = asyncio.Event()
        self.logs = LogDesk(line.say)
        self.access = AccessDesk(line.say)
        self.signals = SignalPipe(line.say, takes=hello.takes_signals)

    @property
    def cluster(self) -> str:
        """Whose link it is."""
        return self._hello.cluster

    async def open(self) -> None:
        """Count this hello: links of the same cluster before it are over."""
        row = await self._services.state.retrying(self._linked)
        self._services.bus.publish(EVENTS)
        self._epoch = row.link_epoch
        settings = self._services.settings
        await self._line.say(
            Welcome(
                __version__,
                row.report_seq,
                self._services.now_ns(),
                settings.silence_s,
                takes_wishes=True,
            )
        )
        _log.info("cluster %s is linked (%d)", self.cluster, self._epoch)

    async def _linked(self, tx: Transaction) -> Cluster:
        before = await tx.clusters.find(self.cluster)
        if before is None:
            raise LinkOver(f"there is no cluster {self.cluster}: register it first", retry=False)
        if before.kind != self._hello.kind:
            raise LinkOver(
                f"cluster {self.cluster} is of kind {before.kind}, not {self._hello.kind}",
                retry=False,
            )
        row = await tx.clusters.linked(
            self.cluster, self._hello.incarnation, self._services.settings.listening.url
        )
        data = {"version": self._hello.version, "incarnation": self._hello.incarnation}
        tx.events.add(NewEvent("cluster.joined", self.cluster, None, data))
        return row

    async def run(self) -> None:
        """Until the link is over; raises `LinkOver`."""
        try:
            async with woken_by(
                self._services.bus, DESIRED, self.cluster.encode()
            ) as self._wakeful:
                await self._together()
        finally:
            self.logs.close()
            self.access.close()

    async def _together(self) -> None:
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._listen(),
                self._tell_plans(),
                self._tell_standings(),
                self._keep_up(),
                self._tell_routes(),
                self.signals.run(),
                self._until_ended(),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self) -> None:
        """This server ends: tell the member, so that it looks for another at once."""
        self._ending.set()

    async def _until_ended(self) -> None:
        await self._ending.wait()
        raise LinkOver("this server ends")

    async def close(self) -> None:
        """Note that no server has the link, unless a newer one is there."""
        try:
            async with self._services.state.transaction() as tx:
                await tx.clusters.unlinked(self.cluster, self._epoch)
        except DureError as error:
            _log.warning("the end of a link to %s is not noted: %s", self.cluster, error)

    async def _listen(self) -> None:
        silence_s = self._services.settings.silence_s
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    word = await self._line.hear()
            except TimeoutError:
                raise LinkOver(f"the member said nothing for {silence_s:g} s") from None
            if word is None:
                raise LinkOver("the member ended the link")
            await self._take(word)

    async def _take(self, word: MemberWord) -> None:
        match word:
            case Report():
                await self._take_report(word)
            case PlanAnswer():
                await self._take_answer(word)
            case Wishes():
                await self._take_wishes(word)
            case LogChunk():
                await self.logs.brought(word)
            case AccessAnswer():
                self.access.brought(word)
            case Ping():
                pass
            case Hello():
                raise LinkOver("a second hello on one link", retry=False)

    async def _take_report(self, report: Report) -> None:
        heard = await self._stored(
            partial(store_report, cluster=self.cluster, link_epoch=self._epoch, report=report)
        )
        await self._line.say(Ack(heard))
        self._wake()

    async def _take_answer(self, answer: PlanAnswer) -> None:
        if not answer.taken:
            # The whole set is said anew, but not sooner than the next look: it may object again.
            _log.warning("cluster %s did not take a plan: %s", self.cluster, answer.why)
            if (answer.epoch, answer.revision) == (self._known.epoch, self._known.revision):
                self._known = Known()
            return
        for part in answer_parts(answer):
            await self._stored(
                partial(store_answer, cluster=self.cluster, link_epoch=self._epoch, answer=part)
            )
        self._wake()

    async def _take_wishes(self, word: Wishes) -> None:
        answers, jobs = await self._wishes.take(word.wishes)
        self._standings.watch(jobs)
        if answers:
            await self._line.say(Standings(tuple(answers)))
        self._wake()
        self._asked.set()

    async def _tell_standings(self) -> None:
        """Say what has become of wishes, at once where some were just said."""
        while True:
            pause_s = max(self._services.settings.poll_s, self._standings.pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._asked.wait()
            self._asked.clear()
            try:
                news = await self._standings.news()
            except StoreUnavailableError as error:
                _log.warning("no standings for cluster %s: %s", self.cluster, error)
                continue
            for at in range(0, len(news), MOST_WISHES):
                await self._line.say(Standings(news[at : at + MOST_WISHES]))

    async def _tell_routes(self) -> None:
        """Say where services answer, to a member that wants to hear it."""
        if not self._hello.takes_routes:
            await asyncio.Event().wait()
        while True:
            try:
                news = await self._routes.news()
            except StoreUnavailableError as error:
                _log.warning("no routes for cluster %s: %s", self.cluster, error)
                news = None
            if news is not None:
                await self._line.say(news)
            await asyncio.sleep(self._services.settings.poll_s)

    def _wake(self) -> None:
        self._services.bus.publish(EVENTS)
        if self._wakeful is not None:
            self._wakeful.wake()

    async def _stored(self, work: Callable[[Transaction], Awaitable[ResultT]]) -> ResultT:
        """Store a word; it may be stored twice, since all of them count from what is there."""
        tries = 3
        while True:
            try:
                return await self._services.state.retrying(work, within_s=_STORE_PATIENCE_S)
            except ConflictError:
                # Another transaction came first, or the link is over: the second try tells.
                tries -= 1
                if not tries:
                    raise

    async def _tell_plans(self) -> None:
        poll_s = self._services.settings.poll_s
        assert self._wakeful is not None
        while True:
            try:
                plan = await self._plans.next(self.cluster, self._epoch, self._known)
            except StoreUnavailableError as error:
                _log.warning("no plan for cluster %s: %s", self.cluster, error)
                plan = None
            if plan is not None:
                # Noted first: the answer may be there before the last part is away.
                self._known = Known(plan.epoch, plan.revision)
                await self._line.say(plan)
            await self._wakeful.sleep(poll_s)

    async def _keep_up(self) -> None:
        """Say that this server is there, note that the member is, and ask whether it still may."""
        settings = self._services.settings
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while True:
            await asyncio.sleep(settings.ping_s)
            await self._line.say(Ping())
            try:
                async with self._services.state.transaction() as tx:
                    await tx.clusters.hold_link(self.cluster, self._epoch)
                if loop.time() - checked >= _TOKEN_CHECK_S:
                    checked = loop.time()
                    if not await self._still_allowed():
                        raise LinkOver("the member's token holds no more", retry=False)
            except StoreUnavailableError as error:
                _log.warning("contact with cluster %s is not noted: %s", self.cluster, error)


def farewell(over: LinkOver) -> Goodbye:
    """The last word of the centre."""
    return Goodbye(over.why, over.retry)
