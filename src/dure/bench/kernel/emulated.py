"""The surroundings of a bench on the emulator: one emulated GPU that slices time, one under MPS."""

import os
import sys
from pathlib import Path

from dure.bench.kernel.bed import Surroundings
from dure.bench.kernel.mps import CONTROL
from dure.devices import library

IDLE_EXIT_S = 20
"""A broker nobody uses ends itself after so long."""

WORKER = (sys.executable, "-m", "dure.bench.kernel.emulated_worker")
ANSWERS = (sys.executable, "-m", "dure.bench.kernel.emulated_answers")


def emulated_surroundings(folder: Path) -> Surroundings:
    """Two brokers in a folder; each starts with its first client."""
    emulator = library.path("emulator/libcuda.so.1").parent
    before = os.environ.get("LD_LIBRARY_PATH")
    broker = library.path("emulator/dure-broker")
    base = {
        "LD_LIBRARY_PATH": f"{emulator}:{before}" if before else str(emulator),
        "DURE_EMULATOR_BROKER": str(broker),
    }
    environments = []
    for mode in ("timeslice", "mps"):
        own = folder / mode
        own.mkdir(parents=True, exist_ok=True)
        (own / "config").write_text(f"gpus=1 sms=132 mode={mode} idle_exit_s={IDLE_EXIT_S}\n")
        environments.append({**base, "DURE_EMULATOR_DIR": str(own)})
    isolated, mps = environments
    control = folder / "bin" / CONTROL
    control.parent.mkdir(exist_ok=True)
    control.symlink_to(broker)  # under this name it is the stand-in of the daemon's
    mps["PATH"] = f"{control.parent}:{os.environ.get('PATH', os.defpath)}"
    return Surroundings(worker=WORKER, isolated=isolated, mps=mps, daemon=False, answers=ANSWERS)
