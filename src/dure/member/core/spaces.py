"""What the centre is told of virtual clusters here: what changed since it was told, or all."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.fleet.virtual import SpaceStatus


@dataclass(slots=True)
class SpaceBook:
    """How each virtual cluster is here, by name."""

    _known: dict[str, SpaceStatus] = field(default_factory=dict)
    _told: dict[str, SpaceStatus] = field(default_factory=dict)

    def put(self, statuses: Iterable[SpaceStatus]) -> bool:
        """They are so now, and there are no others; whether there is something to tell."""
        self._known = {each.name: each for each in statuses}
        self._told = {name: each for name, each in self._told.items() if name in self._known}
        return self._known != self._told

    def of(self, name: str) -> SpaceStatus | None:
        """How one is here; None: that is not known yet."""
        return self._known.get(name)

    def news(self, *, whole: bool) -> tuple[SpaceStatus, ...]:
        """What is to be told; it counts as told."""
        found = tuple(
            each for name, each in self._known.items() if whole or self._told.get(name) != each
        )
        self._told = dict(self._known)
        return found
