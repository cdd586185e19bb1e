"""Draw the pictures of docs/guide/policies.md: who is on the compute units, policy by policy.

python tools/draw_policies.py           writes docs/guide/pictures/policy-NAME.svg

Each is a window of one run of examples/scenarios/policies.yaml in virtual time, so that it can be
drawn again; the coloured height is what the tenants' kernels hold of the device, white is idle.
"""

import sys
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dure.domain.units import NS_PER_MS
from dure.kit.files import write_text
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.results import summarise
from dure.sim.kernel.run import Outcome, run
from dure.sim.kernel.scenario import Scenario, read_scenario
from dure.sim.kernel.timeline import stack

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = ROOT / "examples" / "scenarios" / "policies.yaml"
FOLDER = ROOT / "docs" / "guide" / "pictures"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 120, 20, 30, 24
COLOURS = ("#d1495b", "#30638e", "#edae49", "#66a182")
"""Told apart by most colour-blind people, on white and on black."""
INK = "#808080"
TICK_MS = 10
COLUMNS = 360
"""Of the picture: each shows what was held on average in a sixth of a millisecond."""


def main() -> None:
    """Run every mode once and draw it."""
    scenario = read_scenario(SCENARIO)
    for mode in scenario.modes:
        outcome = run(mode, scenario.setting)
        path = FOLDER / f"policy-{mode.name}.svg"
        write_text(path, picture(scenario, mode, outcome))
        sys.stdout.write(f"{path.relative_to(ROOT)} {path.stat().st_size:,} bytes\n")


def picture(scenario: Scenario, mode: Mode, outcome: Outcome) -> str:
    """One run's window as SVG."""
    start_ns, end_ns = scenario.setting.picture_ns
    shares = columns(outcome, len(scenario.setting.loads))
    below = np.zeros(COLUMNS, dtype=int)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * LEFT} '
        f'{TOP + HEIGHT + BOTTOM}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(mode.name)}: who is on the compute units</title>",
        *_legend(scenario, mode, outcome),
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
        f'stroke="{INK}"/>',
    ]
    for index, share in enumerate(shares):
        tall = np.rint(share * HEIGHT).astype(int)
        parts.append(f'<path fill="{COLOURS[index]}" d="{_path(below, tall)}"/>')
        below += tall
    for at_ms in range(0, round((end_ns - start_ns) / NS_PER_MS) + 1, TICK_MS):
        x = LEFT + at_ms * NS_PER_MS * WIDTH / (end_ns - start_ns)
        parts.append(
            f'<text x="{x:.0f}" y="{TOP + HEIGHT + 14}" fill="{INK}" text-anchor="middle">'
            f"{at_ms} ms</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def columns(outcome: Outcome, tenants: int) -> NDArray[np.float64]:
    """By tenant and column of the picture: the share of the device that its kernels held."""
    start_ns, end_ns = outcome.setting.picture_ns
    sms = outcome.setting.accelerator.sms
    width_ns = (end_ns - start_ns) / COLUMNS
    edges = start_ns + width_ns * np.arange(COLUMNS + 1)
    found = np.zeros((tenants, COLUMNS))
    for block in stack(outcome.spans, start_ns, end_ns, sms):
        first = int((block.start_ns - start_ns) // width_ns)
        last = min(COLUMNS - 1, int((block.end_ns - start_ns) // width_ns))
        for column in range(first, last + 1):
            held_ns = min(block.end_ns, edges[column + 1]) - max(block.start_ns, edges[column])
            found[block.tenant, column] += max(0.0, held_ns) / width_ns * block.sms / sms
    return found


def _path(below: NDArray[np.int64], tall: NDArray[np.int64]) -> str:
    """Columns of the same height side by side are one."""
    parts, first = [], 0
    for column in range(1, COLUMNS + 1):
        same = column < COLUMNS and (below[column], tall[column]) == (below[first], tall[first])
        if same:
            continue
        if tall[first]:
            x, floor = LEFT + first * WIDTH // COLUMNS, TOP + HEIGHT - below[first]
            width = (column - first) * WIDTH // COLUMNS
            parts.append(f"M{x} {floor}v-{tall[first]}h{width}v{tall[first]}z")
        first = column
    return "".join(parts)


def _legend(scenario: Scenario, mode: Mode, outcome: Outcome) -> list[str]:
    result = summarise(outcome)
    parts, x = [f'<text x="{LEFT}" y="18" fill="{INK}" font-weight="bold">{mode.name}</text>'], 90
    for index, load in enumerate(scenario.setting.loads):
        figures = result.tenants[index]
        said = (
            f"{load.tenant.id}: p99 {figures.p99_ms:.1f} ms"
            if load.tenant.slo.latency
            else f"{load.tenant.id}: {figures.throughput_per_s:.1f} steps/s"
        )
        parts.append(f'<rect x="{x}" y="9" width="10" height="10" fill="{COLOURS[index]}"/>')
        parts.append(f'<text x="{x + 15}" y="18" fill="{INK}">{escape(said)}</text>')
        x += 30 + 6 * len(said)
    return parts


if __name__ == "__main__":
    main()
