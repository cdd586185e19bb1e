"""Where an instance sits, by names that mean the same after nodes have come and gone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeSpot:
    """A place on a node."""

    node: str
    devices: tuple[int, ...]
    """Numbers within the node."""
    masks: tuple[int, ...] = ()
    template: str = ""
    compute_milli: int = 1000
