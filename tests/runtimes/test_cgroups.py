from pathlib import Path

import pytest

from dure.domain.ids import ContainerId
from dure.runtimes.cgroups import (
    CgroupContainer,
    Engine,
    Freezer,
    containers_in,
    freezer_of,
    started_ticks,
)

A = ContainerId("a1" * 32)
B = ContainerId("b2" * 32)
POD = "pod0f1e2d3c-1111-2222-3333-444455556666"
SLICE = f"kubepods-burstable-{POD.replace('-', '_')}.slice"

SHAPES = {
    "docker, cgroupfs, v1": (f"6:freezer:/docker/{A}\n1:cpu:/docker/{A}", Engine.DOCKER),
    "docker, cgroupfs, v2": (f"0::/docker/{A}", Engine.DOCKER),
    "docker, systemd, v1": (
        f"4:freezer:/system.slice/docker-{A}.scope\n1:name=systemd:/system.slice/docker-{A}.scope",
        Engine.DOCKER,
    ),
    "docker, systemd, v2": (f"0::/system.slice/docker-{A}.scope", Engine.DOCKER),
    "docker with a parent of its own": (f"0::/batch.slice/jobs/{A}", Engine.UNKNOWN),
    "docker, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope",
        Engine.DOCKER,
    ),
    "a program that moved into a group of its own": (
        f"0::/system.slice/docker-{A}.scope/init.scope",
        Engine.DOCKER,
    ),
    "containerd under kubernetes, systemd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-{A}.scope",
        Engine.CONTAINERD,
    ),
    "containerd under kubernetes, cgroupfs": (
        f"3:freezer:/kubepods/burstable/{POD}/{A}",
        Engine.UNKNOWN,
    ),
    "containerd without a driver of its own": (
        f"0::/system.slice/containerd.service/{SLICE}:cri-containerd:{A}",
        Engine.CONTAINERD,
    ),
    "nerdctl": (f"0::/system.slice/nerdctl-{A}.scope", Engine.CONTAINERD),
    "containerd's own name space": (f"0::/default/{A}", Engine.CONTAINERD),
    "cri-o": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/{SLICE}/crio-{A}.scope/container",
        Engine.CRIO,
    ),
    "podman": (f"0::/machine.slice/libpod-{A}.scope/container", Engine.PODMAN),
    "podman of a user": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope",
        Engine.PODMAN,
    ),
    "podman, cgroupfs": (f"5:freezer:/libpod_parent/libpod-{A}", Engine.PODMAN),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_runtimes_shape_of_a_cgroup_names_its_container(shape: str) -> None:
    text, engine = SHAPES[shape]
    assert containers_in(text) == (CgroupContainer(engine, A),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/",
        "0::/user.slice/user-0.slice/session-1.scope",
        "0::/system.slice/docker.service",
        f"0::/machine.slice/libpod-conmon-{A}.scope",
        f"0::/kubepods.slice/{SLICE}/crio-conmon-{A}.scope",
        "nonsense",
        "0::/docker/" + "z" * 64,
    ],
)
def test_programs_of_the_host_and_a_runtimes_helpers_are_in_no_container(text: str) -> None:
    assert containers_in(text) == ()


def test_nested_containers_are_told_outermost_first() -> None:
    docker_in_docker = f"7:freezer:/docker/{A}/docker/{B}"
    kind = f"0::/system.slice/docker-{A}.scope/kubelet.slice/{SLICE}/cri-containerd-{B}.scope"
    for text in (docker_in_docker, kind):
        assert [each.id for each in containers_in(text)] == [A, B]


def test_the_hierarchy_that_freezes_decides_where_they_differ() -> None:
    text = f"9:name=systemd:/docker/{B}\n8:memory:/\n6:freezer:/docker/{A}\n0::/docker/{B}"
    assert containers_in(text)[0].id == A


def test_a_hybrid_host_is_read_where_only_one_hierarchy_tells() -> None:
    text = f"6:freezer:/\n4:memory:/docker/{A}\n0::/"
    assert containers_in(text)[0].id == A


def _proc(tmp_path: Path, cgroup: str, mountinfo: str) -> Path:
    (tmp_path / "77").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "77" / "cgroup").write_text(cgroup, encoding="utf-8")
    (tmp_path / "self" / "mountinfo").write_text(mountinfo, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("version", [1, 2])
def test_the_freezer_is_that_of_the_container_not_of_a_group_inside_it(
    tmp_path: Path, version: int
) -> None:
    tree = tmp_path / "cgroup"
    folder = tree / "docker" / A
    folder.mkdir(parents=True)
    (folder / ("freezer.state" if version == 1 else "cgroup.freeze")).touch()
    line = "5:freezer:" if version == 1 else "0::"
    kind = "cgroup cgroup rw,freezer" if version == 1 else "cgroup2 cgroup2 rw"
    proc = _proc(
        tmp_path, f"{line}/docker/{A}/init.scope\n", f"30 20 0:1 / {tree} rw shared:1 - {kind}\n"
    )
    assert freezer_of(77, A, proc) == Freezer(folder, version)


def test_a_freezer_is_found_where_only_a_part_of_the_tree_is_mounted(tmp_path: Path) -> None:
    tree = tmp_path / "cgroup"
    folder = tree / "docker" / A
    folder.mkdir(parents=True)
    (folder / "cgroup.freeze").touch()
    proc = _proc(
        tmp_path, f"0::/host/docker/{A}\n", f"30 20 0:1 /host {tree} rw - cgroup2 cgroup2 rw\n"
    )
    assert freezer_of(77, A, proc) == Freezer(folder, 2)


def test_a_process_that_is_gone_has_no_freezer_and_no_start(tmp_path: Path) -> None:
    assert freezer_of(77, A, tmp_path) is None
    assert started_ticks(77, tmp_path) is None


def test_a_start_time_is_read_past_any_name(tmp_path: Path) -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "stat").write_text(f"77 (a) b) (c) {fields}\n", encoding="utf-8")
    assert started_ticks(77, tmp_path) == 22


def test_a_freezer_of_a_container_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    gone = Freezer(tmp_path / "gone", 2)
    assert gone.frozen() is None
    gone.thaw()
    assert list(gone.pids()) == []
