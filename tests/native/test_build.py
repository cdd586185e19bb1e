"""The build of the C parts: only what changed, side by side, with a clear word when it fails."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.native.compiling import ROOT, native_build

BUILD = ROOT / "native" / "build.py"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BUILD), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_builds_what_is_missing_and_leaves_what_is_there(tmp_path: Path) -> None:
    first = _run("--out", str(tmp_path), "--only", "plane")
    assert (first.returncode, first.stderr) == (0, "built libdure_plane.so\n")
    again = _run("--out", str(tmp_path), "--only", "plane")
    assert (again.returncode, again.stderr) == (0, "")


def test_builds_at_the_same_time_do_not_disturb_one_another(tmp_path: Path) -> None:
    command = [sys.executable, str(BUILD), "--out", str(tmp_path), "--only", "plane"]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sorted(said) == ["", "", "built libdure_plane.so\n"]
    assert [path.name for path in tmp_path.iterdir()] == ["libdure_plane.so"]


class TestSources:
    @pytest.fixture
    def build(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        """A build of a small tree of its own."""
        module = native_build()
        monkeypatch.setattr(module, "NATIVE", tmp_path / "native")
        (tmp_path / "native" / "plane").mkdir(parents=True)
        (tmp_path / "native" / "abi.h").write_text("#define ANSWER 42\n")
        (tmp_path / "native" / "plane" / "a.c").write_text(
            '#include "abi.h"\nint answer(void);\nint answer(void) { return ANSWER; }\n'
        )
        return module

    def test_parts_without_sources_are_skipped(self, build: ModuleType, tmp_path: Path) -> None:
        assert build.build(tmp_path / "out") == [tmp_path / "out" / "libdure_plane.so"]

    def test_a_changed_header_builds_anew(
        self, build: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for _ in range(2):
            build.build(tmp_path / "out")
        (tmp_path / "native" / "abi.h").write_text("#define ANSWER 43\n")
        build.build(tmp_path / "out")
        assert capsys.readouterr().err == "built libdure_plane.so\n" * 2

    def test_other_flags_build_anew(
        self, build: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for sanitize in (None, "thread", "thread"):
            build.build(tmp_path / "out", sanitize=sanitize)
        assert capsys.readouterr().err == "built libdure_plane.so\n" * 2

    def test_a_warning_is_an_error_that_names_the_file(
        self, build: ModuleType, tmp_path: Path
    ) -> None:
        (tmp_path / "native" / "plane" / "b.c").write_text("static int unused(void) {return 1;}\n")
        with pytest.raises(
            build.BuildError, match=r"libdure_plane\.so does not compile(.|\n)*b\.c"
        ):
            build.build(tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []

    def test_without_a_compiler_it_says_what_to_install(
        self, build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CC", "no-such-compiler")
        with pytest.raises(build.BuildError, match="install gcc"):
            build.build(tmp_path / "out")
