"""The typed client of the agent, and what programs may report about themselves.

`report(latency_s=…)` and `report_progress(done, total)` are all a program needs; tools import
`dure.client.api` and `dure.client.schema`.
"""

from dure.client.report import report, report_progress

__all__ = ["report", "report_progress"]
