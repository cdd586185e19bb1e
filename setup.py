"""Compile the C parts at `pip install`; everything else is said in pyproject.toml.

An editable install builds into the source tree, where `dure.devices.library` looks; a normal one
into the wheel. Without a C compiler the rest is installed all the same, and `dure doctor` says what
is missing.
"""

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
SOURCES = {".c", ".h", ".py"}
LIBRARY_FOLDER = Path("dure", "devices", "lib")


def _native_build() -> ModuleType:
    """native/build.py, which is no package."""
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildNative(Command):
    """The sub-command of `build` that compiles the C parts."""

    description = "compile the C parts"
    user_options = [("build-lib=", "d", "folder to build into")]  # noqa: RUF012 - setuptools' own

    def initialize_options(self) -> None:
        self.build_lib: str | None = None
        self.editable_mode = False
        self.built: list[Path] = []

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        native = _native_build()
        if native.find_compiler() is None:
            warnings.warn(
                "No C compiler was found, so Dure is installed without the parts that manage a GPU;"
                " install gcc and install Dure again to have them.",
                stacklevel=1,
            )
            return
        root = ROOT / "src" if self.editable_mode else Path(str(self.build_lib)).resolve()
        self.built = native.build(root / LIBRARY_FOLDER)

    def get_outputs(self) -> list[str]:
        return [] if self.editable_mode else [str(path) for path in self.built]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        files = (
            path for path in (ROOT / "native").rglob("*") if path.suffix in {".c", ".h", ".py"}
        )
        return [str(path.relative_to(ROOT)) for path in sorted(files)]


class Build(build):
    """The usual build, and the C parts."""

    sub_commands = [*build.sub_commands, ("build_native", None)]  # noqa: RUF012 - setuptools' own


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python: the C parts use nothing of the interpreter's."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """One that carries compiled files."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=PlatformDistribution,
    cmdclass={"build": Build, "build_native": BuildNative, "bdist_wheel": PlatformWheel},
)
