"""Attempts a member knows of, with the instances it started or found for them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Want
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    InstanceStatus,
    Outcome,
    RunPhase,
    Sizing,
)
from dure.domain.fleet.workloads import WorkloadKind
from dure.member.ports import Life

DEFAULT_GRACE_S = 30.0
"""For an instance that does not tell what it was started for."""
MOST_FENCE_GRACE_S = 5.0
"""The most that something has to end when it is fenced: half of the least time that the centre adds
before it starts it elsewhere."""
_SHARE_DIGITS = 3
"""Progress is told in thousandths: more would be news all the time."""


@dataclass(slots=True, eq=False)
class Hand:
    """One instance in the cluster, or one that waits to be started there."""

    id: InstanceId
    node: str
    devices: tuple[int, ...]
    """Within its node."""
    placement: Placement | None
    """In the present inventory's numbers; None: it has no place there."""
    rank: int = 0
    stage_id: InstanceId | None = None
    """What the local stage calls it; None: that has given it up."""
    asked: bool = False
    """Whether the cluster was asked to start it, or has it."""
    known: bool = True
    """Whether this member started it, or found it when it began."""
    stopping: bool = False
    drains_until_ns: int = 0
    """Of one that is to end: until then it finishes the requests it has."""
    resizing: bool = False
    """Whether its cluster has yet to give it more or less of its devices."""
    shrinks: bool = False
    """Whether that is less, so that others wait for it."""
    tried_ns: int = 0
    """When the cluster was last asked to end it, or to resize it."""
    replaces: "Hand | None" = None
    """The one that ends once this one is ready."""
    life: Life = Life.PENDING
    warm: bool = False
    """Whether it has ever been ready."""
    name: str = ""
    address: str = ""
    why: str = ""
    exit_code: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    done_share: float | None = None
    saved_share: float = 0.0
    requested: int | None = 0
    """Number of the checkpoint that its program was last asked for; 0: of none, None: nobody knows,
    since asking failed."""
    request_after_ns: int = 0
    """When its program may be asked again after that."""
    checkpointed: int = 0
    """The last that it said to have saved."""

    @property
    def alive(self) -> bool:
        """Whether something of it may run, or will unless somebody prevents it."""
        return self.asked and not self.life.over


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt came to an end."""

    outcome: Outcome
    why: str
    at_ns: int
    exit_code: int | None = None


@dataclass(slots=True, eq=False)
class Held:
    """One attempt."""

    key: AttemptKey
    desired: Desired | None
    """None: nobody has said what it is; only its instances were seen."""
    wanted: bool
    """Whether it is in the desired set."""
    end: Ended | None = None
    hands: dict[int, Hand] = field(default_factory=dict)
    next_index: int = 0
    losses: int = 0
    """Times its instances were taken from it."""
    failures: int = 0
    """Of a service: instances in a row that ended before they were ready."""
    not_before_ns: int = 0
    """Of a service whose instances fail: when the next may start."""
    started_ns: int | None = None
    saved_share: float = 0.0
    """The most that all its instances together have saved."""
    sizing: Sizing | None = None
    """Of a service whose size follows its load."""
    moves: dict[int, int] = field(default_factory=dict)
    """Instances that were to take over from others when a member died, by their numbers."""

    @property
    def serving(self) -> bool:
        """Whether its instances come and go one by one."""
        return self.desired is not None and self.desired.order.workload.kind is WorkloadKind.SERVING

    @property
    def grace_s(self) -> float:
        """What its instances have to end by themselves."""
        grace_s = DEFAULT_GRACE_S if self.desired is None else self.desired.program.grace_s
        if self.end is not None and self.end.outcome is Outcome.FENCED:
            grace_s = min(grace_s, MOST_FENCE_GRACE_S)
        return grace_s

    @property
    def runs_on(self) -> bool:
        """Whether it is wanted to run, and not over."""
        return (
            self.wanted
            and self.end is None
            and self.desired is not None
            and self.desired.want is Want.RUN
        )

    def alive(self) -> Iterator[Hand]:
        """Instances of which something may run."""
        return (hand for hand in self.hands.values() if hand.alive)

    def current(self) -> list[Hand]:
        """Instances that make the attempt up now: not those that are on their way out."""
        return [
            hand for hand in self.hands.values() if not hand.stopping and hand.life is not Life.GONE
        ]

    @property
    def done(self) -> bool:
        """Whether it is a job whose instances all did their work."""
        lives = [hand.life for hand in self.current()]
        enough = self.desired is not None and len(lives) >= self.desired.order.instances
        return enough and not self.serving and set(lives) == {Life.SUCCEEDED}

    def saved_by_all(self) -> float:
        """What is saved of the work of all instances that said so."""
        told = [hand for hand in self.current() if hand.done_share is not None]
        return min((hand.saved_share for hand in told), default=0.0)

    def checkpointed_by_all(self) -> int:
        """The last checkpoint that all have saved who speak of themselves."""
        speak = [hand for hand in self.current() if hand.done_share is not None]
        saved = [hand.checkpointed for hand in self.current() if hand.checkpointed]
        told = [hand.checkpointed for hand in speak] or saved
        return min(told, default=0)

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs, and nothing will."""
        return self.end is not None and not any(self.alive())

    def phase(self) -> RunPhase:
        """Where it is."""
        if self.end is not None:
            return RunPhase.RELEASING if any(self.alive()) else RunPhase.GONE
        hands = [hand for hand in self.current() if not hand.life.over or not self.serving]
        if not hands:
            return RunPhase.WAITING
        ready = [hand.warm or hand.life is Life.SUCCEEDED for hand in hands]
        runs = any(ready) if self.serving else all(ready)
        return RunPhase.RUNNING if runs else RunPhase.STARTING

    def status(self) -> AttemptStatus:
        """All of it, for the centre."""
        shown = [hand for hand in self.hands.values() if hand.asked and hand.placement is not None]
        resumed = self.desired.order.resume_share if self.desired is not None else 0.0
        saved = max(self.saved_share, resumed)
        told = [hand.done_share for hand in self.current() if hand.done_share is not None]
        done = max(min(told, default=0.0), saved)
        resting = self._resting()
        return AttemptStatus(
            key=self.key,
            phase=self.phase(),
            outcome=self.end.outcome if self.gone and self.end is not None else None,
            why=self.end.why if self.end is not None else self._trouble(),
            instances=tuple(
                _instance(hand, serving=self.serving, rests=hand.id.index in resting)
                for hand in shown
            ),
            done_share=round(done, _SHARE_DIGITS),
            saved_share=round(saved, _SHARE_DIGITS),
            started_ns=self.started_ns,
            ended_ns=self.end.at_ns if self.gone and self.end is not None else None,
            exit_code=self.end.exit_code if self.end is not None else None,
            checkpointed=self.checkpointed_by_all(),
            sizing=self.sizing if self.end is None else None,
        )

    def _resting(self) -> set[int]:
        """Ready instances that get no requests: kept warm beside the others, or about to end."""
        if not self.serving:
            return set()
        draining = {hand.id.index for hand in self.hands.values() if hand.stopping}
        if self.sizing is None:
            return draining
        # One that is being replaced serves under its successor's name until that is ready.
        known = [hand for hand in self.current() if hand.stage_id is not None]
        by_name = {hand.stage_id.index: hand for hand in known if hand.stage_id is not None}
        serving = [
            each.replaces if each.replaces is not None and not each.warm else each
            for _, each in sorted(by_name.items())
        ]
        ready = [hand for hand in serving if hand.life is Life.READY]
        return draining | {hand.id.index for hand in ready[self.sizing.serving :]}

    def _trouble(self) -> str:
        """What its cluster says of instances that do not run yet."""
        return next((hand.why for hand in self.current() if hand.why and not hand.warm), "")


def _instance(hand: Hand, *, serving: bool, rests: bool) -> InstanceStatus:
    assert hand.placement is not None
    # A service that answers no more gets no requests; what runs otherwise is as good as ready.
    runs = hand.warm and hand.life is Life.RUNNING and not serving
    return InstanceStatus(
        index=hand.id.index,
        node=hand.node,
        name=hand.name,
        placement=hand.placement,
        ready=hand.life is Life.READY or runs,
        address=hand.address,
        standby=rests,
    )
