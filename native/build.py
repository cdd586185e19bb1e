"""Compile Dure's C parts with a plain C compiler; nothing of CUDA is needed.

    python native/build.py [--out DIR] [--sanitize address|thread] [--only PART]

Parts are plane, shim, emulator and tenants; one without sources yet is skipped. What was built from
the same sources and flags is left alone: each file carries their digest as its build id. Several
builds into one folder wait for one another, and a file is replaced in one step, never half written.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NATIVE = Path(__file__).resolve().parent
DEFAULT_OUT = NATIVE.parent / "src" / "dure" / "devices" / "lib"

FLAGS = (
    *("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Werror"),
)
SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    # Fences are unknown to it, but only stand between words that are atomic themselves.
    "thread": ("-fsanitize=thread", "-Wno-tsan"),
}
LIBRARIES = ("-Wl,--as-needed", "-ldl", "-lpthread", "-lm", "-lrt")


class BuildError(Exception):
    """A part could not be built; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """One file to build: from all C files of its folders, the first of which must have some."""

    part: str
    name: str
    folders: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def sources(self) -> list[Path]:
        """The C files, or none where the part is not written yet."""
        found = [sorted((NATIVE / folder).glob("*.c")) for folder in self.folders]
        return [source for group in found for source in group] if found[0] else []


def _library(part: str, name: str, *folders: str) -> Target:
    soname = name.rpartition("/")[2]
    return Target(part, name, folders, ("-shared", f"-Wl,-soname,{soname}", "-Wl,-z,defs"))


# The shim carries its own copy of the plane, hidden, so that it depends on nothing in a tenant.
PLANE = _library("plane", "libdure_plane.so", "plane")
TARGETS = (
    Target(PLANE.part, PLANE.name, PLANE.folders, (*PLANE.flags, "-DDURE_PLANE_EXPORTED")),
    _library("shim", "libdure.so", "shim", "plane"),
    _library("emulator", "emulator/libcuda.so.1", "emulator/cuda", "emulator/common"),
    _library("emulator", "emulator/libnvidia-ml.so.1", "emulator/nvml", "emulator/common"),
    Target("emulator", "emulator/dure-broker", ("emulator/broker", "emulator/common")),
    # The same program under the name that it stands in for: it looks at how it was called.
    Target("emulator", "emulator/nvidia-cuda-mps-control", ("emulator/broker", "emulator/common")),
    Target("tenants", "dure-tenant", ("tenants",)),
)
PARTS = tuple(dict.fromkeys(target.part for target in TARGETS))


def find_compiler() -> str | None:
    """The C compiler to use: $CC, else gcc, else cc."""
    named = os.environ.get("CC", "").strip()
    return next(filter(None, map(shutil.which, [named] if named else ["gcc", "cc"])), None)


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Hold the folder against another build; the lock ends with its holder."""
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _digest(command: Sequence[str], files: Sequence[Path]) -> str:
    """The digest of everything that decides what the compiler makes."""
    digest = hashlib.sha1("\0".join(command).encode(), usedforsecurity=False)
    for file in files:
        content = file.read_bytes()
        digest.update(f"\0{file.relative_to(NATIVE)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _build_target(compiler: str, target: Target, out: Path, sanitize: str | None) -> bool:
    """Build one file unless it is there already; whether it was built."""
    sources = target.sources()
    command = [compiler, *FLAGS, *target.flags, *SANITIZERS.get(sanitize or "", ())]
    if sanitize and "-shared" in target.flags:
        command.remove("-Wl,-z,defs")  # the sanitizer's run-time comes with the program
    build_id = _digest(command, [*sources, *sorted(NATIVE.rglob("*.h"))])
    path = out / target.name
    if path.is_file() and bytes.fromhex(build_id) in path.read_bytes():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dure-build-", dir=path.parent) as scratch:
        made = Path(scratch) / path.name
        command += [f"-I{NATIVE}", f"-Wl,--build-id=0x{build_id}", "-o", str(made)]
        command += [*map(str, sources), *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{target.name} does not compile with {compiler}:\n{done.stderr}")
        made.replace(path)
    return True


def build(out: Path, only: Sequence[str] = (), sanitize: str | None = None) -> list[Path]:
    """Build the parts (all unless named) into a folder; the files that are there afterwards."""
    compiler = find_compiler()
    if compiler is None:
        raise BuildError(
            "no C compiler was found: install gcc (Debian: apt-get install gcc libc6-dev) or set CC"
        )
    wanted = [
        target for target in TARGETS if (not only or target.part in only) and target.sources()
    ]
    with _alone_in(out):
        for target in wanted:
            if _build_target(compiler, target, out, sanitize):
                sys.stderr.write(f"built {target.name}\n")
    return [out / target.name for target in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compile Dure's C parts.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the built files")
    parser.add_argument("--sanitize", choices=sorted(SANITIZERS), help="build with a sanitizer")
    parser.add_argument(
        "--only", choices=PARTS, action="append", default=[], help="a part to build"
    )
    options = parser.parse_args(arguments)
    try:
        build(options.out.resolve(), options.only, options.sanitize)
    except BuildError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
