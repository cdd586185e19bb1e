from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from dure.domain.ids import TenantId
from dure.domain.tenant import AvailabilitySlo, LatencySlo, Slo, Tenant, ThroughputSlo
from dure.sim.figures import percent
from dure.sim.kernel.compare import Comparison
from dure.sim.kernel.export import comparison_data
from dure.sim.kernel.load import ClosedLoop, KernelSpec, Program, TenantLoad
from dure.sim.kernel.results import TenantResult
from dure.sim.kernel.sheets import Sheet, Tone, figure, overview, sheets, tenant
from dure.sim.kernel.tables import WIDTH, comparison_tables
from dure.sim.kernel.verdicts import headline, promise_kept


def shown(comparison: Comparison) -> str:
    console = Console(width=WIDTH, file=StringIO(), color_system=None)
    console.print(comparison_tables(comparison))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def column(sheet: Sheet, title: str) -> list[tuple[str, Tone]]:
    found = next(column for column in sheet.columns if column.title.replace("\n", " ") == title)
    return [(cell.text, cell.tone) for cell in found.cells]


def with_first_tenant(comparison: Comparison, run: int, **changes: float) -> Comparison:
    """The same comparison with other figures of the first tenant in one mode."""
    old = comparison.runs[run]
    tenants = (replace(old.result.tenants[0], **changes), *old.result.tenants[1:])  # type: ignore[arg-type]
    runs = list(comparison.runs)
    runs[run] = replace(old, result=replace(old.result, tenants=tenants))
    return replace(comparison, runs=tuple(runs))


def test_every_mode_has_a_row_in_every_table_and_nothing_is_cut_off(
    comparison: Comparison,
) -> None:
    text = shown(comparison)
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= WIDTH
    for mode in ("time-slice", "mps", "slo", "switching"):
        assert sum(line.startswith(f" {mode} ") for line in text.splitlines()) == 5
    assert "simulated" in text


def test_the_overview_names_what_counts_for_each_tenant(comparison: Comparison) -> None:
    titles = [column.title.replace("\n", " ") for column in overview(comparison).columns]
    assert titles[:4] == ["web p99 ms", "train it/s", "jobs JCT s", "SLOs kept"]


def test_the_best_sound_figure_is_marked_and_a_missed_promise_is_not_best(
    comparison: Comparison,
) -> None:
    calm = tuple(replace(run, diverging=(False, False, False)) for run in comparison.runs)
    changed = replace(comparison, runs=calm)
    for run, p99_ms in enumerate((3.0, 1.0, 2.0, 4.0)):
        changed = with_first_tenant(changed, run, p99_ms=p99_ms, late_share=0.0, slo_attainment=1.0)
    changed = with_first_tenant(changed, 1, p99_ms=1.0, late_share=0.5, slo_attainment=0.5)
    marks = dict(column(overview(changed), "web p99 ms"))
    assert marks == {
        "3.00": Tone.PLAIN,
        "1.00": Tone.MISSED,
        "2.00": Tone.BEST,
        "4.00": Tone.PLAIN,
    }


def test_a_growing_queue_is_marked(comparison: Comparison) -> None:
    first = replace(comparison.runs[0], diverging=(True, False, False))
    changed = replace(comparison, runs=(first, *comparison.runs[1:]))
    _, tone = column(tenant(changed, 0), "p99 ms")[0]
    assert tone in (Tone.GROWING, Tone.MISSED_AND_GROWING)
    assert comparison_data(changed)["modes"][0]["tenants"][0]["diverging"] is True


def test_without_a_finished_request_there_is_no_latency(comparison: Comparison) -> None:
    changed = with_first_tenant(comparison, 0, jobs=0, p99_ms=0.0)
    assert column(tenant(changed, 0), "p99 ms")[0][0] == "–"
    assert comparison_data(changed)["modes"][0]["tenants"][0]["p99_ms"] is None


def test_figures_that_are_not_numbers_become_none(comparison: Comparison) -> None:
    changed = with_first_tenant(comparison, 0, throughput_per_s=float("nan"))
    assert comparison_data(changed)["modes"][0]["tenants"][0]["throughput_per_s"] is None


def test_many_tenants_leave_the_overview_narrow(comparison: Comparison) -> None:
    setting = comparison.scenario.setting
    many = replace(setting, loads=setting.loads * 2)
    runs = tuple(
        replace(run, result=replace(run.result, tenants=run.result.tenants * 2))
        for run in comparison.runs
    )
    changed = replace(comparison, scenario=replace(comparison.scenario, setting=many), runs=runs)
    assert overview(changed).columns[0].title == "SLOs\nkept"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0123, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_figures_have_about_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_share_just_below_all_is_not_shown_as_all() -> None:
    assert [percent(0.99999), percent(1.0)] == ["99.9%", "100.0%"]


def loaded(slo: Slo) -> TenantLoad:
    program = Program("p", (KernelSpec("k", 1, 256, 1, 1e6, 0.3),), (0,))
    return TenantLoad(Tenant(TenantId("a"), slo=slo), program, ClosedLoop())


def result(**changes: float | None) -> TenantResult:
    """A result with these figures; promises not mentioned have none."""
    known = dict.fromkeys(TenantResult.__dataclass_fields__, 0.0)
    parts = dict.fromkeys(("late_share", "throughput_attainment", "availability_attainment"))
    fields = known | {"name": "a", "jobs": 1000, "unfinished": 0} | parts | changes
    return TenantResult(**fields)  # type: ignore[arg-type]


LATENCY = LatencySlo(1000)
BOTH = Slo(latency=LatencySlo(1000, 95.0), throughput=ThroughputSlo(1.0))
AVAILABLE = Slo(availability=AvailabilitySlo(0.9))


@pytest.mark.parametrize(
    ("slo", "measured", "kept"),
    [
        (Slo(), {"slo_attainment": None}, None),
        (Slo(latency=LATENCY), {"late_share": 0.009}, True),
        (Slo(latency=LATENCY), {"late_share": 0.02}, False),
        (BOTH, {"late_share": 0.04, "throughput_attainment": 1.0}, True),
        (BOTH, {"late_share": 0.06, "throughput_attainment": 1.0}, False),
        (BOTH, {"late_share": 0.04, "throughput_attainment": 0.5}, False),
        (Slo(throughput=ThroughputSlo(1.0)), {"throughput_attainment": 0.995}, True),
        (Slo(throughput=ThroughputSlo(1.0)), {"throughput_attainment": 0.9}, False),
        (AVAILABLE, {"availability_attainment": 0.9}, True),
        (AVAILABLE, {"availability_attainment": 0.89}, False),
    ],
)
def test_a_promise_is_judged_by_its_own_terms(
    slo: Slo, measured: dict[str, float | None], kept: bool | None
) -> None:
    assert promise_kept(loaded(slo), result(**measured)) is kept


def test_the_headline_is_the_promised_percentile() -> None:
    assert headline(loaded(Slo(latency=LatencySlo(1000, 95.0)))).label == "p95 ms"
    assert headline(loaded(Slo())).label == "it/s"


def test_sheets_are_overview_device_and_one_for_each_tenant(comparison: Comparison) -> None:
    titles = [sheet.title.split(":")[0] for sheet in sheets(comparison)]
    assert titles == ["What counts", "The GPU", "web", "train", "jobs"]
