"""Where a job could run at all, by what its program names: secrets, volumes, commands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dure.domain.fleet.programs import Program, Thing
from dure.domain.fleet.protocol.reports import Inventory
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId, TenantId

PROCESS_KIND = "process"
"""Clusters that run commands of their host."""
_IMAGES_ALONE = "images alone and the job names none"
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
    """Whether some cluster lacks something that it may have later."""


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
        # Of which kind a cluster is never changes, what it has does.
        lacking = any(why and _suits(program, offers[name]) for name, why in lacks.items())
        return Verdict(replace(workload, clusters=able), excludes=lacking)
    told = [why for why in lacks.values() if why]
    more = "" if len(told) <= _MOST_NAMED else f"; and {len(told) - _MOST_NAMED} clusters more"
    return Verdict(workload, "; ".join(told[:_MOST_NAMED]) + more, excludes=True)


def lack(tenant: TenantId, program: Program, name: str, offer: Offer) -> str:
    """What a cluster lacks for a program, in a sentence; empty: nothing."""
    if not _suits(program, offer):
        images = f"cluster {name} runs commands of its host, not images"
        return (
            images if program.image else f"cluster {name} runs images alone and the job names none"
        )
    if not program.things:
        return ""
    if offer.inventory is None:
        return f"cluster {name} has not yet said what it has"
    missing = [
        thing for thing in sorted(program.things) if (tenant, thing) not in offer.inventory.things
    ]
    return f"cluster {name} has no {_words(missing[0])} for tenant '{tenant}'" if missing else ""


def _suits(program: Program, offer: Offer) -> bool:
    """Whether a cluster is of the kind that runs such programs."""
    return bool(program.image) == (offer.kind != PROCESS_KIND)


def _words(thing: Thing) -> str:
    return f"{thing.kind.replace('-', ' ')} '{thing.name}'"
