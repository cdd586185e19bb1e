"""The typed client of the agent, and what programs may report about themselves.

`report(latency_s=…)`, `report_progress(done, total)` and `report_feedback(good=…)` are all that a
program needs; tools import `dure.client.api` and `dure.client.schema`.
"""

from dure.client.report import report, report_feedback, report_progress

__all__ = ["report", "report_feedback", "report_progress"]
