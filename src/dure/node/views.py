"""What people are shown: the state of each container, and why, in sentences."""

from collections.abc import Mapping

from dure.domain.containers import ContainerView, NodeView, PauseWay, WorkState
from dure.domain.units import format_bytes, format_duration
from dure.node.activity import Phase
from dure.node.memory import expected_bytes
from dure.node.state import NodeState
from dure.node.strategies.base import Verdict
from dure.node.tracks import Track
from dure.node.units import Unit, UnitKey

_WAYS = {
    PauseWay.DOCKER: "frozen by the container runtime",
    PauseWay.CUDA_LOCK: "its CUDA calls wait in the driver; everything else in it goes on",
}


def view(
    state: NodeState,
    strategy: str,
    queue: tuple[UnitKey, ...],
    verdicts: Mapping[UnitKey, Verdict],
    now_ns: int,
) -> NodeView:
    """Everything `dure node ps` shows, oldest container first."""
    tracks = sorted(state.tracks.values(), key=lambda t: (t.container.started_ns, t.id))
    return NodeView(
        now_ns,
        strategy,
        tuple(_container(state, track, queue, verdicts, now_ns) for track in tracks),
    )


def _container(
    state: NodeState,
    track: Track,
    queue: tuple[UnitKey, ...],
    verdicts: Mapping[UnitKey, Verdict],
    now_ns: int,
) -> ContainerView:
    unit = state.unit_of(track)
    what, reason = _state(state, track, verdicts, now_ns)
    # Who brings its input ahead of its turn runs, and still waits.
    waits = unit.key in queue and what not in (WorkState.HELD, WorkState.EXEMPT)
    waited_ns = now_ns - unit.wait_ns if waits and unit.wait_ns is not None else 0
    held = track.gripped
    return ContainerView(
        id=track.id,
        name=track.container.name,
        state=what,
        reason=reason,
        queue_place=queue.index(unit.key) + 1 if waits else None,
        waited_ns=waited_ns,
        way=track.way if held else PauseWay.DOCKER if track.paused_by_others else None,
        resume_by_ns=track.resume_by_ns if held and not track.by_person else None,
        deadline_ns=_deadline_ns(track),
        sm_share=max(track.share.values(), default=0.0),
        memory_bytes=sum(track.memory_bytes.values()),
        expected_memory_bytes=expected_bytes(track, state.history),
        gpus=track.container.gpus,
        project=track.container.project,
        burst_ns=unit.burst_ns(state.history),
    )


def _state(
    state: NodeState, track: Track, verdicts: Mapping[UnitKey, Verdict], now_ns: int
) -> tuple[WorkState, str]:
    """In one word and one sentence."""
    unit = state.unit_of(track)
    unmanaged = track.unmanaged()
    if track.held_by_person:
        who = "`dure node pause`" if track.person_paused else "somebody's own pause"
        return WorkState.HELD, f"{who} is in force"
    if unmanaged is not None:
        return WorkState.UNMANAGED, unmanaged
    if track.exempt:
        return WorkState.EXEMPT, (
            "`dure node exempt` is in force" if track.exempted else "its label dure.exempt says so"
        )
    if track.gripped:
        what = WorkState.ADMISSION if unit.memory_wait else WorkState.QUEUED
        return what, track.reason
    what = WorkState.RUNNING if unit.activity.active else WorkState.IDLE
    untouchable = unit.untouchable(now_ns)
    verdict = verdicts.get(unit.key)
    if untouchable is not None:
        reason = f"left alone: {untouchable}"
    elif state.missing is not None and unit.activity.active:
        reason = state.missing.value
    else:
        reason = verdict.reason if verdict is not None else unit.activity.phase.value
    return what, reason


def _deadline_ns(track: Track) -> int | None:
    stated = track.labels.deadline_ns
    return track.seen_ns + stated if stated is not None else None


def why(
    state: NodeState,
    track: Track,
    queue: tuple[UnitKey, ...],
    verdicts: Mapping[UnitKey, Verdict],
    now_ns: int,
) -> tuple[str, ...]:
    """Everything that speaks for the present state of a container."""
    unit = state.unit_of(track)
    shown = _container(state, track, queue, verdicts, now_ns)
    said = [f"'{shown.name}' is {shown.state.value}: {shown.reason}."]
    if len(unit.members) > 1:
        said.append(f"It is paused and let go with the {len(unit.members)} of its project.")
    if shown.queue_place is not None:
        said.append(f"Its place in the queue is {shown.queue_place} of {len(queue)}.")
    if shown.waited_ns:
        said.append(f"It has waited for {format_duration(shown.waited_ns)}.")
    if track.gripped and track.way is not None:
        said.append(f"It is {_WAYS[track.way]}.")
    if shown.resume_by_ns is not None:
        left = format_duration(max(0, shown.resume_by_ns - now_ns))
        said.append(f"It is let go in {left} at the latest, whatever happens.")
    said += _knowledge(unit, shown, now_ns)
    if state.missing is not None and shown.gpus:
        said.append(f"Nothing is paused, since {state.missing.value}.")
    return tuple(said)


def _knowledge(unit: Unit, shown: ContainerView, now_ns: int) -> list[str]:
    """What the decision rests on."""
    said = []
    if shown.burst_ns is not None:
        said.append(f"Its bursts of GPU work last about {format_duration(shown.burst_ns)}.")
    elif unit.activity.phase is not Phase.ABSENT:
        said.append("How long its bursts of GPU work last is not known yet.")
    if shown.expected_memory_bytes is not None:
        said.append(f"It is expected to use {format_bytes(shown.expected_memory_bytes)}.")
    if shown.deadline_ns is not None:
        left = shown.deadline_ns - now_ns
        words = f"in {format_duration(left)}" if left >= 0 else f"{format_duration(-left)} ago"
        said.append(f"Its deadline is {words}.")
    if unit.priority or unit.weight != 1.0:
        said.append(f"Its class is {unit.priority}, its weight {unit.weight:g}.")
    return said
