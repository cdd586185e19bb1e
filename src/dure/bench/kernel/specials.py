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
    """Measures what is missing, keeps each part as soon as it is there, and gives all of them."""
    verdicts: Callable[[dict[str, Any]], list[Verdict]]
    grids: Callable[[dict[str, Any]], list[Grid]]
    complete: Callable[[dict[str, Any], Settings], bool]
    """Whether nothing is missing of what was found."""


SPECIALS = {
    name: Special(title, module.run, module.verdicts, module.grids, module.complete)
    for name, title, module in (
        ("jct", "four finite trainings", finite_jobs),
        ("sets", "disjoint sets of compute units", sets),
        ("overhead", "one tenant alone", overhead),
        ("equal", "results under Dure", equal),
        ("switch", "switches of policy", switching),
        ("kills", "tenants killed in mid-kernel", kills),
    )
}
