"""Which ready programs `tools/build_kube` takes, and what it says is missing."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "build_kube"
SAID = {
    "etcd": "etcd Version: 3.6.4\nGo Version: go1.99.9",
    "kube-apiserver": "Kubernetes v1.36.0",
    "kube-controller-manager": "Kubernetes v1.36.1",
    "kube-scheduler": "Kubernetes v1.36.2",
    "kubectl": "Client Version: v1.36.3\nKustomize Version: v5.8.1",
    "kwok": "kwok version v0.8.1 go1.99.9 (linux/amd64)",
    "haproxy": "HAProxy version 2.6.12",
    "openssl": "OpenSSL 3.0.0",
}


def programs(folder: Path, **others: str) -> Path:
    """Programs that say their version, all of the right ones but for those stated."""
    folder.mkdir()
    for name, said in {**SAID, **others}.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\necho '{said}'\n", encoding="utf-8")
        path.chmod(0o755)
    return folder


def find(tmp_path: Path, on_path: Path, assets: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), "--find"],
        env={
            "PATH": f"{on_path}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "DURE_CACHE": str(tmp_path / "cache"),
            "KUBEBUILDER_ASSETS": assets,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_ready_programs_of_the_right_versions_are_taken(tmp_path: Path) -> None:
    folder = programs(tmp_path / "bin")
    found = find(tmp_path, folder)
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.split()) == sorted(str(folder / name) for name in SAID)


def test_assets_come_before_the_path(tmp_path: Path) -> None:
    folder = programs(tmp_path / "bin")
    assets = programs(tmp_path / "assets")
    (assets / "kwok").unlink()
    found = find(tmp_path, folder, str(assets)).stdout.split()
    assert str(assets / "etcd") in found
    assert str(folder / "kwok") in found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kube-apiserver", "Kubernetes v1.20.2"),
        ("kube-scheduler", "Kubernetes v1.37.0"),
        ("etcd", "etcd Version: 3.4.23"),
        ("kwok", "kwok version v0.6.1"),
        ("kubectl", "what is a version?"),
    ],
)
def test_other_versions_are_missing(tmp_path: Path, name: str, said: str) -> None:
    folder = programs(tmp_path / "bin", **{name: said})
    found = find(tmp_path, folder)
    assert found.returncode == 1
    assert f"missing for Kubernetes 1.36: {name};" in found.stderr
    assert found.stdout == ""


def test_the_newest_etcd_is_new_enough(tmp_path: Path) -> None:
    assert find(tmp_path, programs(tmp_path / "bin", etcd="etcd Version: 3.10.0")).returncode == 0
