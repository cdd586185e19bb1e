import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dure.cli import main as cli
from dure.domain.errors import InputError
from dure.sim.fleet.benches.packing import bench_packing
from dure.sim.fleet.benches.packing_protocol import (
    ESP,
    ESP_DEFRAG,
    POLICIES,
    as_load,
    draw_arrivals,
    run_policy,
)
from dure.sim.fleet.openb import NODE_FILE, PodShape, PodTrace, TraceNode, TracePod

NODES = (
    TraceNode("n-0", 16_000, 65_536, 2, "A"),
    TraceNode("n-1", 32_000, 65_536, 4, "A"),
    TraceNode("n-2", 64_000, 65_536, 2, "B"),
)
SHAPES = (
    PodShape(2_000, 4_096, 1, 1000),
    PodShape(2_000, 4_096, 1, 470),
    PodShape(1_000, 4_096, 1, 320, ("B",)),
    PodShape(4_000, 8_192, 2, 1000),
    PodShape(4_000, 8_192, 0, 0),
)
SMALL = PodTrace(
    "small", NODES, tuple(TracePod(f"p-{index}", SHAPES[index % 5]) for index in range(20))
)


def _write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    nodes = "".join(
        f"{n.name},{n.cpu_milli},{n.memory_mib},{n.gpus},{n.model}\n" for n in SMALL.nodes
    )
    (folder / NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes)
    pods = "".join(
        f"{p.name},{p.shape.cpu_milli},{p.shape.memory_mib},{p.shape.gpus},{p.shape.gpu_milli},"
        f"{'|'.join(p.shape.models)}\n"
        for p in SMALL.pods
    )
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    (folder / "openb_pod_list_small.csv").write_text(head + pods)


def test_originals_come_first_and_samples_follow_up_to_the_demand() -> None:
    roomy = PodTrace("roomy", NODES * 20, SMALL.pods)
    load = as_load(roomy)
    arrivals = draw_arrivals(load, np.random.default_rng(7))
    assert sorted(arrivals[:20]) == sorted(load.pods)
    demand = load.gpu_milli[arrivals]
    assert demand.sum() >= 1.3 * roomy.capacity_milli
    last = demand.nonzero()[0][-1]
    assert demand[:last].sum() < 1.3 * roomy.capacity_milli
    assert not np.array_equal(
        arrivals, draw_arrivals(load, np.random.default_rng(8))[: len(arrivals)]
    )


@pytest.mark.parametrize("policy", [*POLICIES, ESP_DEFRAG])
def test_every_policy_fills_no_more_than_there_is_and_repeats_itself(policy: str) -> None:
    load = as_load(SMALL)
    row = run_policy(load, policy, 3)
    again = run_policy(load, policy, 3)
    assert 50.0 < row.allocated_pct <= 100.0
    assert row.allocated_pct == again.allocated_pct
    assert row.placed < row.arrived


def test_a_pod_that_fits_on_any_node_is_placed() -> None:
    pods = tuple(TracePod(f"p-{index}", PodShape(1_000, 1_024, 1, 1000)) for index in range(12))
    load = as_load(PodTrace("whole", NODES, pods))
    for policy in POLICIES:
        assert run_policy(load, policy, 1).allocated_pct == 100.0


def test_moves_make_room_that_the_order_closed() -> None:
    """Each half device lies alone, since a filler kept its partner away."""
    load = as_load(SMALL)
    still = run_policy(load, ESP, 11)
    moved = run_policy(load, ESP_DEFRAG, 11)
    assert still.moves == 0
    assert moved.allocated_pct >= still.allocated_pct


def test_the_report_has_a_row_for_each_policy_list_and_seed(tmp_path: Path) -> None:
    _write(tmp_path / "openb")
    report = bench_packing(tmp_path, [], [1, 2])
    rows = report.data()["rows"]
    assert {(row["policy"], row["trace"], row["seed"]) for row in rows} == {
        (policy, "small", seed) for policy in POLICIES for seed in (1, 2)
    }
    assert {"allocated_pct", "seconds"} <= rows[0].keys()
    assert "openb trace" in report.title


def test_the_command_prints_json_and_refuses_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["dure", "bench", "packing", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    arguments = ("--data", str(tmp_path), "--trace", "small", "--seeds", "42", "--json")
    assert run(*arguments) == 0
    assert json.loads(capsys.readouterr().out)["rows"]
    path = tmp_path / "openb_pod_list_small.csv"
    path.write_text(path.read_text() + "p-99,oops,1,1,500,\n")
    assert run(*arguments) == 2
    assert "line 22" in capsys.readouterr().err


def test_a_list_without_gpus_is_refused_and_not_drawn_from_for_ever() -> None:
    cpu_only = tuple(pod for pod in SMALL.pods if not pod.shape.gpus)
    with pytest.raises(InputError, match="no pod of 'bare' asks for a GPU"):
        as_load(PodTrace("bare", NODES, cpu_only))
    bare = tuple(replace(node, gpus=0) for node in NODES)
    with pytest.raises(InputError, match="no node of 'bare' has a GPU"):
        as_load(PodTrace("bare", bare, SMALL.pods))
