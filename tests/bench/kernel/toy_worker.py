"""A worker whose steps take a set time of the processor instead of a GPU's."""

import time

from dure.bench.kernel.loads import Work
from dure.bench.kernel.worker import introduce, serve

STEP_S = {"toy-fast": 0.001, "toy-slow": 0.002}


def main() -> None:
    channel, workload = introduce()
    step_s = STEP_S[workload]
    work = Work(lambda: time.sleep(step_s), lambda: None, lambda: None)
    serve(channel, lambda: (work, {"gpu": "toy"}))


if __name__ == "__main__":
    main()
