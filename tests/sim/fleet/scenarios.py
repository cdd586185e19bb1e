"""Small fleet scenarios and made-up results for tests."""

from pathlib import Path

import yaml

from dure.sim.fleet.results import (
    ActionFigures,
    ClusterFigures,
    ExplanationSample,
    FleetResult,
    HourlySeries,
    JobFigures,
    MoneyTerms,
    ServiceFigures,
    TenantFigures,
    WaitSample,
)
from dure.sim.fleet.scenario import Overrides, Scenario, read_scenario

Fields = dict[str, object]


def cluster(**changes: object) -> Fields:
    """Two rented nodes with eight A100 each."""
    fields: Fields = {
        "name": "east",
        "region": "us-east-1",
        "provider": "aws",
        "tariff": {"device_hour": {"a100": 4.0}},
        "carbon": 300,
        "groups": [{"profile": "a100", "nodes": 2}],
    }
    return fields | changes


def tenant(**changes: object) -> Fields:
    fields: Fields = {"name": "lab", "teams": ["vision"]}
    return fields | changes


def training(**changes: object) -> Fields:
    """Two hours on four devices of one node."""
    fields: Fields = {
        "name": "train",
        "tenant": "lab",
        "kind": "training",
        "demand": {"memory": "40GB", "devices": 4},
        "work": {"time": "2h", "reference": "a100"},
        "sla": {"deadline": "6h", "penalty_per_hour": 5, "cap": 50},
    }
    return fields | changes


def service(**changes: object) -> Fields:
    fields: Fields = {
        "name": "chat",
        "tenant": "lab",
        "kind": "serving",
        "demand": {"memory": "10GB"},
        "service": {
            "requests_per_s": 4,
            "replica_requests_per_s": 10,
            "latency": "1s",
            "service_time": "100ms",
            "load": "flat",
        },
    }
    return fields | changes


def scenario(**changes: object) -> Fields:
    """One cluster, one tenant, one job, half a day."""
    fields: Fields = {
        "start": "2023-10-01",
        "duration": "12h",
        "round": "5m",
        "modes": ["first-fit", "dure"],
        "clusters": [cluster()],
        "tenants": [tenant()],
        "workloads": [training()],
    }
    return fields | changes


def job(**changes: object) -> Fields:
    """A scenario whose one job is like `training`."""
    return scenario(workloads=[training(**changes)])


def written(folder: Path, fields: Fields) -> Path:
    """A scenario file with these fields."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path


def read(folder: Path, fields: Fields, **overrides: object) -> Scenario:
    """The scenario these fields describe."""
    return read_scenario(written(folder, fields), Overrides(**overrides))  # type: ignore[arg-type]


def result(mode: str, *, rent: float = 100.0, hours: int = 6) -> FleetResult:
    """A run that somebody made up."""
    return FleetResult(
        mode=mode,
        scenario="made",
        seed=1,
        currency="USD",
        simulated_s=hours * 3600.0,
        devices=16,
        money=MoneyTerms(rent=rent, energy=3.0, late_jobs=1.5),
        kg_co2=rent / 4,
        kwh=rent,
        jobs=JobFigures(submitted=3, ended=2, unfinished=1, with_deadline=2, on_time_share=0.5),
        services=ServiceFigures(services=1, minutes=300.0, within_target_share=0.9996),
        actions=ActionFigures(placements=4, moves=1, expected_saving=2.0, realised_saving=1.0),
        slo_attainment=0.5,
        utilisation=0.4,
        open_share=0.6,
        fragmentation=0.1,
        hourly=HourlySeries(
            money=tuple(rent / hours for _ in range(hours)),
            kg_co2=tuple(float(hour) for hour in range(hours)),
            utilisation=tuple(hour / hours for hour in range(hours)),
            service_within_target=tuple(1.0 for _ in range(hours)),
            waiting_jobs=tuple(hour % 3 for hour in range(hours)),
        ),
        tenants=(
            TenantFigures("lab", MoneyTerms(rent=rent, energy=3.0), 20.0, 40.0, 2, 0.5),
            TenantFigures("webco", MoneyTerms(late_jobs=1.5), 5.0, 2.0, None, None),
        ),
        clusters=(
            ClusterFigures("east", "us-east-1", "cloud", 16, 40.0, 60.0, 0.4, rent, 25.0, 2),
        ),
        explanations=(
            ExplanationSample(
                workload="train",
                kind="training",
                tenant="lab",
                at_ns=1_800_000_000_000,
                site="east/a100",
                terms=(("rent", 32.0), ("saved_transfer", -2.0)),
                money=30.0,
                congestion=1.25,
                kg_co2=3.5,
                sla_risk=0.5,
                runner_up="west/h100",
                runner_up_total=40.25,
                note="deadline in 6 h",
                runner_up_start_ns=1_800_000_000_000 + 3 * 3600 * 10**9,
                runner_up_why="cheaper hours come then",
            ),
        )
        if mode == "dure"
        else (),
        waits=(
            WaitSample("late", "training", "lab", 0, 7200 * 10**9, "no money is left", at_end=True),
        )
        if mode == "dure"
        else (),
        warnings=("budget of lab is 90 % used",) if mode == "dure" else (),
    )
