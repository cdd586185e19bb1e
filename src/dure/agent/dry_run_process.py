"""The process that does dry runs for an agent, until its input ends.

A process of its own, in low priority: a dry run takes a second or more of a core, which no thread
that decides, beats the heart or answers may be kept waiting for.
"""

import os
import pickle
import sys
from dataclasses import dataclass
from typing import BinaryIO

from dure.domain.adaptation import Choice, Foretold
from dure.kernel.snapshot import Snapshot
from dure.sim.kernel.twin import dry_run

_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent wants to know."""

    snapshot: Snapshot
    choices: tuple[Choice, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a dry run found, or why there is nothing."""

    foretold: tuple[Foretold, ...] = ()
    error: str = ""


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer one question after the other."""
    while True:
        try:
            asked: Question = pickle.load(questions)
        except EOFError:
            return
        try:
            answer = Answer(dry_run(asked.snapshot, asked.choices, seed=asked.seed))
        except Exception as error:  # noqa: BLE001, told to whoever asked
            answer = Answer(error=f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


def main() -> None:
    """Be the process: questions at standard input, answers at standard output."""
    os.nice(_NICENESS)
    words = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    serve(sys.stdin.buffer, words)
