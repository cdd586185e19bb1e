"""Hours in which nothing moves by itself: pins and windows become what the machine must leave."""

from dataclasses import dataclass

from dure.domain.fleet.events import MovesHeld
from dure.domain.fleet.windows import any_open
from dure.domain.ids import ClusterId, WorkloadId
from dure.server.planner.centre import Centre


@dataclass
class Holding:
    """Looks at the time now and then."""

    centre: Centre

    def look(self) -> None:
        """Tell the machine what is not to be moved, where that has changed."""
        centre, state = self.centre, self.centre.machine.state
        now_ns, declared = centre.now_ns(), centre.book.declared
        held = MovesHeld(
            state.held.now_ns,
            frozenset(
                WorkloadId(job) for job, bound in centre.book.bound.items() if bound.holds(now_ns)
            ),
            frozenset(
                tenant
                for tenant, windows in declared.tenant_windows.items()
                if not any_open(windows, now_ns)
            ),
            frozenset(
                ClusterId(name)
                for name, windows in declared.cluster_windows.items()
                if not any_open(windows, now_ns)
            ),
        )
        if held != state.held:
            centre.feed(MovesHeld(now_ns, held.workloads, held.tenants, held.clusters))
