"""Strategy `none`: everybody shares, as without Dure; people's own pauses still work."""

from dataclasses import dataclass

from dure.domain.containers import PauseWay
from dure.node.strategies.base import Plan, Scene


@dataclass(slots=True)
class NoStrategy:
    """Nobody waits."""

    name: str = "none"
    prefers: PauseWay | None = None

    def plan(self, scene: Scene) -> Plan:
        """No verdicts at all."""
        return Plan()
