"""A fleet comparison laid out as sheets of figures, one mode a row; terminal and HTML draw them."""

from collections.abc import Sequence

from dure.domain.units import NS_PER_S
from dure.sim.figures import NOTHING, percent, whole
from dure.sim.fleet.results import ExplanationSample, FleetResult, WaitSample
from dure.sim.sheets import Cell, Column, Sheet, column_of


def sheets(results: Sequence[FleetResult]) -> tuple[Sheet, ...]:
    """What counts, in the order to read it."""
    return money_sheet(results), service_sheet(results), action_sheet(results)


def amount(value: float | None) -> str:
    """Money or kilograms with about three digits."""
    if value is None:
        return NOTHING
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 or value == 0 else f"{value:.2f}"


def span(seconds: float | None) -> str:
    """A time as a person reads it."""
    if seconds is None:
        return NOTHING
    for limit, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * limit or (seconds >= limit and unit != "d"):
            return f"{seconds / limit:.3g} {unit}"
    return f"{seconds:.0f} s"


def money_sheet(results: Sequence[FleetResult]) -> Sheet:
    """Every term of the bill, and what it is beside the cheapest mode."""
    totals = [result.money.total for result in results]
    columns = [column_of("total", totals, amount, min)]
    columns += [column_of(title, values, amount) for title, values in _term_columns(results)]
    if len(totals) > 1 and min(totals) > 0:
        over = [total / min(totals) - 1.0 for total in totals]
        columns.append(column_of("over the\ncheapest", over, percent))
    columns.append(column_of("CO2 kg", [result.kg_co2 for result in results], amount, min))
    columns.append(column_of("MWh", [result.kwh / 1000.0 for result in results], amount, min))
    title = f"Money, {results[0].currency}" if results else "Money"
    return _sheet(title, results, columns)


def term_name(name: str) -> str:
    """A term of a placement's sum as people read it."""
    return _SPOKEN_TERMS.get(name, name.replace("_", " "))


_SPOKEN_TERMS = {"locality": "weight of locality", "lateness": "expected lateness"}


def total_of(sample: ExplanationSample) -> float:
    """What was compared: all terms and the congestion price."""
    return sample.money + sample.congestion


def alternative(sample: ExplanationSample, currency: str) -> str:
    """The best place that was not taken: where, when, for how much more, and why not."""
    if not sample.runner_up:
        return "there was no alternative"
    later_s = (sample.runner_up_start_ns - sample.at_ns) / NS_PER_S
    start = f", {span(later_s)} later" if later_s > 0 else ", at once"
    more = sample.runner_up_total - total_of(sample)
    beside = f"{amount(abs(more))} {'more' if more >= 0 else 'less'}"
    why = f": {sample.runner_up_why}" if sample.runner_up_why else ""
    return (
        f"best alternative: {sample.runner_up}{start}, for {amount(sample.runner_up_total)} "
        f"{currency}, {beside}{why}"
    )


def waited(sample: WaitSample, start_ns: int) -> str:
    """When a workload had no place, and why."""
    begin = (sample.from_ns - start_ns) / NS_PER_S
    if sample.refused:
        return f"after {span(begin)} it was refused: {sample.why}"
    if sample.at_end:
        return f"without a place since {span(begin)}, to the end of the run: {sample.why}"
    end = (sample.until_ns - start_ns) / NS_PER_S
    return f"without a place from {span(begin)} to {span(end)}: {sample.why}"


_TERM_TITLES = (
    ("rent", "rent"),
    ("energy", "energy"),
    ("transfers", "trans-\nfers"),
    ("late_jobs", "late\njobs"),
    ("slow_services", "slow\nservices"),
    ("unfinished", "not\nfinished"),
)


def _term_columns(results: Sequence[FleetResult]) -> list[tuple[str, list[float]]]:
    """Terms that are not zero throughout."""
    found = [
        (title, [getattr(result.money, field) for result in results])
        for field, title in _TERM_TITLES
    ]
    return [(title, values) for title, values in found if any(values)]


def service_sheet(results: Sequence[FleetResult]) -> Sheet:
    """Promises kept, waiting, and how well the devices were used."""
    with_services = any(result.services.services for result in results)
    within = [result.services.within_target_share if with_services else None for result in results]
    on_time = [
        result.jobs.on_time_share if result.jobs.with_deadline else None for result in results
    ]
    left = [result.jobs.unfinished for result in results]
    columns = [
        column_of("SLO\nkept", [result.slo_attainment for result in results], percent, max),
        column_of("jobs\non time", on_time, percent, max),
        column_of("services\nin target", within, percent, max),
        column_of("mean\nwait", [result.jobs.mean_wait_s for result in results], span, min),
        column_of("95 %\nwait", [result.jobs.p95_wait_s for result in results], span, min),
        column_of("jobs\ndone", [result.jobs.ended for result in results], whole, max),
        column_of("not\nyet", left, whole),
        column_of("used", [result.utilisation for result in results], percent),
        column_of("nodes\nopen", [result.open_share for result in results], percent, min),
        column_of("frag-\nmented", [result.fragmentation for result in results], percent, min),
    ]
    return _sheet("Promises and use", results, columns)


def action_sheet(results: Sequence[FleetResult]) -> Sheet:
    """What the deciders did, and how long they thought."""
    actions = [result.actions for result in results]
    columns = [
        column_of("placed", [each.placements for each in actions], whole),
        column_of("moved", [each.moves for each in actions], whole),
        column_of("saving\nexpected", [_saving(each.expected_saving) for each in actions], amount),
        column_of("saving\nrealised", [_saving(each.realised_saving) for each in actions], amount),
        column_of("moved\ninside", [each.local_moves for each in actions], whole),
        column_of("pre-\nempted", [each.preemptions for each in actions], whole),
        column_of("de-\nferred", [each.deferrals for each in actions], whole),
        column_of("grown", [each.grown for each in actions], whole),
        column_of("nodes\noff", [each.powered_down for each in actions], whole),
        column_of("right\nsizes", [each.right_sizes for each in actions], whole),
        column_of("refused", [result.jobs.refused for result in results], whole),
        column_of("wall s", [result.speed.wall_s for result in results], amount),
    ]
    return _sheet("What was done", results, columns)


def _saving(value: float) -> float | None:
    return value or None


def bill_sheet(result: FleetResult) -> Sheet:
    """Every tenant's bill in one mode."""
    bills = result.tenants
    columns = [column_of("total", [bill.money.total for bill in bills], amount)]
    for field, title in _TERM_TITLES:
        values = [getattr(bill.money, field) for bill in bills]
        if any(values):
            columns.append(column_of(title, values, amount))
    columns += [
        column_of("CO2 kg", [bill.kg_co2 for bill in bills], amount),
        column_of("device\nhours", [bill.device_h for bill in bills], amount),
        column_of("jobs\ndone", [bill.jobs_ended for bill in bills], whole),
        column_of("on\ntime", [bill.on_time_share for bill in bills], percent),
    ]
    return Sheet(
        f"Bills under {result.mode}, {result.currency}",
        "tenant",
        tuple(bill.tenant for bill in bills),
        tuple(columns),
    )


def cluster_sheet(result: FleetResult) -> Sheet:
    """Every cluster's use in one mode."""
    clusters = result.clusters
    columns = [
        Column("region", tuple(Cell(each.region) for each in clusters), words=True),
        Column("class", tuple(Cell(each.cluster_class) for each in clusters), words=True),
        column_of("devices", [each.devices for each in clusters], whole),
        column_of("used", [each.utilisation for each in clusters], percent),
        column_of("device\nhours", [each.device_h for each in clusters], amount),
        column_of("on open\nnodes", [each.open_device_h for each in clusters], amount),
        column_of("rent and\nenergy", [each.money for each in clusters], amount),
        column_of("CO2 kg", [each.kg_co2 for each in clusters], amount),
        column_of("jobs", [each.jobs for each in clusters], whole),
    ]
    rows = tuple(each.cluster for each in clusters)
    return Sheet(f"Clusters under {result.mode}", "cluster", rows, tuple(columns))


def _sheet(title: str, results: Sequence[FleetResult], columns: Sequence[Column]) -> Sheet:
    return Sheet(title, "mode", tuple(result.mode for result in results), tuple(columns))
