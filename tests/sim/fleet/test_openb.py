from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.openb import NODE_FILE, openb_folder, pod_lists, read_trace
from dure.sim.fleet.openb_like import MADE_LISTS, made_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,262144,2,P100\nn-0,96000,393216,8,G2\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
PODS = HEAD + "p-1,6000,12288,1,460,G2|P100\np-0,12000,16384,0,0,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "openb").mkdir()
    (tmp_path / "openb" / NODE_FILE).write_text(NODES)
    (tmp_path / "openb" / "openb_pod_list_default.csv").write_text(PODS)
    return tmp_path / "openb"


def test_nodes_and_pods_are_read_in_order_of_name(folder: Path) -> None:
    trace = read_trace(folder, "default")
    assert [node.name for node in trace.nodes] == ["n-0", "n-1"]
    assert [pod.name for pod in trace.pods] == ["p-0", "p-1"]
    assert trace.capacity_milli == 10_000
    assert trace.pods[1].shape.models == ("G2", "P100")


def test_a_list_without_models_accepts_every_model(folder: Path) -> None:
    path = folder / "openb_pod_list_multigpu20.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,2,1000\n")
    assert read_trace(folder, "multigpu20").pods[0].shape.models == ()


def test_the_folder_itself_and_the_one_above_are_found(folder: Path) -> None:
    assert openb_folder(folder) == openb_folder(folder.parent) == folder
    assert pod_lists(folder) == ["default"]
    with pytest.raises(InputError, match="--data"):
        openb_folder(folder.parent / "elsewhere")


def test_an_unknown_list_is_refused_with_the_nearest(folder: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'default'"):
        read_trace(folder, "defualt")


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("p,x,1,1,500,", "cpu_milli"),
        ("p,1,-1,1,500,", "memory_mib"),
        ("p,1,1,1,1001,", "gpu_milli"),
        ("p,1,1,1,0,", "gpu_milli"),
        ("p,1,1,2,500,", "gpu_milli"),
        ("p,1,1,99,1000,", "num_gpu"),
        ("p,1,1,1,500,H900", "gpu_spec"),
        (",1,1,1,500,", "name"),
        ("q,1,1,1,500,", "name"),
    ],
)
def test_a_malformed_row_is_named_by_file_line_and_field(
    folder: Path, row: str, field: str
) -> None:
    path = folder / "openb_pod_list_bad.csv"
    path.write_text(f"{HEAD}q,1,1,0,0,\n{row}\n")
    with pytest.raises(InputError) as refused:
        read_trace(folder, "bad")
    assert refused.value.file == f"{path}, line 3"
    assert field in refused.value.field
    assert refused.value.remedy


def test_a_row_with_a_cell_too_few_is_named(folder: Path) -> None:
    path = folder / "openb_pod_list_bad.csv"
    path.write_text(f"{HEAD}p,1,1\n")
    with pytest.raises(InputError, match="line 2"):
        read_trace(folder, "bad")


@pytest.mark.parametrize("name", MADE_LISTS)
def test_made_lists_have_the_published_cluster_and_are_always_the_same(name: str) -> None:
    trace = made_trace(name)
    assert len(trace.nodes) == 1213
    assert trace.capacity_milli == 6_212_000
    assert trace == made_trace(name)


def test_made_lists_differ_as_the_published_ones_do() -> None:
    shares = {pod.shape.gpu_milli for pod in made_trace("gpushare100").pods}
    assert 1000 not in shares
    assert any(pod.shape.models for pod in made_trace("gpuspec10").pods)
    assert not any(pod.shape.models for pod in made_trace("default").pods)
