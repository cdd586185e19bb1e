"""Where a job could run at all, by what its program names: secrets, volumes, commands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dure.domain.fleet.programs import Program, Thing
from dure.domain.fleet.protocol import Inventory
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, TenantId

PROCESS_KIND = "process"
"""Clusters that run commands of their host."""
_MOST_NAMED = 3
"""Clusters whose lack a reason tells."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a cluster has beside devices."""

    kind: str
    inventory: Inventory | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A workload with the clusters it may go to, or why there is none."""

    workload: Workload
    why_not: str = ""
    excludes: bool = False
    """Whether some cluster lacks something: it may have it later."""


def particular(program: Program) -> bool:
    """Whether a program may not run in every cluster of Kubernetes."""
    return bool(program.things) or not program.image


def judge(workload: Workload, program: Program, offers: Mapping[str, Offer]) -> Verdict:
    """The workload, kept to clusters that have what its program names."""
    choosy = particular(program)
    if not choosy and all(offer.kind != PROCESS_KIND for offer in offers.values()):
        return Verdict(workload)
    candidates = [
        name
        for name in sorted(offers)
        if workload.clusters is None or ClusterId(name) in workload.clusters
    ]
    lacks = {name: lack(workload.tenant, program, name, offers[name]) for name in candidates}
    able = frozenset(ClusterId(name) for name, why in lacks.items() if not why)
    if not candidates or (not choosy and len(able) == len(candidates)):
        return Verdict(workload)
    if able:
        return Verdict(replace(workload, clusters=able), excludes=len(able) < len(candidates))
    told = [why for why in lacks.values() if why]
    more = "" if len(told) <= _MOST_NAMED else f"; and {len(told) - _MOST_NAMED} clusters more"
    return Verdict(workload, "; ".join(told[:_MOST_NAMED]) + more, excludes=True)


def lack(tenant: TenantId, program: Program, name: str, offer: Offer) -> str:
    """What a cluster lacks for a program, in a sentence; empty: nothing."""
    if not program.image and offer.kind != PROCESS_KIND:
        return f"cluster {name} runs images alone and the job names none"
    if program.image and offer.kind == PROCESS_KIND:
        return f"cluster {name} runs commands of its host, not images"
    if not program.things:
        return ""
    if offer.inventory is None:
        return f"cluster {name} has not yet said what it has"
    missing = [
        thing for thing in sorted(program.things) if (tenant, thing) not in offer.inventory.things
    ]
    return f"cluster {name} has no {_words(missing[0])} for tenant '{tenant}'" if missing else ""


def _words(thing: Thing) -> str:
    return f"{thing.kind.replace('-', ' ')} '{thing.name}'"
