"""The runs of `dure bench adapt`: each kept in a file of its own, so that what is there stays."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dure.domain.adaptation import AdaptBy, AdviceKind
from dure.kernel.chooser import FIRST_POLICY, Chooser, EveryPolicy
from dure.kernel.policies.registry import POLICIES
from dure.kit.files import write_text
from dure.learners.bandit import river_bandit
from dure.sim.kernel.changing import DURATION_NS, Changing, make_changing
from dure.sim.kernel.judging import scores
from dure.sim.kernel.modes import Mode, managed
from dure.sim.kernel.run import run
from dure.sim.kernel.tuning import ARMS, TunedChoices, own_bandit

FIXED = tuple(POLICIES)
RULES, TUNER, RIVER = "auto", "tuner", "tuner (river)"
FIRST = FIRST_POLICY
"""The policy in force when an adapted run begins, as in an agent."""
_TRAINING_SEED = 1000
"""Training is done on other runs than those that are judged."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One mode in one run."""

    seed: int
    mode: str
    scores: tuple[float, ...]
    """The objective by window."""
    switches: int = 0
    rollbacks: int = 0
    dry_runs: int = 0

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores) if self.scores else 0.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where runs are kept; None: nowhere."""

    folder: Path | None

    def find(self, name: str) -> dict[str, Any] | None:
        """What was kept under a name."""
        path = self.folder / f"{name}.json" if self.folder is not None else None
        if path is None or not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def keep(self, name: str, found: dict[str, Any]) -> None:
        """Keep something."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / f"{name}.json", json.dumps(found))


@dataclass(slots=True)
class Suite:
    """Runs by seed and mode."""

    shelf: Shelf
    training: int = 8
    """Runs the tuner learns from before it is judged."""
    duration_ns: int = DURATION_NS
    _made: Changing | None = None
    _learned: dict[str, list[object]] | None = None

    def ran(self, seed: int, mode: str) -> Ran:
        """One run, from the shelf if it is there."""
        name = f"{seed:04d}-{mode.split(maxsplit=1)[0]}" + ("-river" if mode == RIVER else "")
        known = self.shelf.find(name)
        if known is None:
            known = self._run(seed, mode)
            self.shelf.keep(name, known)
        return Ran(
            seed,
            mode,
            tuple(known["scores"]),
            known["switches"],
            known["rollbacks"],
            known["dry_runs"],
        )

    def _run(self, seed: int, mode: str) -> dict[str, Any]:
        if mode in FIXED:
            return self._outcome(seed, mode, None)
        if mode == RULES:
            return self._outcome(seed, FIRST, EveryPolicy())
        if mode == RIVER:
            return self._outcome(seed, FIRST, self._trained_river())
        bandit = own_bandit()
        bandit.restore(self._trained())
        return self._outcome(seed, FIRST, TunedChoices(bandit))

    def _outcome(self, seed: int, policy: str, chooser: Chooser | None) -> dict[str, Any]:
        if self._made is None or self._made.seed != seed:
            self._made = make_changing(seed, duration_ns=self.duration_ns)
        made = self._made
        mode: Mode = managed(policy, side_by_side=made.side_by_side)
        if chooser is not None:
            mode = replace(mode, adapt=AdaptBy.AUTO)
        outcome = run(mode, made.setting, chooser=chooser)
        kinds = [advice.kind for advice in outcome.advice]
        return {
            "scores": scores(outcome),
            "switches": kinds.count(AdviceKind.SWITCHED),
            "rollbacks": kinds.count(AdviceKind.ROLLED_BACK),
            "dry_runs": outcome.dry_runs,
            "advice": [f"{advice.at_ns / 1e9:.1f} s {advice}" for advice in outcome.advice],
        }

    def _trained(self) -> dict[str, list[object]]:
        """What the own bandit knows before it is judged."""
        if self._learned is None:
            name = f"training-{self.training}"
            known = self.shelf.find(name)
            if known is None:
                bandit = own_bandit()
                self._train(TunedChoices(bandit))
                known = bandit.state()
                self.shelf.keep(name, known)
            self._learned = known
        return self._learned

    def _trained_river(self) -> TunedChoices:
        tuned = TunedChoices(river_bandit(len(ARMS)))
        self._train(tuned)
        return tuned

    def _train(self, tuned: TunedChoices) -> None:
        for number in range(1, self.training + 1):
            self._outcome(_TRAINING_SEED + number, FIRST, tuned)
