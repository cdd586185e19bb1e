from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dure.api.policies import PolicySpec
from dure.domain.errors import InputError
from dure.domain.fleet.accounts import FeedKind, TenantKind
from dure.domain.fleet.clusters import ClusterClass
from dure.domain.fleet.programs import Mount, Thing
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Budget, Team
from dure.domain.fleet.workloads import Artefact, Demand, Gang, WhenCutOff, Work
from dure.domain.ids import ArtefactId, ClusterId
from dure.domain.units import GIB
from dure.server import specs
from dure.stores import rows

SUBMITTED_NS = 1_700_000_000 * 10**9


def stored_job(**spec: Any) -> rows.Job:
    whole = {"name": "train", "kind": "training", "image": "trainer:1"} | spec
    return rows.Job("id", "acme", "train", whole, priority=3, submitted_ns=SUBMITTED_NS)


def test_a_job_says_what_its_document_says() -> None:
    terms = specs.job_terms(
        stored_job(
            resources={"memory": "20GiB", "cpu": 2.5, "devices": 2, "profiles": ["H100"]},
            work={"time": "2h", "reference": "A100-40GB", "computeBound": 0.5},
            gang={"workers": 4, "checkpointEvery": None, "checkpointSize": "1GiB"},
            sla={"deadline": "+6h", "penaltyPerHour": 5.0},
            clusters=["seoul"],
            onClusterLost={"fenceAfter": "5m"},
            retries=2,
            weights={"name": "llama", "size": "140GB"},
            mounts=[{"path": "/data", "volume": "corpus"}],
            envFrom=[{"secret": "keys"}],
            grace="1m",
        )
    )
    workload = terms.workload
    assert workload.demand == Demand(memory_bytes=20 * GIB, cpu_milli=2500, devices=2)
    assert workload.profiles == frozenset({"h100"})
    assert workload.work == Work(7200.0, "a100-40gb", 0.5)
    assert workload.gang == Gang(4, checkpoint_s=None, checkpoint_bytes=GIB)
    assert workload.sla.deadline_ns == SUBMITTED_NS + 6 * HOUR_NS
    assert (workload.priority, workload.submitted_ns) == (3, SUBMITTED_NS)
    assert workload.when_cut_off is WhenCutOff.FENCE_AFTER
    assert (terms.fence_after_s, terms.retries) == (300.0, 2)
    assert [(each.id, each.size_bytes) for each in terms.artefacts] == [("llama", 140 * 10**9)]
    assert terms.program.mounts == (Mount(Thing("volume", "corpus"), "/data"),)
    assert terms.program.env_from == (Thing("secret", "keys"),)
    assert terms.program.grace_s == 60.0


def test_a_job_of_an_array_finds_its_number() -> None:
    row = rows.Job("id", "acme", "x", stored_job().spec, array_id="a", array_index=7)
    assert specs.job_terms(row).program.env == {specs.ARRAY_INDEX: "7"}


def test_a_job_that_does_not_say_how_long_it_takes_is_given_an_hour() -> None:
    assert specs.job_terms(stored_job()).workload.work == specs.UNSAID_WORK


def test_a_document_of_a_newer_version_is_refused_with_its_field() -> None:
    with pytest.raises(InputError, match=r"wishes: job id is stored in words"):
        specs.job_terms(stored_job(wishes=1))


def test_a_cluster_takes_its_series_from_feeds() -> None:
    row = rows.Cluster(
        "seoul",
        "kubernetes",
        {
            "class": "on-prem",
            "tariff": {"deviceHour": {"H100": 3.0}, "currency": "KRW"},
            "carbon": {"feed": "kr"},
            "electricity": {"constant": 90.0},
            "artefacts": {"llama": "140GB"},
        },
    )
    feed = Series(np.array([400.0, 500.0]))
    cluster = specs.cluster_of(row, (), {"kr": feed})
    assert cluster.cluster_class is ClusterClass.ON_PREM
    assert cluster.tariff.device_hour == {"h100": 3.0}
    assert cluster.carbon_g_per_kwh is feed
    assert cluster.electricity_per_mwh.at(0) == 90.0
    (artefact,) = specs.artefacts_of([row])
    assert artefact == Artefact(ArtefactId("llama"), 140 * 10**9, frozenset({ClusterId("seoul")}))
    assert specs.feeds_named(specs.cluster_spec(row)) == {"kr"}
    assert specs.namespace_of(specs.cluster_spec(row), "acme") == "dure-acme"


def test_points_of_a_feed_hold_until_the_next() -> None:
    feed = rows.Feed("kr", FeedKind.CARBON, "gCO2/kWh")
    points = [rows.FeedPoint("kr", hour * HOUR_NS, value) for hour, value in ((1, 10.0), (4, 40.0))]
    series = specs.series_of(feed, points)
    assert series is not None
    assert [series.at(hour * HOUR_NS) for hour in (1, 2, 3, 4)] == [10.0, 10.0, 10.0, 40.0]
    assert specs.series_of(feed, []) is None


def test_budgets_of_the_present_period_are_those_of_tenant_and_team() -> None:
    tree = [
        rows.Tenant("acme", TenantKind.TENANT, None, {"weight": 2.0}),
        rows.Tenant("acme/vision", TenantKind.TEAM, "acme"),
    ]
    budgets = [
        rows.Budget("acme", "year", "money", 1000.0, 0, 100),
        rows.Budget("acme", "tight", "money", 10.0, 0, 100),
        rows.Budget("acme", "past", "money", 1.0, 0, 5),
        rows.Budget("acme/vision", "grams", "gCO2", 50.0, 0, 100),
    ]
    (tenant,) = specs.tenants_of(tree, budgets, now_ns=10)
    assert (tenant.weight, tenant.budget) == (2.0, Budget(10.0, None))
    assert tenant.teams == (Team("vision", Budget(None, 50.0)),)


def test_a_pool_of_slices_has_their_mode() -> None:
    row = rows.Pool("p", "acme", {"profile": "H100", "slice": "1g.10gb", "guaranteed": 4})
    pool = specs.pool_of(row)
    assert (pool.profile, pool.template, pool.mode) == ("h100", "1g.10gb", ShareMode.MIG)


def test_a_policy_changes_what_it_says_and_nothing_else() -> None:
    row = rows.Policy(
        "green",
        {
            "all": {"carbonPerTonne": 100.0},
            "batch": {"coolDown": "2h"},
            "reclaimAfter": "never",
            "carbonBudgetKg": 2.0,
            "period": "24h",
        },
        created_ns=7,
    )
    policy, default = specs.policy_of(row), specs.policy_of(None)
    assert policy.training.carbon_per_tonne == policy.batch.carbon_per_tonne == 100.0
    assert (policy.batch.cool_down_ns, policy.reclaim_after_ns) == (2 * HOUR_NS, None)
    assert (policy.carbon_budget_g, policy.period_ns) == (2000.0, 24 * HOUR_NS)
    assert policy.period_start_ns == row.created_ns == 7
    dated = replace(row, spec={"periodStart": "1970-01-01T01:00:00Z"})
    assert specs.policy_of(dated).period_start_ns == HOUR_NS
    assert policy.serving.defer is default.serving.defer is False


@pytest.mark.parametrize("period", ["0h", "0.1ns"])
def test_a_period_of_budgets_lasts(period: str) -> None:
    with pytest.raises(ValueError, match="a period has to last"):
        PolicySpec(period=period)


def test_the_fleet_is_what_its_settings_say() -> None:
    settings = rows.Policy(
        specs.FLEET_POLICY,
        {
            "currency": "KRW",
            "rates": {"USD": 1300.0},
            "policy": "green",
            "network": {
                "egress": {"default": 0.1, "pairs": [{"from": "a", "to": "b", "perGb": 0.5}]},
                "latency": {"users": {"kr": {"a": 5.0}}},
            },
        },
    )
    green = rows.Policy("green")
    fleet = specs.fleet_of([green, settings], ())
    assert fleet.rates.to_base(2.0, "USD") == 2600.0
    assert (fleet.egress_per_gb, fleet.egress_default_per_gb) == ({("a", "b"): 0.5}, 0.1)
    assert fleet.latency_ms == {("kr", "a"): 5.0}
    assert specs.policy_in_force([green, settings]) is green
    assert specs.policy_in_force([green]) is None
