"""Instructions: everything a node machine ever asks its process to do."""

from dataclasses import dataclass

from dure.domain.containers import PauseWay
from dure.domain.ids import ContainerId

NEVER_NS = 2**63 - 1
"""As `resume_by_ns`: not let go by time."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep a container from the GPU. Answered by `PauseEnded`.

    Instructions for one container are carried out in the order they were given, so a `Resume` may
    follow before the answer to the `Pause` has come; both are answered.

    By `CUDA_LOCK` while its input is copied, the driver lets the copy end and holds the launch
    after it: the answer then comes when the copy is over.
    """

    container: ContainerId
    way: PauseWay
    resume_by_ns: int
    """Let go at this moment whatever happens; the watchdog keeps to it, too."""
    reason: str
    by_person: bool = False
    """`dure node pause`: nobody undoes it but a person, so `resume_by_ns` is `NEVER_NS` and no
    watchdog thaws it. May come for a container that is paused already: then it only changes hands.
    """


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a container go. Answered by `ResumeEnded`."""

    container: ContainerId
    reason: str


@dataclass(frozen=True, slots=True)
class PollEvery:
    """How often the monitor is to look from now on."""

    every_ns: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `TimePassed` at this moment; replaces an earlier wish."""

    at_ns: int | None


@dataclass(frozen=True, slots=True)
class Tell:
    """Something a person should know, once."""

    container: ContainerId | None
    text: str


NodeInstruction = Pause | Resume | PollEvery | WakeAt | Tell
