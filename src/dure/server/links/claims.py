"""What a member may claim: of its own cluster alone, and no more than any cluster could have.

Its token lets it speak for its cluster, and it may be broken, or not its owner's any more: what it
says of others is left out, so is what cannot be, and everybody is told so.
"""

from collections.abc import Iterable
from dataclasses import replace

from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.protocol.reports import AttemptStatus, Inventory, Report
from dure.kit.words import printable

MOST_GROUPS = 256
"""Of one cluster: kinds of nodes, each weighed for each job."""
MOST_WARNINGS = 20
"""Of one report."""
_MOST_WORDS = 1000
"""Characters of a warning or a reason."""
_MOST_CPU_MILLI = 10**9
_MOST_BYTES = 2**60
_MOST_DEVICES = 10**9
_MOST_FIGURE = 1e9
"""Of watts and seconds."""


def credible(report: Report, cluster: str) -> Report:
    """The report without what its member cannot know or cannot have; warnings say what that is."""
    objections: list[str] = []
    sites = tuple(each for each in report.sites if _stands(_about_site(each, cluster), objections))
    inventory = None if report.inventory is None else _inventory(report.inventory, objections)
    attempts = tuple(_tidied(each) for each in report.attempts)
    return replace(
        report,
        attempts=attempts,
        sites=sites,
        inventory=inventory,
        warnings=tuple(_few([*objections, *report.warnings])),
    )


def _tidied(status: AttemptStatus) -> AttemptStatus:
    """With reasons that can be shown."""
    why, sizing = in_one_line(status.why), status.sizing
    if sizing is not None and sizing.why != (words := in_one_line(sizing.why)):
        sizing = replace(sizing, why=words)
    if (why, sizing) == (status.why, status.sizing):
        return status
    return replace(status, why=why, sizing=sizing)


def _inventory(said: Inventory, objections: list[str]) -> Inventory:
    groups: dict[str, NodeGroup] = {}
    for group in said.groups:
        why = _about_group(group)
        if group.name in groups:
            why = f"group {group.name} is there twice"
        elif len(groups) >= MOST_GROUPS:
            why = f"group {group.name} is one more than {MOST_GROUPS}"
        if _stands(why, objections):
            groups[group.name] = group
    return replace(said, groups=tuple(groups.values()))


def _stands(why_not: str, objections: list[str]) -> bool:
    if why_not:
        objections.append(f"what the member says is left out: {why_not}")
    return not why_not


def _about_group(group: NodeGroup) -> str:
    """What speaks against a group; empty: nothing."""
    if group.profile.lower() not in CATALOGUE:
        return f"group {group.name} is of {group.profile}, which is no accelerator known here"
    absurd = (
        max(group.cpu_milli, group.link_domain, group.numa_domains) > _MOST_CPU_MILLI
        or group.host_memory_bytes > _MOST_BYTES
        or max(group.base_power_w, group.boot_s) > _MOST_FIGURE
    )
    return f"group {group.name} has more than any node could" if absurd else ""


def _about_site(summary: SiteSummary, cluster: str) -> str:
    """What speaks against a summary; empty: nothing."""
    if summary.site.cluster != cluster:
        return f"{summary.site} is of another cluster"
    counts = (
        summary.nodes,
        summary.nodes_in_use,
        summary.devices,
        summary.free_devices,
        summary.free_on_used_nodes,
        summary.largest_node_free,
        summary.waiting_devices,
        *summary.nodes_by_free,
        *(count for _, count in summary.free_slices),
    )
    absurd = (
        max(counts) > _MOST_DEVICES
        or summary.free_compute_milli > 1000 * _MOST_DEVICES
        or (summary.free_bandwidth_milli or 0) > 1000 * _MOST_DEVICES
        or summary.free_cpu_milli > _MOST_CPU_MILLI * _MOST_DEVICES
        or max(summary.free_memory_bytes, summary.free_host_memory_bytes) > _MOST_BYTES
        or summary.fragmentation > _MOST_FIGURE
    )
    return f"{summary.site} has more than any group of nodes could" if absurd else ""


def in_one_line(words: str) -> str:
    """What a program may have said, for lists and terminals: one line, nothing that steers them."""
    return printable(" ".join(words.split()))[:_MOST_WORDS]


def _few(warnings: Iterable[str]) -> Iterable[str]:
    words = [in_one_line(each) for each in warnings]
    yield from words[:MOST_WARNINGS]
    if len(words) > MOST_WARNINGS:
        yield f"and {len(words) - MOST_WARNINGS} warnings more in one report"
