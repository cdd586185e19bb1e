"""What the local stage is started with."""

from dataclasses import asdict

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.units import NS_PER_S
from dure.fleet.local.settings import LocalSettings
from tests.fleet.local.factories import cluster

DEFAULTS = {
    "queue": {
        "patience_ns": 6 * HOUR_NS,
        "most_passes": 16,
        "hold_after_ns": HOUR_NS,
        "hold_renew_ns": HOUR_NS,
        "most_failures": 5,
        "shun_ns": 5 * MINUTE_NS,
    },
    "scaling": {
        "headroom": 1.1,
        "shrink_headroom": 1.3,
        "mean_ns": HOUR_NS,
        "spread_ns": 6 * HOUR_NS,
        "first_margin": 1.3,
        "most_margin": 2.3,
        "learn_per_h": 6.0,
        "least_late": 0.005,
        "most_late": 0.01,
        "most_factor": 3.0,
        "drain_s": 60.0,
        "warn_share": 0.9,
        "grow_share": 0.25,
        "grow_hold_ns": 10 * MINUTE_NS,
        "most_growth": 1.0,
        "shrink_hold_ns": 5 * MINUTE_NS,
        "shrink_share": 0.25,
        "zero_after_ns": 15 * MINUTE_NS,
        "larger_slices": True,
        "settle_ns": 10 * NS_PER_S,
    },
    "growth": {
        "interval_ns": 10 * MINUTE_NS,
        "onto_empty_nodes": None,
        "reserve_devices": 0,
        "shrink_share": 0.5,
    },
    "power": {"idle_ns": 10 * MINUTE_NS, "spare_nodes": 0},
    "tidy": {
        "interval_ns": HOUR_NS,
        "most_moves": 8,
        "most_at_once": None,
        "most_per_hour": None,
        "blocked_ns": 10 * MINUTE_NS,
        "empty_ns": 5 * NS_PER_S,
        "gain": 2.0,
        "rest_ns": HOUR_NS,
        "worth_moving_ns": 30 * MINUTE_NS,
    },
    "autoscale": True,
    "elastic": True,
    "power_down": True,
    "defragment": True,
    "in_place": frozenset(),
    "nodes_on_at_start": True,
    "round_trip_ms": {},
    "rates": {"base": "USD", "worth": {}},
    "validate": False,
}


def test_every_default_is_as_documented() -> None:
    settings = asdict(LocalSettings(cluster()))
    del settings["cluster"]
    assert settings == DEFAULTS


def test_negative_capacity_is_refused() -> None:
    with pytest.raises(InputError, match="negative capacity"):
        LocalSettings(cluster(NodeGroup("g", -1, "a100", 4, 1000, 1000, 4)))
