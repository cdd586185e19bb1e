"""The typed client of the agent, and what programs may report about themselves.

`report(latency_s=…)`, `report_progress(done, total)`, `report_load(requests_per_s=…)` of a service
and `report_feedback(good=…)` are all that a program needs; a job of the fleet that can be moved
also asks `checkpoint_requested()` and says `checkpoint_done(number)`. Tools import
`dure.client.api` and `dure.client.schema`.
"""

from dure.client.report import (
    checkpoint_done,
    checkpoint_requested,
    report,
    report_feedback,
    report_load,
    report_progress,
)

__all__ = [
    "checkpoint_done",
    "checkpoint_requested",
    "report",
    "report_feedback",
    "report_load",
    "report_progress",
]
