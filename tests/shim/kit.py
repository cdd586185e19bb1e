"""Build the shim, a small driver and small programs, and run them together."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.native.compiling import native_build
from tests.processes import read_to_end

HERE = Path(__file__).resolve().parent
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program did."""

    code: int
    lines: list[str]
    errors: str

    def count(self, symbol: str) -> int:
        """How often the shim saw a call; the program ran with `trace`."""
        found = re.search(rf"trace: {symbol} +(\d+)", self.errors)
        return int(found[1]) if found else 0

    def said(self) -> list[str]:
        """The shim's own lines, traces apart."""
        lines = self.errors.splitlines()
        return [
            line
            for line in lines
            if line.startswith("dure: ") and not line.startswith("dure: trace")
        ]


@dataclass(frozen=True, slots=True)
class Kit:
    """A folder with everything built in one way."""

    folder: Path
    sanitize: str | None = None
    preloads: tuple[str, ...] = field(default=())

    def compile(self, name: str, *extra: str, out: str | None = None) -> Path:
        """One C file of this folder, as a program or (with -shared) a library."""
        build = native_build()
        made = self.folder / (out or Path(name).stem)
        sanitizers = build.SANITIZERS.get(self.sanitize or "", ())
        flags = [*build.FLAGS, *sanitizers]
        command = [build.find_compiler(), *flags, "-o", str(made), str(HERE / name)]
        done = subprocess.run(
            [*command, *extra, "-ldl", "-lpthread"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return made

    def environment(self, socket: Path | None, **more: str) -> dict[str, str]:
        """That of a tenant's program; without a socket, that of anybody's."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("DURE_")},
            "LD_LIBRARY_PATH": str(self.folder),
            "LD_PRELOAD": ":".join([*self.preloads, str(self.folder / "libdure.so")]),
            "DURE_TRACE": "1",
            "ASAN_OPTIONS": "detect_leaks=0",
        }
        if socket is not None:
            environment |= {"DURE_SOCKET": str(socket), "DURE_TENANT": "t"}
        return environment | more

    def start(
        self, command: list[str], socket: Path | None = None, **more: str
    ) -> subprocess.Popen[str]:
        """A program under the shim; bare names are of this folder."""
        program = [str(self.folder / command[0]) if "/" not in command[0] else command[0]]
        return subprocess.Popen(
            program + command[1:],
            env=self.environment(socket, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: list[str], socket: Path | None = None, **more: str) -> Outcome:
        """Run a program to its end."""
        return finish(self.start(command, socket, **more))

    def drive(self, *steps: str, socket: Path | None = None, **more: str) -> Outcome:
        """Run the program that does what it is told."""
        return self.run(["drive", *steps], socket, **more)


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a program's end, within a limit."""
    try:
        out, errors = read_to_end(process, LIMIT_S)
    finally:
        process.kill()
    return Outcome(process.returncode, out.splitlines(), errors)


def _runtime(name: str) -> str:
    build = native_build()
    found = subprocess.run(
        [build.find_compiler(), f"-print-file-name={name}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def build_kit(folder: Path, sanitize: str | None = None) -> Kit:
    """The shim, the driver and the programs."""
    native_build().build(folder, ("plane", "shim"), sanitize)
    preloads = (_runtime("libasan.so"), _runtime("libubsan.so")) if sanitize == "address" else ()
    kit = Kit(folder, sanitize, preloads)
    library = ("-shared", "-Wl,-Bsymbolic")
    driver = "libcuda.so.1"
    kit.compile("driver/fake_cuda.c", *library, f"-Wl,-soname,{driver}", out=driver)
    kit.compile("programs/drive.c")
    kit.compile("programs/linked.c", str(folder / driver))
    kit.compile("programs/other_preload.c", "-shared", out="libother.so")
    return kit


PYTHON = sys.executable
