"""The shards that are no scenario of rows: each measures one thing, keeps it, and is judged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dure.bench.kernel import equal, finite_jobs, kills, overhead, sets, switching
from dure.bench.kernel.bed import Surroundings
from dure.bench.kernel.shard import Settings, Tell
from dure.bench.kernel.store import Store
from dure.sim.benches.report import Grid, Verdict


@dataclass(frozen=True, slots=True)
class Special:
    """One of them."""

    title: str
    run: Callable[[Store, Settings, Surroundings, Tell], dict[str, Any]]
    """Measures and gives what is kept."""
    verdicts: Callable[[dict[str, Any]], list[Verdict]]
    grids: Callable[[dict[str, Any]], list[Grid]]
    in_parts: bool
    """Keeps its parts itself and runs those that are missing."""


SPECIALS = {
    name: Special(title, module.run, module.verdicts, module.grids, in_parts)
    for name, title, module, in_parts in (
        ("jct", "four finite trainings", finite_jobs, True),
        ("sets", "disjoint sets of compute units", sets, True),
        ("overhead", "one tenant alone", overhead, False),
        ("equal", "results under Dure", equal, True),
        ("switch", "switches of policy", switching, False),
        ("kills", "tenants killed in mid-kernel", kills, True),
    )
}
