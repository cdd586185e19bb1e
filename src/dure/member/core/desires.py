"""The desired set: which plans are taken, and what each changes."""

from dataclasses import dataclass, field

from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan


@dataclass(slots=True)
class DesiredSet:
    """What the centre last said shall exist here."""

    epoch: int = 0
    revision: int = 0
    items: dict[AttemptKey, Desired] = field(default_factory=dict)

    def objection(self, plan: Plan) -> str:
        """Why a plan cannot be taken; empty: it can."""
        known = f"revision {self.revision} of epoch {self.epoch} is known"
        if (plan.epoch, plan.revision) < (self.epoch, self.revision):
            return f"it is older than what is known: {known}"
        if plan.base is None or self.has(plan):
            return ""
        if (plan.epoch, plan.base) != (self.epoch, self.revision):
            return f"it changes revision {plan.base} of epoch {plan.epoch}, but {known}"
        return ""

    def has(self, plan: Plan) -> bool:
        """Whether just this revision was taken before; a difference to it changes nothing."""
        return plan.base is not None and (plan.epoch, plan.revision) == (self.epoch, self.revision)

    def take(self, plan: Plan) -> tuple[list[Desired], list[AttemptKey]]:
        """Make a plan the known one; returns what is new or changed, and what is no longer in."""
        if self.has(plan):
            return [], []
        said = {each.key: each for each in plan.desired}
        if plan.base is None:
            removed = [key for key in self.items if key not in said]
        else:
            removed = [key for key in plan.removed if key in self.items and key not in said]
        changed = [each for key, each in said.items() if self.items.get(key) != each]
        for key in removed:
            del self.items[key]
        self.items |= said
        self.epoch, self.revision = plan.epoch, plan.revision
        return changed, removed
