"""A worker whose steps take a set time of the processor instead of a GPU's."""

import time

from dure.bench.kernel.loads import Work
from dure.bench.kernel.worker import Seen, introduce, serve

STEP_S = {"toy-fast": 0.001, "toy-slow": 0.002}


class ToyProgram:
    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._built = False

    def build(self) -> None:
        self._built = True

    def warm(self, *, tune: bool) -> tuple[Work, Seen]:
        assert self._built
        work = Work(lambda: time.sleep(self._step_s), lambda: None, lambda: None)
        return work, {"gpu": "toy", "tuned": tune}


def main() -> None:
    channel, workload = introduce()
    serve(channel, ToyProgram(STEP_S[workload]))


if __name__ == "__main__":
    main()
