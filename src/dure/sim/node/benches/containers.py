"""`dure bench containers`: ways to share a GPU among containers, on the fitted model.

The paper's three tasks with growing numbers of containers, unlike containers, and the same on hosts
that differ from the fitted one, since what was learned on one must not be tuned to it.
"""

from dataclasses import dataclass

from dure.sim.benches.pool import spread
from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, silent
from dure.sim.node.benches.loads import SIZES, Size, Variant, mixed, products, variants
from dure.sim.node.compare import alone_figures
from dure.sim.node.model import SECOND_H200
from dure.sim.node.modes import MODES
from dure.sim.node.results import NodeResult
from dure.sim.node.run import Setting, run

DURE = ("dure-docker", "dure-cuda-lock", "dure-lock-only")
_SERVICE = 0
"""Place of the service among unlike containers."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One run, as it is handed to a process."""

    what: str
    setting: Setting
    mode: str


def bench_containers(
    *,
    sizes: tuple[Size, ...] = SIZES,
    others: tuple[Variant, ...] | None = None,
    workers: int = 1,
    tell: Tell = silent,
) -> BenchReport:
    """Run everything; about two minutes on one core."""
    hosts = variants() if others is None else others
    items = [*_size_items(sizes), *_mixed_items(), *_variant_items(sizes, hosts)]
    found = spread(_run, items, workers=workers, tell=tell, name=lambda item: item.what)
    results = {(item.what, item.mode): result for item, result in zip(items, found, strict=True)}
    grids = [
        *(_size_grid(size, results) for size in sizes),
        *(_phase_grid(size, results) for size in sizes),
        _mixed_grid(results),
        _variant_grid(sizes, hosts, results),
    ]
    return BenchReport(
        name="containers",
        title="Containers that share a GPU",
        about=(
            "Every way to share one GPU of 141 GB under the same load: the paper's naive float32 "
            "products, released together at a barrier, and a set of unlike containers. The model "
            "is fitted to an H200 (docs/guide/sim-node.md says how, and what it leaves out); the "
            "machine that decides is the one that runs on a host, without experience of these "
            "images. Times count from the release."
        ),
        grids=tuple(grids),
        verdicts=tuple(_verdicts(sizes, hosts, results)),
        figures={
            "runs": [
                {
                    "what": what,
                    "mode": mode,
                    "makespan_s": result.makespan_s,
                    "mean_s": result.mean_s,
                    "p95_s": result.p95_s,
                    "spread_s": result.spread_s,
                    "pauses": result.pauses,
                    "out_of_memory": result.out_of_memory,
                    "past_labels": result.past_labels,
                }
                for (what, mode), result in results.items()
            ]
        },
    )


_Results = dict[tuple[str, str], NodeResult]


def _run(item: _Item) -> NodeResult:
    return run(item.setting, MODES[item.mode])


def _sized(size: Size, count: int) -> str:
    return f"{count} × {size.title}"


def _size_items(sizes: tuple[Size, ...]) -> list[_Item]:
    return [
        _Item(_sized(size, count), Setting(products(size.side, count)), mode)
        for size in sizes
        for count in size.counts
        for mode in MODES
    ]


def _mixed_items() -> list[_Item]:
    return [_Item("unlike", Setting(mixed()), mode) for mode in MODES]


def _variant_items(sizes: tuple[Size, ...], hosts: tuple[Variant, ...]) -> list[_Item]:
    return [
        _Item(f"{variant.name}, {size.title}", variant.setting(size.side, size.most), mode)
        for variant in hosts
        for size in sizes
        for mode in ("plain", *DURE)
    ]


def _ratio(results: _Results, what: str, mode: str) -> tuple[float, float]:
    """Makespan and mean completion over those of plain sharing."""
    shared, plain = results[what, mode], results[what, "plain"]
    assert shared.mean_s is not None
    assert plain.mean_s is not None
    return shared.makespan_s / plain.makespan_s, shared.mean_s / plain.mean_s


def _pair(ratios: tuple[float, float]) -> str:
    return f"{number(ratios[0], 3)} / {number(ratios[1], 3)}"


def _size_grid(size: Size, results: _Results) -> Grid:
    largest = _sized(size, size.counts[-1])
    rows = []
    for mode in MODES:
        spans = [results[_sized(size, count), mode].makespan_s for count in size.counts]
        result = results[largest, mode]
        rows.append(
            (
                mode,
                *(number(span, 2) for span in spans),
                number(result.mean_s, 2),
                number(result.p95_s, 2),
                number(result.spread_s, 2),
                _pair(_ratio(results, largest, mode)),
                str(result.pauses),
            )
        )
    counts = tuple(f"{count}" for count in size.counts)
    columns = ("mode", *counts, "mean", "p95", "spread", "of plain: makespan / mean", "pauses")
    title = f"Products of {size.title}: makespan in s by number of containers"
    return Grid(f"{title}; the rest at {size.counts[-1]}", columns, tuple(rows))


_PHASES = ("context", "copy in", "kernel", "copy out")


def _phase_grid(size: Size, results: _Results) -> Grid:
    """The paper's Table 1, from plain sharing."""
    rows = []
    for count in size.counts:
        containers = results[_sized(size, count), "plain"].containers
        means = [
            sum(each.phases_s.get(phase, 0.0) for each in containers) / len(containers)
            for phase in _PHASES
        ]
        rows.append((str(count), *(number(mean, 3) for mean in means)))
    title = f"Phases of {size.title} products under plain sharing, mean in s"
    return Grid(title, ("containers", *_PHASES), tuple(rows))


def _mixed_grid(results: _Results) -> Grid:
    alone = alone_figures(Setting(mixed()))
    rows = []
    for mode in MODES:
        result = results["unlike", mode]
        service = result.containers[_SERVICE]
        rows.append(
            (
                mode,
                number(result.makespan_s, 2),
                number(result.mean_s, 2),
                *(number(each.completion_s, 2) for each in result.containers[1:]),
                number(service.p95_ms, 1),
                number((service.p95_ms or 0.0) / (alone[_SERVICE].p95_ms or 1.0), 2),
                str(result.past_labels),
            )
        )
    names = [spec.name for spec in mixed()[1:]]
    columns = ("mode", "makespan", "mean", *names, "service p95 ms", "of alone", "past labels")
    return Grid("Unlike containers, seconds", columns, tuple(rows))


def _variant_grid(sizes: tuple[Size, ...], hosts: tuple[Variant, ...], results: _Results) -> Grid:
    rows = [
        (
            variant.name,
            *(
                _pair(_ratio(results, f"{variant.name}, {size.title}", mode))
                for size in sizes
                for mode in DURE
            ),
        )
        for variant in hosts
    ]
    columns = ("host", *(f"{size.title} {mode}" for size in sizes for mode in DURE))
    title = "Other hosts than the fitted one: makespan / mean of plain at the largest count"
    return Grid(title, columns, tuple(rows))


def _verdicts(
    sizes: tuple[Size, ...], hosts: tuple[Variant, ...], results: _Results
) -> list[Verdict]:
    found = []
    for size in sizes:
        found += _bounds(size, _sized(size, size.most), _sized(size, size.most), results)
    for variant in hosts:
        if variant.gpu == SECOND_H200:
            for size in sizes:
                what = f"{variant.name}, {size.title}"
                found += _bounds(size, f"{_sized(size, size.most)} {variant.name}", what, results)
    return [*found, *_service_verdicts(results), _losses(sizes, results)]


def _bounds(size: Size, title: str, what: str, results: _Results) -> list[Verdict]:
    """Whether the largest count of a size stays within its bounds under each of Dure's modes."""
    found = []
    for mode, makespan, mean in size.bounds:
        ratios = _ratio(results, what, mode)
        claim = f"{title}, {mode}: makespan ≤ {makespan} and mean ≤ {mean} of plain"
        found.append(Verdict(claim, _pair(ratios), ratios[0] <= makespan and ratios[1] <= mean))
    return found


def _service_verdicts(results: _Results) -> list[Verdict]:
    alone_ms = alone_figures(Setting(mixed()))[_SERVICE].p95_ms or 0.0
    plain_ms = results["unlike", "plain"].containers[_SERVICE].p95_ms or 0.0
    found = []
    for mode in DURE:
        result = results["unlike", mode]
        p95_ms = result.containers[_SERVICE].p95_ms or 0.0
        claim = f"unlike containers, {mode}: the service's p95 ≤ 0.5 of plain and ≤ 2.5 of alone"
        said = f"{number(p95_ms / plain_ms, 2)} of plain, {number(p95_ms / alone_ms, 2)} of alone"
        passed = p95_ms <= 0.5 * plain_ms and p95_ms <= 2.5 * alone_ms
        found.append(Verdict(claim, said, passed))
        claim = f"unlike containers, {mode}: nobody waits past its label"
        found.append(Verdict(claim, f"{result.past_labels} do", result.past_labels == 0))
    least_ms = results["unlike", "one-after-another"].containers[_SERVICE].p95_ms or 0.0
    claim = (
        "unlike containers: the service's p95 beside never more than one job, whoever queues them"
    )
    return [*found, Verdict(claim, f"{number(least_ms / alone_ms, 2)} of alone", None)]


def _losses(sizes: tuple[Size, ...], results: _Results) -> Verdict:
    """What plain sharing costs over the same tasks one after another without their overheads."""
    shown = []
    for size in sizes:
        alone = results[_sized(size, 1), "plain"].containers[0].phases_s["kernel"]
        many = results[_sized(size, size.most), "plain"].containers[0].phases_s["kernel"]
        shown.append(f"{size.title}: {100 * (many / (alone * size.most) - 1):.1f} %")
    claim = "kernel time lost by sharing at the largest count (a property of the model)"
    return Verdict(claim, ", ".join(shown), None)
