"""A Workload becomes the job that Dure would weigh, or says why it cannot."""

from typing import Any

import pytest

from dure.beside.translating import Origin, UntranslatableError, job_of, wish_of
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import GIB, parse_bytes

ORIGIN = Origin("train", "acme/vision")


def template(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    asked = {"nvidia.com/gpu": "4", "cpu": "8", "memory": "64Gi"} | spec.pop("asked", {})
    requests = {name: amount for name, amount in asked.items() if amount}
    container = {"name": "main", "image": "trainer:1", "resources": {"requests": requests}}
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def test_whole_devices_cpu_and_memory_are_those_of_a_pod() -> None:
    job = job_of([(1, template())], ORIGIN)
    assert job.kind is WorkloadKind.BATCH
    assert (job.tenant, job.team) == ("acme", "vision")
    assert (job.resources.devices, job.resources.whole) == (4, True)
    assert job.resources.cpu == 8.0
    assert parse_bytes(job.resources.host_memory) == 64 * GIB
    named = set(job.resources.profiles or ())
    assert "h100" in named
    assert all(CATALOGUE[name].whole.resource_name == "nvidia.com/gpu" for name in named)


def test_pods_that_run_together_are_a_gang_and_helpers_do_not_count() -> None:
    launcher = template(asked={"nvidia.com/gpu": ""})
    job = job_of([(1, launcher), (6, template())], ORIGIN)
    assert job.kind is WorkloadKind.TRAINING
    assert job.gang.workers == 6


def test_a_node_selector_leaves_the_accelerator_it_names() -> None:
    product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert job_of([(1, template(nodeSelector=product))], ORIGIN).resources.profiles == ["h100"]
    ours = template(nodeSelector={"dure.io/profile": "A100-40GB"})
    assert job_of([(1, ours)], ORIGIN).resources.profiles == ["a100-40gb"]


def test_a_hardware_slice_is_asked_for_by_its_memory() -> None:
    asked = {"nvidia.com/gpu": "", "nvidia.com/mig-1g.10gb": "1"}
    wish = wish_of(template(asked=asked))
    assert wish is not None
    assert not wish.whole
    assert wish.memory_bytes > 8 * GIB
    assert all("nvidia.com/mig-1g.10gb" in CATALOGUE[name].resource_names for name in wish.profiles)


def test_what_is_annotated_or_limited_says_how_long_it_takes() -> None:
    annotated = template({"dure.io/work": "90m", "dure.io/deadline": "+6h"})
    job = job_of([(1, annotated)], ORIGIN)
    assert job.work is not None
    assert (job.work.time, job.sla.deadline) == ("90m", "+6h")
    limited = job_of([(1, template())], Origin("train", "acme", longest_s=600))
    assert limited.work is not None
    assert limited.work.time == "600s"


def test_priorities_stay_within_what_dure_knows() -> None:
    job = job_of([(1, template())], Origin("train", "acme", priority=1_000_000))
    assert job.priority == 1000


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([(2, template(asked={"nvidia.com/gpu": ""}))], "none of its Pods asks"),
        ([(1, template()), (1, template(asked={"nvidia.com/gpu": "1"}))], "different accelerators"),
        ([(1, template(asked={"rebellions.ai/npu": "1"}))], "at once"),
        (
            [(1, template(asked={"nvidia.com/gpu": "", "nvidia.com/gpu.shared": "1"}))],
            "nobody says how large",
        ),
        (
            [
                (
                    1,
                    template(
                        {"dure.io/memory": "much"},
                        asked={"nvidia.com/gpu": "", "nvidia.com/gpu.shared": "1"},
                    ),
                )
            ],
            "correct the annotation",
        ),
        ([(1, template(nodeSelector={"dure.io/profile": "abacus"}))], "no accelerator"),
        ([(1, template({"dure.io/work": "soon"}))], "cannot be a job"),
        ([(1, template(asked={"nvidia.com/gpu": "900"}))], "devices: Input should be"),
    ],
)
def test_what_cannot_be_weighed_says_why(pods: list[tuple[int, Any]], why: str) -> None:
    with pytest.raises(UntranslatableError, match=why):
        job_of(pods, ORIGIN)


def test_a_shared_device_is_asked_for_by_the_memory_that_is_annotated() -> None:
    asked = {"nvidia.com/gpu": "", "nvidia.com/gpu.shared": "1"}
    job = job_of([(1, template({"dure.io/memory": "6GiB"}, asked=asked))], ORIGIN)
    assert parse_bytes(job.resources.memory) == 6 * GIB
    assert not job.resources.whole
