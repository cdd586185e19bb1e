"""Turning wishes into pauses: what is asked of the process, and how its answers are taken."""

from dure.domain.containers import PauseWay
from dure.domain.node_events import PauseEnded, ResumeEnded
from dure.domain.node_instructions import NEVER_NS, NodeInstruction, Pause, Resume, Tell
from dure.domain.units import NS_PER_MS
from dure.node.state import NodeState
from dure.node.strategies.base import Say, Verdict
from dure.node.tracks import Grip, Track
from dure.node.units import Unit

COPY_WAITED_NS = 20 * NS_PER_MS
"""A CUDA lock that took longer than this waited for the end of a copy: the input is in.

The lock itself takes 0.5 ms, writing it down before some milliseconds.
"""
MOST_DOUBLINGS = 16
"""Of the time for which who did not come to rest is left alone; it is bounded long before."""
RESTLESS = "it did not come to rest when it was to be paused, and is tried again soon"
FREEZES_KEPT = 5
"""Of the last freezes, to know how long one takes."""


def hold(
    state: NodeState, unit: Unit, verdict: Verdict, prefers: PauseWay | None
) -> list[NodeInstruction]:
    """Keep a unit from the GPU, unless its wait is over already."""
    settings, now = state.settings, state.now_ns
    if unit.gripped:
        for track in unit.tracks:
            track.reason = verdict.reason if track.gripped else track.reason
        unit.primed = unit.primed or verdict.primed
        return _hold_newcomers(state, unit, verdict)
    if unit.letting:
        return []
    unit.memory_wait = verdict.say is Say.MEMORY
    way = choose_way(unit, settings.ways, verdict.way or prefers)
    if unit.wait_ns is None:
        unit.wait_ns = now - unit.carried_ns
    resume_by = unit.wait_ns + unit.longest_wait_ns(way, settings)
    if resume_by - settings.release_margin_ns <= now:
        return let_time_run_out(state, unit)
    unit.end_turn(now)
    unit.primed = verdict.primed
    asked: list[NodeInstruction] = []
    for track in unit.tracks:
        track.grip, track.way, track.held_ns = Grip.TAKING, way, now
        track.resume_by_ns, track.reason, track.by_person = resume_by, verdict.reason, False
        asked.append(Pause(track.id, way, resume_by, verdict.reason))
    return asked


def _hold_newcomers(state: NodeState, unit: Unit, verdict: Verdict) -> list[NodeInstruction]:
    """Members that came when the others were held already wait with them, no longer than they."""
    held = next(track for track in unit.tracks if track.gripped and not track.by_person)
    way = held.way if held.way is not None else state.settings.ways[0]
    asked: list[NodeInstruction] = []
    for track in unit.tracks:
        if track.grip is Grip.FREE and track.untouchable(state.now_ns) is None:
            track.grip, track.way, track.held_ns = Grip.TAKING, way, state.now_ns
            track.resume_by_ns, track.reason, track.by_person = (
                held.resume_by_ns,
                verdict.reason,
                False,
            )
            asked.append(Pause(track.id, way, held.resume_by_ns, verdict.reason))
    return asked


def choose_way(unit: Unit, ways: tuple[PauseWay, ...], prefers: PauseWay | None) -> PauseWay:
    """The best way for a unit: one without CUDA processes can only be frozen."""
    if PauseWay.DOCKER in ways and (unit.memory_wait or unit.activity.memory_bytes == 0):
        return PauseWay.DOCKER
    return prefers if prefers is not None and prefers in ways else ways[0]


def let_time_run_out(state: NodeState, unit: Unit) -> list[NodeInstruction]:
    """A wait is as long as it may be: let go, and say so where that may do harm."""
    told: list[NodeInstruction] = []
    if unit.memory_wait and unit.wait_ns is not None:
        stated = unit.max_wait_ns is not None and unit.max_wait_ns < state.settings.max_admission_ns
        whose = "its dure.max-wait" if stated else "the longest wait for memory"
        told = [
            Tell(
                track.id,
                f"'{track.container.name}' goes on though its memory may not be free: {whose} "
                "is over; it may fail with out-of-memory",
            )
            for track in unit.tracks
        ]
        unit.admitted = True
    turn_ns = round(state.settings.turn_ns * unit.weight)
    unit.must_go_until_ns = state.now_ns + max(turn_ns, state.settings.idle_bound_ns)
    unit.remark = "it waited as long as it may"
    return [*told, *let_go(state, unit, unit.remark, launch=True)]


def let_go(state: NodeState, unit: Unit, reason: str, *, launch: bool) -> list[NodeInstruction]:
    """Let a unit run; `launch`: its wait is over, else it only brings its input."""
    asked: list[NodeInstruction] = []
    for track in unit.tracks:
        if track.gripped and not track.by_person:
            asked += release(track, reason)
    if asked:
        unit.activity.let_go(state.now_ns, launch=launch and unit.primed)
        for gpu in unit.gpus & state.gpus.keys():
            if state.gpus[gpu].still_ns is not None:
                state.gpus[gpu].still_ns = state.now_ns
    if launch:
        if unit.wait_ns is not None:
            unit.carried_ns = state.now_ns - unit.wait_ns
        unit.wait_ns, unit.memory_wait, unit.primed = None, False, False
    return asked


def release(track: Track, reason: str) -> list[NodeInstruction]:
    """Let one container run."""
    track.grip, track.reason, track.by_person = Grip.LETTING, reason, False
    track.retry_ns = None
    track.resume_by_ns = NEVER_NS
    return [Resume(track.id, reason)]


def hold_for_person(state: NodeState, track: Track) -> list[NodeInstruction]:
    """`dure node pause`: also takes over a pause that was Dure's."""
    ways = state.settings.ways
    if not ways or track.paused_by_others or track.grip is Grip.LETTING or track.by_person:
        return []
    unit = state.unit_of(track)
    way = track.way if track.gripped and track.way is not None else choose_way(unit, ways, None)
    if not track.gripped:
        track.grip, track.held_ns = Grip.TAKING, state.now_ns
    track.way, track.resume_by_ns, track.by_person = way, NEVER_NS, True
    track.reason = "a person paused it"
    return [Pause(track.id, way, NEVER_NS, track.reason, by_person=True)]


def paused(state: NodeState, track: Track, event: PauseEnded) -> list[NodeInstruction]:
    """A pause took effect, or failed."""
    if event.error is not None:
        return _not_paused(state, track, event)
    track.way, track.restless = event.way, 0
    if track.grip is Grip.TAKING:
        track.grip = Grip.HELD
        unit = state.unit_of(track)
        unit.context_made = unit.context_made or event.way is PauseWay.CUDA_LOCK
        if event.way is PauseWay.CUDA_LOCK and state.now_ns - track.held_ns >= COPY_WAITED_NS:
            # With no more memory than a context it waited for that to be made, not for a copy.
            more = unit.activity.memory_bytes >= state.settings.context_bytes
            unit.primed = unit.primed or more
        if event.way is PauseWay.DOCKER:
            track.paused_by_others = False  # the runtime pauses once: this pause is Dure's
            _learn_freeze(state, track)
    elif track.grip is Grip.FREE:
        # An answer to what was asked in an earlier life of the container.
        return release(track, "nobody wants it paused")
    return []


def _learn_freeze(state: NodeState, track: Track) -> None:
    """How long a freeze takes; one in a set-up has to wait for the driver, and does not count."""
    if sum(track.memory_bytes.values()) >= state.settings.context_bytes:
        took_ns = state.now_ns - track.held_ns
        state.freezes_ns = (*state.freezes_ns, took_ns)[-FREEZES_KEPT:]


def _not_paused(state: NodeState, track: Track, event: PauseEnded) -> list[NodeInstruction]:
    name = track.container.name
    taken_over = track.grip is Grip.HELD and track.by_person and not event.still_held
    if track.grip is not Grip.TAKING and not taken_over:
        return []
    track.grip = Grip.FREE
    if taken_over:
        # Its lock was opened so that it could be frozen for the person, which failed: it runs.
        track.way = None
        state.unit_of(track).activity.let_go(state.now_ns, launch=False)
    if track.by_person:
        track.by_person = track.person_paused = False
        return [Tell(track.id, f"'{name}' could not be paused: {event.error}")]
    alone_ns = state.settings.unpausable_ns
    if event.restless:
        soon_ns = state.settings.restless_ns << min(track.restless, MOST_DOUBLINGS)
        track.restless += 1
        if soon_ns < alone_ns:
            track.unpausable_until_ns = state.now_ns + soon_ns
            track.unpausable = track.unpausable or RESTLESS
            return []
    track.unpausable_until_ns = state.now_ns + alone_ns
    first = track.unpausable in ("", RESTLESS)
    track.unpausable = f"pausing it failed: {event.error}"
    return [Tell(track.id, f"'{name}' is left alone: {track.unpausable}")] if first else []


def resumed(state: NodeState, track: Track, event: ResumeEnded) -> list[NodeInstruction]:
    """A container runs again, or could not be let go: then it is tried until it works."""
    if track.grip is not Grip.LETTING:
        return []
    if event.error is None:
        track.grip, track.way, track.stuck = Grip.FREE, None, False
        return []
    first, track.stuck = not track.stuck, True
    track.retry_ns = state.now_ns + state.settings.retry_ns
    text = f"'{track.container.name}' could not be let go, trying again: {event.error}"
    return [Tell(track.id, text)] if first else []
