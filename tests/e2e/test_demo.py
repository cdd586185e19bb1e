"""`dure demo` from the first process to the last line; and cut short, with nothing left behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import DURE

pytestmark = pytest.mark.slow

MOST_S = 540
"""Two minutes on a quiet machine of two cores that has compiled already."""
STEPS = (
    r"demo   http://127\.0\.0\.1:\d+/ui/#key=",
    r"fleet  chat runs in seoul: \$",
    r"kernel load of chat rises from",
    r"kernel the promise to chat is in danger: ",
    r"kernel the advisor switches jct → \w+: .*dry runs",
    r"node   6 containers share a GPU \(simulated, virtual time\)",
    r"fleet  price of seoul spikes",
    r"fleet  train moves seoul → (oregon|frankfurt): saves \$",
    r"fleet  train runs in (oregon|frankfurt): resumed at step \d+",
    r"time-slice .*%",
    r"cheapest-first ",
    r"demo   report.html: the report",
)


def environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir()
    # Nothing of it may matter: a demo is its own centre.
    elsewhere = {"DURE_SERVER": "http://127.0.0.1:1", "DURE_RUN_DIR": str(folder / "nowhere")}
    return {**os.environ, **elsewhere, "TMPDIR": str(folder / "tmp")}


def of_this_run(folder: Path) -> list[str]:
    """Processes whose command line, folder or environment names a place of this run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in said:
                found.append(said.decode(errors="replace")[:200])
    return found


def left(folder: Path) -> list[str]:
    names = [path.name for path in (folder / "tmp").iterdir()]
    return [name for name in names if name.startswith("dure-")]


def test_every_step_comes_in_order_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DURE, "demo", "--out", "report.html"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "\x1b" not in done.stdout
    at = 0
    for step in STEPS:
        found = re.compile(step).search(done.stdout, at)
        assert found, f"{step} is missing in\n{done.stdout}"
        at = found.end()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert "the advisor switches" in page
    assert of_this_run(tmp_path) == []
    assert left(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cut_short_it_takes_everything_with_it(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*DURE, "demo", "--out", "report.html"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "/ui/" in line:
                break
        time.sleep(1.0)  # in the midst of starting clusters
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, out
    assert not (tmp_path / "report.html").exists()
    assert of_this_run(tmp_path) == []
    assert left(tmp_path) == []
