"""The import rules of pyproject.toml, tried on a small tree with the same packages."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {contract["id"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
PACKAGES = [name.strip() for layer in CONTRACTS["layers"]["layers"] for name in layer.split("|")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the rules beside an empty package of each name."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in PACKAGES:
        (tmp_path / "dure" / name).mkdir(parents=True)
        (tmp_path / "dure" / name / "__init__.py").touch()
    (tmp_path / "dure" / "__init__.py").touch()
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_that_point_downwards_are_accepted(tree: Path) -> None:
    (tree / "dure/cli/sim.py").write_text("import dure.sim, dure.kit, rich, typer\n")
    (tree / "dure/sim/gpu.py").write_text("import dure.kernel, dure.kit, dure.domain, numba\n")
    (tree / "dure/kernel/machine.py").write_text("import dure.domain, numpy, math\n")
    (tree / "dure/kit/files.py").write_text("import yaml\n")
    ended = lint(tree)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("domain", "dure.kernel"),
        ("domain", "dure.kit"),
        ("domain", "pydantic"),
        ("kernel", "dure.sim"),
        ("kernel", "dure.kit"),
        ("kernel", "numba"),
        ("kit", "dure.domain"),
        ("kit", "dure.kernel"),
        ("sim", "dure.cli"),
        ("fleet", "google"),
        ("fleet", "grpc"),
        ("wire", "dure.fleet"),
    ],
)
def test_an_import_against_the_rules_is_refused(tree: Path, importer: str, imported: str) -> None:
    (tree / "dure" / importer / "__init__.py").write_text(f"import {imported}\n")
    ended = lint(tree)
    assert ended.returncode != 0
    assert f"dure.{importer} -> {imported}" in ended.stdout


def test_a_new_package_must_be_given_a_layer(tree: Path) -> None:
    (tree / "dure" / "surprise").mkdir()
    (tree / "dure" / "surprise" / "__init__.py").touch()
    assert lint(tree).returncode != 0


def test_a_new_runtime_dependency_is_kept_out_of_the_deciders() -> None:
    wanted = {re.split(r"[^\w-]", text)[0].lower() for text in SETTINGS["project"]["dependencies"]}
    modules = {
        module
        for module, distributions in packages_distributions().items()
        if wanted & {name.lower() for name in distributions} and not module.startswith("_")
    } - {"example"}  # a sample that nvidia-ml-py ships
    assert modules - {"numpy"} <= set(CONTRACTS["pure-packages-are-light"]["forbidden_modules"])
    assert modules - {"numpy", "numba"} <= set(CONTRACTS["fleet-is-light"]["forbidden_modules"])


def test_every_pure_package_is_kept_light() -> None:
    pure = {Path(name).name for name in SETTINGS["tool"]["purity"]["packages"]}
    light = CONTRACTS["pure-packages-are-light"]["source_modules"]
    compiling = CONTRACTS["fleet-is-light"]["source_modules"]
    assert {f"dure.{name}" for name in pure} == {*light, *compiling}
