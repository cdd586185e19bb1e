"""Ways to share a GPU that a run compares: what people have today, and Dure's policies."""

from dataclasses import dataclass, field

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.adaptation import AdaptBy
from dure.domain.events import PolicyParameters
from dure.domain.risks import WeightsBy
from dure.kernel.policies.registry import POLICIES
from dure.kernel.resources import disjoint
from dure.sim.kernel.load import TenantLoad
from dure.sim.kernel.world import Sharing

BASELINES = ("time-slice", "mps", "mps-priority", "static-partition")
"""Plain sharing: driver time slices, MPS, MPS with client priorities, fixed parts by weight."""

SWITCHING = "switching"
"""Dure, changing policy at given times."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of policy at a time."""

    at_ns: int
    policy: str
    parameters: PolicyParameters = ()


@dataclass(frozen=True, slots=True)
class Mode:
    """One row of a comparison."""

    name: str
    policy: str | None = None
    """None: no machine, a baseline."""
    parameters: PolicyParameters = ()
    side_by_side: bool = True
    switches: tuple[Switch, ...] = field(default=())
    weights: WeightsBy = WeightsBy.FORESEEN
    adapt: AdaptBy = AdaptBy.OFF
    """What is done about a policy that would do better."""


def baseline(name: str) -> Mode:
    """A baseline by name."""
    return Mode(name, side_by_side=name != "time-slice")


def managed(
    policy: str, *, side_by_side: bool, parameters: PolicyParameters = (), name: str = ""
) -> Mode:
    """Dure under one policy."""
    return Mode(name or policy, policy, parameters, side_by_side)


def mode_names() -> tuple[str, ...]:
    """Every mode a scenario may ask for."""
    return (*BASELINES, *POLICIES, SWITCHING)


def sharing_of(mode: Mode, profile: AcceleratorProfile, loads: tuple[TenantLoad, ...]) -> Sharing:
    """What the administrator would set up for a mode."""
    if mode.policy is not None or mode.name == "mps-priority":
        priorities = {load.tenant.id: int(load.tenant.protected) for load in loads}
        return Sharing(
            mode.side_by_side,
            priorities if mode.side_by_side else {},
            gated=mode.policy is not None,
        )
    if mode.name == "static-partition":
        weights = tuple(load.tenant.weight for load in loads)
        sets = disjoint(profile, weights)
        return Sharing(
            True, sms={load.tenant.id: part for load, part in zip(loads, sets, strict=True)}
        )
    return Sharing(mode.side_by_side)
