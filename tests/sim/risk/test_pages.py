"""The layout of the bench, from runs written by hand."""

import json
from dataclasses import replace

from dure.domain.risks import WeightsBy
from dure.sim.benches.page import Made, markdown
from dure.sim.kernel.ramps import Shape
from dure.sim.risk.bench import report_of
from dure.sim.risk.figures import RiskFigures
from dure.sim.risk.pages import verdicts
from dure.sim.risk.ramp_runs import AdaptedRun, FrozenRun, Seen
from dure.sim.risk.recorded import ForecastScore
from dure.sim.risk.scoring import Judged, score

RUN = FrozenRun(
    seed=1,
    shape=Shape.RAMP,
    reports=True,
    start_s=20.0,
    length_s=90.0,
    violations_s=(40.0, 40.5),
    risks_s=(30.0,),
    foretold_s=8.0,
    seen=Seen((), (), (), ()),
    job_iterations=100,
)
QUIET = replace(RUN, shape=Shape.STEADY, violations_s=(), risks_s=(), length_s=3600.0)


def figures(run: FrozenRun, *, quiet: FrozenRun = QUIET, violations: int = 0) -> RiskFigures:
    adapted = AdaptedRun(1, WeightsBy.FORESEEN, violations, 98, 3, 16.0)
    told = score("Dure", [run.judged(run.risks_s), Judged((), None, None, 60.0)])
    return RiskFigures(
        drawn=2,
        ramps=(run,),
        steps=(run,),
        quiet=(quiet,),
        wandering=(quiet,),
        recorded=(run,),
        adapted=(adapted,),
        stepped=(adapted,),
        alarms=(told,),
        recorded_alarms=(told,),
        series=(("level moves", (told,)),),
        forecasts=(ForecastScore("price", 3, "1 h", {"Dure": 0.1, "as now": 0.2}),),
    )


def test_figures_are_plain_data() -> None:
    assert json.dumps(report_of(figures(RUN)).data())


def passed(found: RiskFigures) -> list[bool | None]:
    return [verdict.passed for verdict in verdicts(found)][:3]


def test_a_run_seen_ten_seconds_before_passes_everything() -> None:
    assert passed(figures(RUN)) == [True, True, True]


def test_a_run_seen_two_seconds_before_fails_the_lead() -> None:
    assert passed(figures(replace(RUN, risks_s=(38.0,)))) == [False, True, True]


def test_alarms_on_steady_load_are_false() -> None:
    noisy = replace(QUIET, risks_s=(5.0, 900.0, 1800.0))
    assert passed(figures(RUN, quiet=noisy)) == [True, False, True]


def test_an_alarm_before_a_promise_that_breaks_at_its_usual_load_is_not_false() -> None:
    broken = replace(QUIET, risks_s=(5.0,), violations_s=(10.0, 10.5))
    assert broken.judged(broken.risks_s).false_alarms == 0
    assert passed(figures(RUN, quiet=broken)) == [True, True, True]


def test_violations_are_counted_against_those_with_weights_frozen() -> None:
    assert passed(figures(RUN, violations=1)) == [True, True, False]


def test_the_page_shows_every_table() -> None:
    page = markdown(report_of(figures(RUN)), Made("2026-01-01", "a machine", "dure bench risk"))
    for title in ("Alarms on ramps", "recorded hour", "labelled faults", "Forecasts", "Every ramp"):
        assert title in page
