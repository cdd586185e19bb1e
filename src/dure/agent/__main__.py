"""`python -m dure.agent`: the agent without the whole command line, as `dure run` starts it."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Be the agent; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dure.agent")
    parser.add_argument("--run-dir", type=Path)
    parser.add_argument("--sharing", choices=("isolated", "mps"), default="isolated")
    parser.add_argument("--policy", default="hybrid")
    parser.add_argument("--log-file", type=Path)
    parser.add_argument("--background", action="store_true", help="print a process id and return")
    given = parser.parse_args(arguments)
    if given.background and (pid := os.fork()) != 0:
        sys.stdout.write(f"{pid}\n")
        return 0
    if given.background:
        os.setsid()
        os.dup2(2, 1)  # whoever reads the process id is not to wait for our end
    return _run(given)


def _run(given: argparse.Namespace) -> int:
    """The part that is slow to load, after the fork."""
    from dure.agent.main import run  # noqa: PLC0415
    from dure.agent.options import AgentOptions  # noqa: PLC0415
    from dure.client.places import own_places  # noqa: PLC0415
    from dure.domain.errors import DureError, InputError  # noqa: PLC0415
    from dure.kit.files import FileProblem  # noqa: PLC0415

    options = AgentOptions(
        places=own_places(given.run_dir),
        sharing=given.sharing,
        policy=given.policy,
        log_file=given.log_file,
    )
    try:
        run(options)
    except (DureError, FileProblem) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError | FileProblem) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
