"""Processes of the demo: whatever they start ends with them, also what left its parent."""

import subprocess
import sys
import time
from pathlib import Path

TROUPE = """
import os, sys, time
from pathlib import Path
import dure.demo.processes as processes

folder = Path(sys.argv[1])
processes.DURE = (sys.executable, "-c")
troupe = processes.Troupe(folder, dict(os.environ))
# Starts a program that starts another, in a session of its own that ignores a request to end, and
# goes: nobody's child any more but the one who adopts it.
grandchild = "import signal, time, os; signal.signal(15, signal.SIG_IGN); " \\
    f"open({str(folder / 'there')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}], " \\
    "start_new_session=True)"
troupe.start("parent", child)
while not (folder / "there").exists() or not (folder / "there").read_text():
    time.sleep(0.05)
processes._GRACE_S = 0.5
print(troupe.end())
"""


def test_a_program_that_lost_its_parent_and_ignores_requests_is_ended_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TROUPE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1"
    pid = int((tmp_path / "there").read_text())
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
