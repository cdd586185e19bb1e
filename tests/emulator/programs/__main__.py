"""Small CUDA programs for the tests: `python -m tests.emulator.programs NAME ARGUMENTS`.

Each is a function that returns what is printed as JSON.
"""

import json
import sys
from collections.abc import Callable

from tests.emulator.programs.calls import devices, invalid, memory, rectangles, resolving
from tests.emulator.programs.capturing import capturing, graphs
from tests.emulator.programs.common import Printed
from tests.emulator.programs.living import busy, frozen, hold, lock, steps, until_error
from tests.emulator.programs.ordering import host_functions, order, words
from tests.emulator.programs.timing import (
    bursts,
    company,
    durations,
    far_ahead,
    green,
    hold_green,
    waiting,
)

PROGRAMS: dict[str, Callable[..., Printed]] = {
    function.__name__: function
    for function in (
        *(durations, company, green, hold_green, order, host_functions, memory, hold, frozen),
        *(until_error, steps, lock, capturing, graphs, rectangles, far_ahead, resolving, devices),
        *(invalid, words, bursts, busy, waiting),
    )
}


def main() -> None:
    """Run the program named first with the arguments after it."""
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])) + "\n")


if __name__ == "__main__":
    main()
