"""The advisor in virtual time, where dry runs take a while, too."""

from dataclasses import dataclass, field

from dure.domain.adaptation import Advice as Told
from dure.domain.adaptation import AdviceKind, AskDryRun, DryRunEnded
from dure.domain.events import Event, PolicyRequested
from dure.domain.units import NS_PER_S
from dure.kernel.advisor import Advisor, AdvisorEvent
from dure.kernel.machine import KernelMachine
from dure.kernel.snapshot import recent, take_snapshot
from dure.sim.kernel.twin import dry_run

ANSWER_NS = 1 * NS_PER_S
"""How long after it was asked for a dry run is known: as long as an agent takes for one."""

_HEEDED = AdvisorEvent.__args__


@dataclass(slots=True)
class Advising:
    """Runs an advisor beside a simulated machine."""

    advisor: Advisor
    told: list[Told] = field(default_factory=list)
    dry_runs: int = 0
    _answers: list[DryRunEnded] = field(default_factory=list)

    def hear(self, event: Event, machine: KernelMachine) -> list[PolicyRequested]:
        """Tell the advisor what happened; returns the switches it wants now."""
        wanted = self._tell(event, machine) if isinstance(event, _HEEDED) else []
        while self._answers and self._answers[0].now_ns <= event.now_ns:
            wanted += self._tell(self._answers.pop(0), machine)
        return wanted

    def _tell(self, event: AdvisorEvent, machine: KernelMachine) -> list[PolicyRequested]:
        switches = []
        for instruction in self.advisor.handle(event):
            if isinstance(instruction, AskDryRun):
                self._answers.append(self._dry_run(event.now_ns, instruction, machine))
                continue
            self.told.append(instruction)
            if instruction.kind in (AdviceKind.SWITCHED, AdviceKind.ROLLED_BACK):
                after = instruction.after
                switches.append(PolicyRequested(event.now_ns, after.policy, after.parameters))
        return switches

    def _dry_run(self, now_ns: int, asked: AskDryRun, machine: KernelMachine) -> DryRunEnded:
        self.dry_runs += 1
        snapshot = take_snapshot(machine, recent(self.advisor.meter), now_ns)
        return DryRunEnded(now_ns + ANSWER_NS, dry_run(snapshot, asked.choices, seed=self.dry_runs))
