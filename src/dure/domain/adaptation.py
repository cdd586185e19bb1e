"""Adaptation of policies: what may be tried, what a dry run is asked, what is advised and done."""

from dataclasses import dataclass
from enum import Enum

from dure.domain.events import PolicyParameters


class AdaptBy(Enum):
    """What is done about a policy that would do better."""

    OFF = "off"
    """Nothing: it stays until somebody switches."""
    ADVISE = "advise"
    """It is proposed to people."""
    AUTO = "auto"
    """It is switched to, and back if that made things worse."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A policy with its parameters: one of those that may be tried."""

    policy: str
    parameters: PolicyParameters = ()

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value:g}" for name, value in self.parameters)
        return f"{self.policy} ({said})" if said else self.policy


@dataclass(frozen=True, slots=True)
class Foretold:
    """What a dry run says of one choice."""

    choice: Choice
    score: float
    """The objective, from 0 to 1."""


class AdviceKind(Enum):
    """What an advisor has to say."""

    PROPOSED = "proposed"
    """Another choice would do better; nothing was done."""
    SWITCHED = "switched"
    """It was switched to."""
    ROLLED_BACK = "rolled back"
    """A switch made things worse, so it was undone."""
    KEPT = "kept"
    """A switch was looked at again and stays."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One adaptation of a policy, with its reason."""

    at_ns: int
    kind: AdviceKind
    before: Choice
    after: Choice
    measured: float
    """The objective as it was measured before, from 0 to 1."""
    gain: float
    """What is expected to be added to it; after a switch, what was added."""
    reason: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.before} → {self.after}: {self.reason}"


@dataclass(frozen=True, slots=True)
class AskDryRun:
    """Find out what these choices would give from here on; answered by `DryRunEnded`."""

    choices: tuple[Choice, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class DryRunEnded:
    """A dry run was done, or failed: then nothing is foretold."""

    now_ns: int
    foretold: tuple[Foretold, ...]


@dataclass(frozen=True, slots=True)
class ChoiceInForce:
    """The policy in force is another one: somebody switched."""

    now_ns: int
    choice: Choice
