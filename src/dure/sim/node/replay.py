"""A recording of a host's containers, run again by the code of today."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.domain.node_events import ContainerChanged, ContainerStarted
from dure.domain.node_instructions import NodeInstruction, Pause, Resume
from dure.domain.units import NS_PER_S
from dure.kit.images import ImageError, value_of
from dure.node.machine import NodeMachine
from dure.node.notes import IMAGE, noted_settings
from dure.runtimes.recording import Recorded, read_recording

_PACKAGES = ("dure.domain", "dure.node")
"""Where the parts of a machine come from."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A pause or a resume, as recorded or as answered today."""

    at_s: float
    """From the first event."""
    container: str
    what: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found."""

    strategy: str
    events: int
    differing: int
    """Events that are answered otherwise today."""
    recorded: tuple[Deed, ...]
    replayed: tuple[Deed, ...]


def replay(path: Path) -> Replay:
    """Feed a fresh machine what was recorded. What the containers did stays as it was, so from the
    first other answer on it shows what would have been asked for, not what would have followed."""
    recording = read_recording(path)
    machine = _machine(path, recording)
    names: dict[str, str] = {
        id_: track.container.name for id_, track in machine.state.tracks.items()
    }
    recorded: list[Deed] = []
    replayed: list[Deed] = []
    differing = 0
    first_ns = recording.entries[0][0].now_ns if recording.entries else 0
    for event, answer in recording.entries:
        if isinstance(event, ContainerStarted | ContainerChanged):
            names[event.container.id] = event.container.name
        today = machine.handle(event)
        differing += today != answer
        at_s = (event.now_ns - first_ns) / NS_PER_S
        recorded += _deeds(at_s, answer, names)
        replayed += _deeds(at_s, today, names)
    events = len(recording.entries)
    return Replay(machine.strategy.name, events, differing, tuple(recorded), tuple(replayed))


def _machine(path: Path, recording: Recorded) -> NodeMachine:
    """A machine as the recorded one was at the first event."""
    try:
        settings = noted_settings(recording.header)
        if recording.header.get(IMAGE) is None:
            return NodeMachine(settings)
        made = value_of(recording.header[IMAGE], _PACKAGES)
    except InputError as error:
        raise error.located(file=f"{path}, line 1") from error
    except ImageError as error:
        raise InputError(
            f"it holds a machine that this version of Dure cannot be ({error})",
            "replay it with the version that recorded it",
            file=f"{path}, line 1",
        ) from error
    if not isinstance(made, NodeMachine):
        raise InputError("it holds no node machine", "record anew", file=f"{path}, line 1")
    return made


def _deeds(
    at_s: float, instructions: tuple[NodeInstruction, ...], names: Mapping[str, str]
) -> list[Deed]:
    found = []
    for each in instructions:
        name = names.get(each.container, each.container) if isinstance(each, Pause | Resume) else ""
        match each:
            case Pause():
                found.append(Deed(at_s, name, f"pause by {each.way.value}: {each.reason}"))
            case Resume():
                found.append(Deed(at_s, name, f"resume: {each.reason}"))
    return found
