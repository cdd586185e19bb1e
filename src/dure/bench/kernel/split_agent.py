"""An agent whose plan is stated, not decided: every tenant keeps to a set of its stated share.

    python -m dure.bench.kernel.split_agent --sharing mps

For the bench of compute-unit sets: it shows what the data plane does with a split, whatever a
policy would choose. All else is the agent as it is.
"""

import sys
from dataclasses import dataclass

import dure.agent.gpu
from dure.agent.__main__ import main
from dure.domain.ids import PlanEpoch
from dure.domain.plan import Plan, SmSet, Squad, SquadMember
from dure.domain.units import NS_PER_MS
from dure.kernel.machine import KernelMachine
from dure.kernel.policies.base import Appraisal, Policy
from dure.kernel.squads import SquadSearch
from dure.kernel.trial import Trial

SQUAD_NS = 20 * NS_PER_MS


@dataclass(slots=True)
class SplitMachine(KernelMachine):
    """Gives each tenant neighbouring groups of compute units by its floor, in order of joining."""

    def _make_plan(
        self, policy: Policy, search: SquadSearch, trial: Trial
    ) -> tuple[Plan, Appraisal]:
        tracks = tuple(self.tracks.values())
        appraisal = policy.appraise(tracks, self._now_ns)
        granule = self.settings.accelerator.sm_granule
        groups = self.settings.accelerator.sms // granule
        members, first = [], 0
        for track in tracks:
            count = round(track.tenant.floor_share * groups)
            if count:
                others = tuple(other.id for other in tracks if other.id != track.id)
                sms = SmSet(first * granule, count * granule)
                members.append(SquadMember(track.id, sms, others))
                first += count
        squads = (Squad(tuple(members), SQUAD_NS),) if members else ()
        return Plan(PlanEpoch(self._epoch + 1), policy.name, squads), appraisal


if __name__ == "__main__":
    vars(dure.agent.gpu)["KernelMachine"] = SplitMachine
    sys.exit(main())
