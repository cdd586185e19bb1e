"""Lives of jobs, attempts and clusters at the centre: their states, and which step may follow."""

from collections.abc import Mapping
from enum import Enum


class JobPhase(Enum):
    """Where a job is between its submission and its end."""

    QUEUED = "queued"
    PLACED = "placed"
    """A cluster was chosen; nothing runs yet."""
    RUNNING = "running"
    UNKNOWN = "unknown"
    """Its cluster cannot be reached."""
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to the job any more."""
        return self in _ENDS


_ENDS = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED})


class AttemptState(Enum):
    """One attempt to run a job in one cluster."""

    RESERVED = "reserved"
    """Capacity is kept; the cluster has not yet said yes."""
    COMMITTED = "committed"
    """The cluster accepted it and may start it at any time."""
    RUNNING = "running"
    RELEASING = "releasing"
    """It was told to stop, and may still run."""
    GONE = "gone"
    """Nothing of it runs, and nothing will."""

    @property
    def live(self) -> bool:
        """Whether something of it may run now or later without being asked again."""
        return self in LIVE_STATES


LIVE_STATES = frozenset({AttemptState.COMMITTED, AttemptState.RUNNING, AttemptState.RELEASING})
"""Training and batch: an attempt may enter these only when no other is in them."""

LEGAL_STEPS: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.RESERVED: frozenset({AttemptState.COMMITTED, AttemptState.GONE}),
    AttemptState.COMMITTED: frozenset(
        {AttemptState.RUNNING, AttemptState.RELEASING, AttemptState.GONE}
    ),
    AttemptState.RUNNING: frozenset({AttemptState.RELEASING, AttemptState.GONE}),
    AttemptState.RELEASING: frozenset({AttemptState.GONE}),
    AttemptState.GONE: frozenset(),
}
"""What may follow what. A refused or withdrawn reservation is gone at once."""


class PartitionPhase(Enum):
    """Where it stands with the wish that a node's devices be divided anew."""

    ASKED = "asked"
    """Its cluster has not said anything about it yet."""
    UNDER_WAY = "under-way"
    """Nothing new is placed on the node; it is not yet divided as it shall be."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing was changed: its devices are in use, or nobody there can divide them."""
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self in (PartitionPhase.DONE, PartitionPhase.REFUSED, PartitionPhase.FAILED)


class ClusterState(Enum):
    """What the centre may do with a member cluster."""

    JOINED = "joined"
    CORDONED = "cordoned"
    """Nothing new is placed there; what runs there runs on."""
    DRAINING = "draining"
    """Cordoned, and what runs there is moved away."""
    LOST = "lost"
    """A person declared that it will not come back."""
