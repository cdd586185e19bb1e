"""The model gives back what was measured on two hosts with an H200 and Docker."""

from dataclasses import replace

import pytest

from dure.sim.node.benches.loads import SIZES, Size, mixed
from dure.sim.node.model import SECOND_H200, GpuModel
from dure.sim.node.results import NodeResult
from tests.sim.node.worlds import outcome, products


def kernels(result: NodeResult) -> list[float]:
    return [each.phases_s["kernel"] for each in result.containers]


def test_one_large_product_has_a_kernel_of_2_93_s_and_needs_0_85_s_besides() -> None:
    result = outcome(*products(1, 19_456))
    assert kernels(result) == [pytest.approx(2.93, rel=0.005)]
    assert result.makespan_s == pytest.approx(0.7 + 2.93 + 0.15, rel=0.01)


def test_five_large_products_at_once_take_15_1_to_15_7_s_each_and_17_5_s_in_all() -> None:
    result = outcome(*products(5, 19_456))
    assert all(15.1 * 0.99 <= kernel <= 15.7 * 1.01 for kernel in kernels(result))
    assert result.makespan_s == pytest.approx(17.5, rel=0.01)


def test_middle_products_take_0_94_s_alone_and_10_1_s_when_there_are_ten() -> None:
    assert kernels(outcome(*products(1, 13_312))) == [pytest.approx(0.94, rel=0.01)]
    ten = kernels(outcome(*products(10, 13_312)))
    assert ten == [pytest.approx(10.1, rel=0.01)] * 10


def test_sharing_costs_no_more_with_more_sharers() -> None:
    losses = [
        kernels(outcome(*products(count, 13_312)))[0] / (0.9385 * count) - 1.0
        for count in (2, 5, 10)
    ]
    assert losses == [pytest.approx(0.0725, abs=0.005)] * 3


def test_products_one_after_another_follow_the_line_through_the_origin() -> None:
    alone = outcome(*products(1, 13_312)).makespan_s
    result = outcome(*products(10, 13_312), mode="one-after-another")
    assert result.makespan_s == pytest.approx(10 * alone, rel=1e-6)
    assert result.mean_s == pytest.approx(5.5 * alone, rel=1e-6)


@pytest.mark.parametrize(("count", "context_s"), [(1, 0.22), (5, 0.80), (10, 1.40), (20, 3.0)])
def test_contexts_on_the_second_host_take_turns(count: int, context_s: float) -> None:
    result = outcome(*products(count, 8_192), gpus=(SECOND_H200,))
    found = [each.phases_s["context"] for each in result.containers]
    assert found == [pytest.approx(context_s, rel=0.1)] * count


@pytest.mark.parametrize(
    ("count", "side", "makespan_s"), [(5, 19_456, 18.41), (10, 13_312, 12.74), (20, 8_192, 8.11)]
)
def test_plain_sharing_on_the_second_host_takes_as_long_as_measured(
    count: int, side: int, makespan_s: float
) -> None:
    result = outcome(*products(count, side), gpus=(SECOND_H200,))
    assert result.makespan_s == pytest.approx(makespan_s, rel=0.035)


@pytest.mark.parametrize("mode", ["dure-docker", "dure-cuda-lock", "dure-lock-only"])
@pytest.mark.parametrize("gpu", [GpuModel(), SECOND_H200], ids=["fitted", "second"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.side))
def test_the_bounds_hold_on_both_hosts(size: Size, gpu: GpuModel, mode: str) -> None:
    many = [
        outcome(*products(size.most, size.side, image="matmul"), gpus=(gpu,), mode=each)
        for each in ("plain", mode)
    ]
    plain, managed = many
    assert plain.mean_s is not None
    assert managed.mean_s is not None
    ((_, makespan, mean),) = [bound for bound in size.bounds if bound[0] == mode]
    assert managed.makespan_s <= makespan * plain.makespan_s
    assert managed.mean_s <= mean * plain.mean_s


def p95_ms(mode: str, *, alone: bool = False) -> float:
    """Of a service among unlike containers, all of one image, as on the second host."""
    specs = [replace(spec, image="bench") for spec in mixed()]
    # Service and trainer have but their contexts, which says nothing of what they are.
    specs = [
        replace(spec, steps=spec.steps[1:]) if spec.name in ("service", "trainer") else spec
        for spec in specs
    ]
    result = outcome(*(specs[:1] if alone else specs), gpus=(SECOND_H200,), mode=mode)
    (found,) = [each.p95_ms for each in result.containers if each.name == "service"]
    assert found is not None
    return found


@pytest.mark.parametrize("mode", ["dure-docker", "dure-cuda-lock", "dure-lock-only"])
def test_a_service_beside_jobs_of_its_own_image_keeps_its_bounds(mode: str) -> None:
    alone, plain, managed = p95_ms("plain", alone=True), p95_ms("plain"), p95_ms(mode)
    assert managed <= 2.5 * alone
    assert managed <= 0.5 * plain
