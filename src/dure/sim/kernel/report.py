"""A comparison as one self-contained HTML file: figures, charts, and the timeline of squads."""

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from dure.domain.units import NS_PER_MS, format_bytes, format_duration
from dure.sim.kernel.charts import (
    BAR_PX,
    Chart,
    completion_chart,
    latency_chart,
    throughput_chart,
)
from dure.sim.kernel.compare import Comparison
from dure.sim.kernel.sheets import LEGEND, describe_tenant, device, overview, tenant
from dure.sim.kernel.state import SPAN_ROOM
from dure.sim.kernel.timeline import WIDTH_PX, draw, pictured
from dure.sim.kernel.verdicts import headline

_TEMPLATE = "report.html.j2"
_NAMED_HUES = 8
"""Colours in the template's palette; further tenants get evenly turned hues."""
_GOLDEN_ANGLE = 137.5


@dataclass(frozen=True, slots=True)
class _TenantView:
    """What the report says of a tenant."""

    name: str
    words: str
    program: str
    charts: tuple[Chart, Chart]


def html_report(comparison: Comparison) -> str:
    """The whole file."""
    environment = Environment(
        loader=PackageLoader("dure.sim.kernel", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scenario = comparison.scenario
    setting = scenario.setting
    start_ns, end_ns = setting.picture_ns
    outcomes = [run.outcome for run in comparison.runs]
    gpu = setting.accelerator
    loads = setting.loads
    return environment.get_template(_TEMPLATE).render(
        scenario=scenario,
        file=scenario.file.name,
        gpu=f"{gpu.name}, {gpu.sms} SMs, {format_bytes(gpu.memory_bytes)}",
        duration=format_duration(setting.duration_ns),
        drain=format_duration(setting.drain_ns) if setting.drain_ns else "",
        notes=comparison.notes,
        legend=LEGEND,
        overview=overview(comparison),
        details=[device(comparison), *(tenant(comparison, i) for i in range(len(loads)))],
        tenants=[_tenant_view(comparison, index) for index in range(len(loads))],
        extra_hues=[
            (index, round(index * _GOLDEN_ANGLE % 360)) for index in range(_NAMED_HUES, len(loads))
        ],
        timelines=[draw(outcome) for outcome in pictured(outcomes)],
        window=f"{start_ns / NS_PER_MS:,.6g} to {end_ns / NS_PER_MS:,.6g} ms",
        truncated=any(len(outcome.spans) >= SPAN_ROOM for outcome in outcomes),
        sms=gpu.sms,
        width=WIDTH_PX,
        bar_width=BAR_PX,
    )


def _tenant_view(comparison: Comparison, index: int) -> _TenantView:
    load = comparison.scenario.setting.loads[index]
    launches = len(load.program.sequence)
    program = (
        f"{load.program.name}, {launches:,} kernel{'s' if launches > 1 else ''} and "
        f"{format_duration(load.program.gpu_ns)} an iteration"
        f"{', as one graph' if load.program.graph else ''}"
    )
    is_job = headline(load).field == "mean_jct_s"
    first = completion_chart if is_job else latency_chart
    charts = (first(comparison, index), throughput_chart(comparison, index))
    return _TenantView(load.tenant.id, describe_tenant(load), program, charts)
