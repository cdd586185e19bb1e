"""Whole runs: every mode, all figures, plain data."""

import json
from dataclasses import replace

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.policy import HOUR_NS, FleetPolicy
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.fleet.workloads import Gang, Sla
from dure.domain.ids import TenantId
from dure.sim.fleet.modes import ABLATIONS, MODES, mode_named
from dure.sim.fleet.run import run, run_world
from dure.sim.fleet.setting import Setting
from tests.sim.fleet.worlds import START_NS, cluster, flat_load, group, job, service, setting


def _busy(hours: float = 4.0) -> Setting:
    jobs = [
        job(
            f"j{n}",
            at_s=300.0 * n,
            runs_s=600.0 * (n % 5 + 1),
            tenant=TenantId(f"t{n % 2}"),
            gang=Gang(workers=n % 3 + 1, most_workers=6 if n % 4 == 0 else None),
            delay_tolerant=n % 2 == 0,
            sla=Sla(START_NS + round((300.0 * n + 9000.0) * 1e9), penalty_per_hour_late=1.0),
        )
        for n in range(24)
    ]
    day = [300.0 + 20.0 * hour for hour in range(48)]
    return setting(
        [
            cluster("a", [group(nodes=3)], price=2.0, carbon=day),
            cluster("b", [group(nodes=3)], price=1.0, carbon=day[::-1]),
            cluster("own", price=None, carbon=day, electricity=day),
        ],
        [*jobs, service("s", rate=12.0)],
        hours=hours,
        tenants=(
            FleetTenant(TenantId("t0")),
            FleetTenant(TenantId("t1")),
            FleetTenant(TenantId("sue")),
        ),
    )


@pytest.mark.parametrize("name", list(MODES))
def test_every_mode_runs_and_accounts_for_everything(name: str) -> None:
    result = run(replace(_busy(), round_ns=HOUR_NS // 12), name)
    assert result.mode == name
    figures = result.jobs
    assert figures.ended + figures.unfinished == figures.submitted == 24
    assert figures.ended > 12
    assert sum(each.money.total for each in result.tenants) == pytest.approx(result.money.total)
    assert sum(each.kg_co2 for each in result.tenants) == pytest.approx(result.kg_co2)
    assert sum(each.kg_co2 for each in result.clusters) == pytest.approx(result.kg_co2)
    assert 0.0 < result.utilisation <= result.open_share <= 1.0
    assert 0.0 <= result.slo_attainment <= 1.0


def test_figures_are_plain_data() -> None:
    result = run(_busy(), "cheapest-first")
    document = json.loads(json.dumps(result.to_json()))
    assert document["money"]["total"] == pytest.approx(result.money.total)
    assert document["tenants"][0]["money"]["total"] == pytest.approx(result.tenants[0].money.total)
    assert len(document["hourly"]["money"]) == 4


def test_hourly_figures_add_up_to_the_totals() -> None:
    result = run(_busy(), "least-loaded")
    hourly = result.hourly
    assert sum(hourly.rent) == pytest.approx(result.money.rent)
    assert sum(hourly.energy) == pytest.approx(result.money.energy)
    assert sum(hourly.kg_co2) == pytest.approx(result.kg_co2)
    mean = sum(hourly.utilisation) / len(hourly.utilisation)
    assert mean == pytest.approx(result.utilisation)
    assert hourly.waiting_jobs[-1] + hourly.running_jobs[-1] == result.jobs.unfinished


def test_progress_is_told_to_the_end() -> None:
    told: list[float] = []
    run(_busy(1.0), "first-fit", told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) == 60


def test_jobs_without_room_wait_and_are_counted_until_the_end() -> None:
    made = setting(
        [cluster("c", [group(nodes=1)])],
        [job("j", gang=Gang(workers=3)), job("k", gang=Gang(workers=3))],
        hours=1.0,
    )
    world, result = run_world(made, "first-fit")
    assert result.jobs.ended == 0
    assert result.jobs.unfinished == 2
    assert result.jobs.mean_completion_s == 3600.0
    assert world.jobs[made.workloads[1].id].started_ns < 0


def test_what_can_never_run_is_refused_with_a_reason() -> None:
    result = run(setting([cluster("c")], [job("j", gang=Gang(workers=99))], hours=1.0), "first-fit")
    assert (result.jobs.refused, result.jobs.unfinished) == (1, 0)
    assert result.money.unfinished == 0.0
    assert "99" in result.warnings[0]


def test_an_unknown_mode_is_named_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="cheapest-first"):
        mode_named("best")


def test_an_ablation_changes_one_thing() -> None:
    policy = FleetPolicy()
    made = replace(_busy(1.0), policy=policy)
    for name, mode in ABLATIONS.items():
        centre = mode.make_centre(made)
        changed = centre.settings.policy != policy  # type: ignore[attr-defined]
        local = mode.adapt(made.local) != made.local
        assert changed != local, name


def test_without_latency_sensitivity_places_near_data_still_earn_their_weight() -> None:
    for change in ("latency", "locality"):
        policy = ABLATIONS[change].change(FleetPolicy())
        assert policy.adapt_latency == (change != "latency")
        assert policy.adapt_locality


def test_the_error_of_load_forecasts_is_reported() -> None:
    waves = flat_load("s", [10.0, 14.0, 12.0] * 4)
    made = replace(_busy(12.0), validate=False, loads=waves)
    found = run(made, "dure").forecasts
    assert found.load is not None
    assert found.load_as_now is not None
    assert found.load_as_now > 0.1, "the load is never as it was an hour before"
    assert run(made, "dure without forecast").forecasts.load is None
    assert run(made, "first-fit").forecasts.load is None


def test_settings_that_cannot_be_run_are_refused() -> None:
    for broken, why in (
        ({"round_ns": 0}, "time between rounds"),
        ({"workloads": (job("b", at_s=5.0), job("a"))}, "order of submission"),
        ({"workloads": (job("a"), job("a"))}, "same id"),
        ({"tenants": (FleetTenant(TenantId("x")),)}, "no tenant"),
    ):
        with pytest.raises(InputError, match=why):
            replace(setting([cluster("c")], [job("j")]), **broken)
