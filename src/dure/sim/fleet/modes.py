"""Modes a fleet can be run under: Dure, Dure with one feature off, references, baselines."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.domain.errors import InputError
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.local_machine import LocalMachine, LocalSettings
from dure.sim.fleet.baselines.rules import ByLot, CheapestFirst, FirstFit, LeastLoaded
from dure.sim.fleet.baselines.stage import BaselineStage
from dure.sim.fleet.setting import LocalFeatures, Setting
from dure.sim.fleet.surroundings import LocalStage
from dure.sim.fleet.world import GlobalStage

_CARBON_ALONE = 1e6
"""Price of a tonne at which nothing but carbon counts: a kilogram outweighs any rent."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run a fleet."""

    name: str
    make_centre: Callable[[Setting], GlobalStage]
    adapt: Callable[[LocalFeatures], LocalFeatures] = lambda features: features
    """What the mode changes about the setting's local features."""
    change: Callable[[FleetPolicy], FleetPolicy] = lambda policy: policy
    """What it changes about every policy, also those switched to later."""
    race: bool = False
    """Orders go to several clusters; the first to start keeps the job."""
    baseline: bool = False
    """Whether it is a heuristic to measure Dure against."""
    about: str = ""

    def make_local(self, setting: Setting, index: int) -> LocalStage:
        """The local stage of one cluster."""
        features = self.adapt(setting.local)
        cluster = setting.fleet.clusters[index]
        regions = {region for region, name in setting.fleet.latency_ms if name == cluster.id}
        regions |= {
            region
            for workload in setting.workloads
            if workload.service is not None
            for region, _ in workload.service.users
        }
        return LocalMachine(
            LocalSettings(
                cluster,
                autoscale=features.autoscale,
                elastic=features.elastic,
                power_down=features.power_down,
                defragment=features.defragment,
                nodes_on_at_start=setting.physics.nodes_on_at_start,
                round_trip_ms={
                    region: setting.fleet.latency(region, cluster.id) for region in sorted(regions)
                },
                rates=setting.fleet.rates,
                validate=setting.validate,
            )
        )


def _global(setting: Setting, policy: FleetPolicy) -> GlobalStage:
    return GlobalMachine(
        GlobalSettings(
            setting.fleet,
            policy,
            validate=setting.validate,
            carbon_ahead_ns=setting.carbon_known_ahead_ns,
            prices_ahead_ns=setting.prices_known_ahead_ns,
        )
    )


def _each_class(policy: FleetPolicy, change: Callable[[ClassPolicy], ClassPolicy]) -> FleetPolicy:
    """The same change to the rules of every class."""
    return replace(
        policy,
        training=change(policy.training),
        batch=change(policy.batch),
        serving=change(policy.serving),
    )


def _dure(change: Callable[[FleetPolicy], FleetPolicy]) -> Callable[[Setting], GlobalStage]:
    return lambda setting: _global(setting, change(setting.policy))


def _cost_only(policy: FleetPolicy) -> FleetPolicy:
    """Rent, energy and transfers; neither carbon nor promises count."""
    changed = _each_class(
        policy, lambda each: replace(each, cost_weight=1.0, carbon_per_tonne=0.0, sla_weight=0.0)
    )
    return replace(changed, carbon_budget_g=None)


def _carbon_only(policy: FleetPolicy) -> FleetPolicy:
    """Grams alone."""
    changed = _each_class(
        policy,
        lambda each: replace(each, cost_weight=0.0, carbon_per_tonne=_CARBON_ALONE, sla_weight=0.0),
    )
    return replace(changed, carbon_budget_g=None)


def _no_congestion(policy: FleetPolicy) -> FleetPolicy:
    """Prices stay where they start: at nothing."""
    return replace(policy, congestion=replace(policy.congestion, frozen=True, pinned={}))


def _no_locality(policy: FleetPolicy) -> FleetPolicy:
    return _each_class(policy, lambda each: replace(each, locality_weight=0.0))


def _no_latency(policy: FleetPolicy) -> FleetPolicy:
    """Violations neither count for services nor raise any sensitivity."""
    return replace(policy, adapt_latency=False, serving=replace(policy.serving, sla_weight=0.0))


def _no_deferral(policy: FleetPolicy) -> FleetPolicy:
    return _each_class(policy, lambda each: replace(each, defer=False))


def _no_migration(policy: FleetPolicy) -> FleetPolicy:
    return _each_class(policy, lambda each: replace(each, migrate=False))


def _no_forecast(policy: FleetPolicy) -> FleetPolicy:
    return replace(policy, forecast=False)


def _same(policy: FleetPolicy) -> FleetPolicy:
    return policy


def _packer_only(features: LocalFeatures) -> LocalFeatures:
    return replace(features, defragment=False, elastic=False)


ABLATIONS: dict[str, Mode] = {
    "congestion": Mode("dure without congestion", _dure(_no_congestion), change=_no_congestion),
    "locality": Mode("dure without locality", _dure(_no_locality), change=_no_locality),
    "latency": Mode("dure without latency", _dure(_no_latency), change=_no_latency),
    "deferral": Mode("dure without deferral", _dure(_no_deferral), change=_no_deferral),
    "defragmentation": Mode(
        "dure without defragmentation",
        _dure(_same),
        adapt=lambda features: replace(features, defragment=False),
    ),
    "elasticity": Mode(
        "dure without elasticity",
        _dure(_same),
        adapt=lambda features: replace(features, elastic=False),
    ),
    "migration": Mode("dure without migration", _dure(_no_migration), change=_no_migration),
    "forecast": Mode("dure without forecast", _dure(_no_forecast), change=_no_forecast),
}
"""Dure with one feature off, by the feature."""

MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("dure", _dure(_same), about="the global machine with the setting's policy"),
        Mode("cost-only", _dure(_cost_only), change=_cost_only, about="only money counts"),
        Mode("carbon-only", _dure(_carbon_only), change=_carbon_only, about="only grams count"),
        Mode(
            "cheapest-first",
            lambda setting: BaselineStage(setting.fleet, CheapestFirst()),
            _packer_only,
            baseline=True,
            about="each job where it costs least among sites with room",
        ),
        Mode(
            "least-loaded",
            lambda setting: BaselineStage(setting.fleet, LeastLoaded()),
            _packer_only,
            baseline=True,
            about="each job where the largest share is free",
        ),
        Mode(
            "first-fit",
            lambda setting: BaselineStage(setting.fleet, FirstFit()),
            _packer_only,
            baseline=True,
            about="each job at the first site with room, in a fixed order",
        ),
        Mode(
            "race",
            lambda setting: BaselineStage(setting.fleet, ByLot(setting.seed), race=True),
            _packer_only,
            race=True,
            baseline=True,
            about="each job to all clusters at once, the first to start keeps it",
        ),
        *ABLATIONS.values(),
    )
}
"""By name; a new mode is one entry."""


def mode_named(name: str) -> Mode:
    """A mode; raises `InputError` for an unknown name."""
    try:
        return MODES[name]
    except KeyError:
        raise InputError(f"'{name}' is no mode", f"use one of {', '.join(MODES)}") from None
