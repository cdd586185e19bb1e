"""A worker whose steps take a set time of the processor instead of a GPU's."""

import os
import time
from pathlib import Path

from dure.bench.kernel.loads import Work
from dure.bench.kernel.worker import Seen, introduce, serve

STEP_S = {"toy-fast": 0.001, "toy-slow": 0.002, "toy-mortal": 0.002}
ENDS = "DURE_TOY_ENDS"
"""A folder; the mortal toy ends in the middle of the first work after there is a file in it."""


class ToyProgram:
    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._built = False
        self._mortal = False

    def mortal(self) -> "ToyProgram":
        self._mortal = True
        return self

    def _step(self) -> None:
        time.sleep(self._step_s)
        if self._mortal and any(Path(os.environ[ENDS]).iterdir()):
            os._exit(3)

    def build(self) -> None:
        self._built = True

    def warm(self, *, tune: bool) -> tuple[Work, Seen]:
        assert self._built
        work = Work(self._step, lambda: None, lambda: None)
        return work, {"gpu": "toy", "tuned": tune}


def main() -> None:
    channel, workload = introduce()
    program = ToyProgram(STEP_S[workload])
    serve(channel, program.mortal() if workload == "toy-mortal" else program)


if __name__ == "__main__":
    main()
