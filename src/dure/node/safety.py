"""Rules no strategy can break: who may be held at all, and when somebody has to be let go."""

from collections.abc import Callable, Iterable

from dure.domain.ids import GpuUuid
from dure.node.state import NodeState
from dure.node.strategies.base import Plan, Say, Verdict
from dure.node.units import Unit, UnitKey


def overrule(state: NodeState, plan: Plan) -> dict[UnitKey, Verdict]:
    """A strategy's verdicts with every hold taken out that may not be."""
    verdicts = dict(plan.verdicts)
    company = Company(state)
    for key, verdict in plan.verdicts.items():
        if not verdict.say.holds:
            continue
        reason = forbidden(state, state.units[key], verdict.say, company)
        if reason is not None:
            # Who runs only because nobody can be held has no turn: it queues when that is over.
            verdicts[key] = Verdict(Say.GO if state.missing is None else Say.BESIDE, reason)
    for unit in _first_in_line_of_idle_gpus(state, plan, verdicts):
        unit.must_go_until_ns = state.now_ns + state.settings.turn_ns
        verdicts[unit.key] = Verdict(Say.GO, "nothing happened on its GPU")
    return verdicts


class Company:
    """Who else has business on a unit's GPUs: a sole tenant is never touched."""

    def __init__(self, state: NodeState) -> None:
        self._state, self._gpus = state, state.gpus
        self._busy = state.count(lambda unit: unit.activity.memory_bytes > 0 or unit.contends)
        self._other: Callable[[Unit], int] | None = None

    def has(self, unit: Unit) -> bool:
        """Somebody else works on one of its GPUs, or holds memory there."""
        if self._busy(unit) > 0:
            return True
        gpus = [self._gpus[gpu] for gpu in unit.gpus if gpu in self._gpus]
        return any(gpu.outside_works or gpu.outside_bytes for gpu in gpus)

    def has_for_memory(self, unit: Unit) -> bool:
        """Somebody else holds memory, or was promised some."""
        if self._other is None:
            self._other = self._state.count(lambda unit: not unit.memory_wait)
        return self._other(unit) > 0 or self.has(unit)


def forbidden(state: NodeState, unit: Unit, say: Say, company: Company) -> str | None:
    """Why a unit may not be held now."""
    if state.missing is not None:
        return state.missing.value
    if not state.settings.ways:
        return "no way to pause works on this host"
    reason = unit.untouchable(state.now_ns)
    if reason is not None:
        return reason
    if state.now_ns < unit.must_go_until_ns:
        return unit.remark or "it waited as long as it may"
    if not (company.has_for_memory(unit) if say is Say.MEMORY else company.has(unit)):
        return "nobody else uses its GPU"
    return None


def _first_in_line_of_idle_gpus(
    state: NodeState, plan: Plan, verdicts: dict[UnitKey, Verdict]
) -> Iterable[Unit]:
    """Who has waited long enough for a GPU on which nothing happens."""
    found: dict[UnitKey, Unit] = {}
    for gpu in idle_gpus(state):
        for key in plan.queue:
            unit = state.units[key]
            if gpu in unit.gpus and unit.gripped and verdicts[key].say is Say.WAIT:
                found.setdefault(key, unit)
                break
    return found.values()


def idle_gpus(state: NodeState) -> list[GpuUuid]:
    """GPUs on which nothing has happened for as long as may be."""
    since_ns = state.now_ns - state.settings.idle_bound_ns
    return [
        uuid
        for uuid, gpu in state.gpus.items()
        if gpu.still_ns is not None and gpu.still_ns <= since_ns
    ]
