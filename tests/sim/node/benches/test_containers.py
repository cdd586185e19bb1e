"""The bench of containers, on a smaller task than the published one."""

import pytest

from dure.sim.benches.report import BenchReport
from dure.sim.node.benches.containers import DURE, bench_containers
from dure.sim.node.benches.loads import SIZES, Size, mixed, products, variants
from dure.sim.node.model import GpuModel
from dure.sim.node.modes import MODES

SMALL = Size(8_192, (1, 4), (("dure-docker", 9.0, 9.0), ("dure-cuda-lock", 0.01, 9.0)))


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return bench_containers(sizes=(SMALL,), others=variants()[:2])


def test_every_mode_is_a_row_and_every_count_a_column(report: BenchReport) -> None:
    sizes, phases, unlike, hosts = report.grids
    assert [row[0] for row in sizes.rows] == [row[0] for row in unlike.rows] == list(MODES)
    assert sizes.columns[1:3] == ("1", "4")
    assert [row[0] for row in phases.rows] == ["1", "4"]
    assert [row[0] for row in hosts.rows] == ["as fitted", "as measured on a second H200"]
    plain = sizes.rows[0]
    assert float(plain[2]) > float(plain[1])
    assert "1.000 / 1.000" in plain


def test_bounds_are_judged_by_what_was_found(report: BenchReport) -> None:
    docker, lock, *_ = report.verdicts
    assert docker.passed
    assert not lock.passed
    assert report.verdicts[-1].word == "note"


def test_the_report_says_that_it_is_simulated_and_has_every_run(report: BenchReport) -> None:
    data = report.data()
    assert data["simulated"] is True
    assert len(data["runs"]) == 2 * len(MODES) + len(MODES) + 2 * (1 + len(DURE))


def test_the_published_sizes_are_the_papers() -> None:
    assert [(size.side, size.most) for size in SIZES] == [(19_456, 5), (13_312, 10), (8_192, 20)]
    assert all(size.counts[0] == 1 for size in SIZES)
    assert len({spec.image for spec in products(8_192, 3)}) == 1


def test_unlike_containers_have_a_service_first_and_labels_on_all() -> None:
    service, *jobs = mixed()
    assert service.serves
    assert not any(job.serves for job in jobs)
    assert all(spec.max_wait_ns is not None for spec in mixed())


def test_each_other_host_differs_from_the_fitted_one() -> None:
    fitted, *others = variants()
    assert fitted.gpu == GpuModel()
    assert all(
        (each.gpu, each.host, each.apart_ns) != (fitted.gpu, fitted.host, None) for each in others
    )
