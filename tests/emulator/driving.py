"""An emulated machine for tests: its folder, its settings, programs that run on it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import read_to_end

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
"""No program here takes a tenth of this; a slow machine may."""


def build() -> Path:
    """Build emulator and tenants where they are not built yet; the folder they are in."""
    command = [sys.executable, str(ROOT / "native" / "build.py")]
    subprocess.run(
        [*command, "--only", "emulator", "--only", "tenants"], check=True, capture_output=True
    )
    return ROOT / "src" / "dure" / "devices" / "lib"


def wait_for(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


@dataclass
class Emulator:
    """One broker's folder and the programs started on it."""

    lib: Path
    folder: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def configure(self, **settings: object) -> None:
        """Write the settings the broker will start with."""
        words = [f"{key}={value}" for key, value in settings.items()]
        (self.folder / "config").write_text("\n".join(words) + "\n", encoding="utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        """What a program needs to find this machine."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DURE_")}
        kept.pop("LD_PRELOAD", None)
        paths = {"LD_LIBRARY_PATH": str(self.lib / "emulator"), "PYTHONPATH": str(ROOT)}
        return kept | paths | {"DURE_EMULATOR_DIR": str(self.folder)} | more

    def start(self, command: list[str], **more: str) -> subprocess.Popen[str]:
        """Start a program on this machine."""
        process = subprocess.Popen(
            command,
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def start_tenant(self, *arguments: object, **more: str) -> subprocess.Popen[str]:
        """Start `dure-tenant` with these arguments."""
        return self.start([str(self.lib / "dure-tenant"), *map(str, arguments)], **more)

    def tenant(self, *arguments: object, **more: str) -> tuple[int, dict[str, Any]]:
        """Run `dure-tenant ... --json`; its exit code and what it printed."""
        return finish(self.start_tenant(*arguments, "--json", **more))

    def start_program(self, name: str, *arguments: object, **more: str) -> subprocess.Popen[str]:
        """Start one of the programs of `programs.py`."""
        command = [sys.executable, "-m", "tests.emulator.programs", name, *map(str, arguments)]
        return self.start(command, **more)

    def program(self, name: str, *arguments: object, **more: str) -> dict[str, Any]:
        """Run one of the programs of `programs.py`; what it printed."""
        code, printed = finish(self.start_program(name, *arguments, **more))
        assert code == 0, printed
        return printed

    def broker_pids(self) -> list[int]:
        """Brokers of this folder."""
        names = [entry.name for entry in Path("/proc").iterdir()]
        return [pid for pid in map(int, filter(str.isdigit, names)) if self._is(pid)]

    def _is(self, pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        ours = f"DURE_EMULATOR_DIR={self.folder}".encode()
        return len(command) == 2 and command[0].endswith(b"dure-broker") and ours in environment

    def control(self, commands: str, *options: str) -> str:
        """What the stand-in of the MPS control program answers."""
        done = subprocess.run(
            [str(self.lib / "emulator" / "nvidia-cuda-mps-control"), *options],
            input=commands,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        return done.stdout

    def close(self) -> None:
        """End everything started here."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in self.broker_pids():
            os.kill(pid, signal.SIGTERM)


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Wait for a program that prints one JSON object; its exit code and the object."""
    out, err = read_to_end(process, LIMIT_S)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return process.returncode, json.loads(lines[-1]) if lines else {"error": err or out}


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line a program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def machine(lib: Path, folder: Path, **settings: object) -> Iterator[Emulator]:
    """An emulated machine that is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Emulator(lib, folder)
    made.configure(**settings)
    try:
        yield made
    finally:
        made.close()
