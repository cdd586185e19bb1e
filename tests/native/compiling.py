"""Compile a C test program together with the data plane, with the flags of the real build."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def native_build() -> ModuleType:
    """`native/build.py`, which is no package."""
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_with_plane(source: Path, folder: Path, sanitize: str | None = None) -> Path:
    """The program made of one C file and the plane's sources."""
    build = native_build()
    program = folder / f"{source.stem}-{sanitize or 'plain'}"
    command = [
        build.find_compiler(),
        *build.FLAGS,
        *build.SANITIZERS.get(sanitize or "", ()),
        f"-I{ROOT / 'native'}",
        *("-o", str(program), str(source)),
        *map(str, sorted((ROOT / "native" / "plane").glob("*.c"))),
        *build.LIBRARIES,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program
