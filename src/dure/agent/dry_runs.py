"""Asks a process of its own for dry runs; it is started at the first and ends with the agent."""

import os
import pickle
import selectors
import subprocess
import sys
from dataclasses import dataclass

from dure.agent.dry_run_process import Answer, Question, serve
from dure.domain.adaptation import Foretold
from dure.domain.errors import DureError

_FIRST_S = 300.0
"""The first may have to compile the simulator."""
_NEXT_S = 60.0
_END_S = 2.0


@dataclass(slots=True)
class DryRuns:
    """One process, one question at a time; for one thread."""

    _process: "subprocess.Popen[bytes] | None" = None
    _met: bool = False

    def ask(self, question: Question) -> tuple[Foretold, ...]:
        """What each choice would give; raises a `DureError` where that cannot be said."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            with selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                if not ready.select(_NEXT_S if self._met else _FIRST_S):
                    raise TimeoutError
            answer: Answer = pickle.load(process.stdout)
        except (OSError, EOFError, TimeoutError, pickle.UnpicklingError) as error:
            self.stop()
            raise DureError(
                f"a dry run did not end ({type(error).__name__})", "see the agent's log"
            ) from error
        self._met = True
        if answer.error:
            raise DureError(f"a dry run failed ({answer.error})", "see the agent's log")
        return answer.foretold

    def stop(self) -> None:
        """End the process."""
        process, self._process, self._met = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait(_END_S)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self.stop()
            environment = {name: said for name, said in os.environ.items() if name != "LD_PRELOAD"}
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {serve.__module__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        return self._process
