"""The picture of a run: which tenant's kernels were on the compute units, squad by squad.

Blocks of the same moment are stacked, never on top of one another, so the coloured height is
what was in use and the rest was idle. A tenant with compute units of its own is drawn there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dure.domain.units import NS_PER_MS
from dure.sim.kernel.run import Outcome

WIDTH_PX = 1000.0
_HEIGHT_PX = 150.0
"""Height of the whole device."""
_TICKS = 10
_NICE_STEPS_MS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a kernel's stay: when, and at which height of the picture."""

    tenant: int
    start_ns: int
    end_ns: int
    low_sms: float
    sms: float


@dataclass(frozen=True, slots=True)
class Reign:
    """How long one squad was in force."""

    x: float
    width: float
    tenant: int
    """The one it was formed around, -1 where unknown."""
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything to draw for one mode, in pixels."""

    mode: str
    policy: str | None
    height: float
    shapes: tuple[tuple[int, str], ...]
    """Tenant and the SVG path of all its blocks."""
    reigns: tuple[Reign, ...]
    switches: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]
    squads: int
    busy_share: float
    """Of the compute units' time in the window."""


def draw(outcome: Outcome) -> Timeline:
    """The picture of one run's window."""
    start_ns, end_ns = outcome.setting.picture_ns
    sms = outcome.setting.accelerator.sms
    blocks = stack(outcome.spans, start_ns, end_ns, sms)
    scale = _Scale(start_ns, end_ns, sms)
    tenants = sorted({block.tenant for block in blocks})
    used = sum((block.end_ns - block.start_ns) * block.sms for block in blocks)
    edges = _reigns(outcome, scale)
    return Timeline(
        mode=outcome.mode.name,
        policy=outcome.mode.policy,
        height=_HEIGHT_PX,
        shapes=tuple(
            (tenant, scale.path(block for block in blocks if block.tenant == tenant))
            for tenant in tenants
        ),
        reigns=edges,
        switches=_switches(outcome, scale),
        ticks=scale.ticks(),
        squads=len(edges),
        busy_share=used / max(1, (end_ns - start_ns) * sms),
    )


def stack(spans: NDArray[np.void], start_ns: int, end_ns: int, sms: int) -> list[Block]:
    """Lay out spans so that none hides another and together they fit the device."""
    stays = [
        Block(
            int(span["tenant"]),
            max(int(span["start"]), start_ns),
            min(int(span["end"]), end_ns),
            float(span["low"]),
            float(span["sms"]),
        )
        for span in spans
    ]
    stays = sorted(
        (stay for stay in stays if stay.end_ns > stay.start_ns and stay.sms > 0),
        key=lambda stay: stay.start_ns,
    )
    times = sorted({stay.start_ns for stay in stays} | {stay.end_ns for stay in stays})
    blocks: list[Block] = []
    open_blocks: dict[int, Block] = {}
    active: dict[int, Block] = {}
    coming = 0
    for now, until in pairwise(times):
        active = {number: stay for number, stay in active.items() if stay.end_ns > now}
        while coming < len(stays) and stays[coming].start_ns <= now:
            active[coming] = stays[coming]
            coming += 1
        placed = _pile(active, sms)
        for number, (low, height) in placed.items():
            last = open_blocks.pop(number, None)
            if last and (last.low_sms, last.sms, last.end_ns) == (low, height, now):
                open_blocks[number] = replace(last, end_ns=until)
                continue
            if last:
                blocks.append(last)
            open_blocks[number] = Block(active[number].tenant, now, until, low, height)
        gone = [number for number in open_blocks if number not in placed]
        blocks.extend(open_blocks.pop(number) for number in gone)
    return [*blocks, *open_blocks.values()]


def _pile(active: dict[int, Block], sms: int) -> dict[int, tuple[float, float]]:
    """Low end and height of each: at its own place if that is free, else above the one before."""
    order = sorted(active, key=lambda number: (active[number].low_sms, active[number].tenant))
    total = sum(stay.sms for stay in active.values())
    fit = min(1.0, sms / total) if total else 1.0
    left, top, placed = total * fit, 0.0, {}
    for number in order:
        height = active[number].sms * fit
        low = min(max(top, active[number].low_sms), sms - left)
        placed[number] = (low, height)
        top, left = low + height, left - height
    return placed


@dataclass(frozen=True, slots=True)
class _Scale:
    """From time and compute units to pixels."""

    start_ns: int
    end_ns: int
    sms: int

    def x(self, at_ns: float) -> float:
        return WIDTH_PX * (at_ns - self.start_ns) / max(1, self.end_ns - self.start_ns)

    def path(self, blocks: Iterable[Block]) -> str:
        per_sm = _HEIGHT_PX / self.sms
        return "".join(
            f"M{self.x(block.start_ns):.2f} {_HEIGHT_PX - block.low_sms * per_sm:.1f}"
            f"V{_HEIGHT_PX - (block.low_sms + block.sms) * per_sm:.1f}"
            f"H{self.x(block.end_ns):.2f}V{_HEIGHT_PX - block.low_sms * per_sm:.1f}z"
            for block in blocks
        )

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Round times, about ten of them."""
        length_ms = (self.end_ns - self.start_ns) / NS_PER_MS
        step_ms = next(
            (step for step in _NICE_STEPS_MS if length_ms / step <= _TICKS), _NICE_STEPS_MS[-1]
        )
        first = -(-self.start_ns // int(step_ms * NS_PER_MS))
        found = []
        for number in range(first, first + _TICKS + 2):
            at_ns = number * int(step_ms * NS_PER_MS)
            if at_ns <= self.end_ns:
                found.append((round(self.x(at_ns), 2), f"{at_ns / NS_PER_MS:,.6g}"))
        return tuple(found)


def _reigns(outcome: Outcome, scale: _Scale) -> tuple[Reign, ...]:
    """The squads that were in force in the window, from the edges between them."""
    edges = outcome.edges[np.argsort(outcome.edges["at"], kind="stable")]
    first = max(0, int(np.searchsorted(edges["at"], scale.start_ns, side="right")) - 1)
    last = int(np.searchsorted(edges["at"], scale.end_ns, side="left"))
    found = []
    for number in range(first, last):
        begins = max(int(edges[number]["at"]), scale.start_ns)
        ends = int(edges[number + 1]["at"]) if number + 1 < len(edges) else outcome.end_ns
        ends = min(ends, scale.end_ns)
        if ends <= begins:
            continue
        tenant, title = _squad(outcome, int(edges[number]["at"]), int(edges[number]["squad"]))
        x = scale.x(begins)
        found.append(Reign(round(x, 2), round(scale.x(ends) - x, 2), tenant, title))
    return tuple(found)


def _squad(outcome: Outcome, at_ns: int, number: int) -> tuple[int, str]:
    """Which tenant a squad was formed around, and the squad in words."""
    plan = None
    for published_ns, candidate in outcome.plans:
        if published_ns > at_ns:
            break
        plan = candidate
    if plan is None or number >= len(plan.squads):
        return -1, f"squad {number + 1}"
    lead = plan.squads[number].tenants[0]
    names = [load.tenant.id for load in outcome.setting.loads]
    title = f"{plan.policy}: squad {number + 1} of {len(plan.squads)}, formed around {lead}"
    return names.index(lead), title


def _switches(outcome: Outcome, scale: _Scale) -> tuple[tuple[float, str], ...]:
    before = outcome.mode.policy or ""
    found = []
    for switch in outcome.mode.switches:
        if scale.start_ns <= switch.at_ns <= scale.end_ns:
            found.append((round(scale.x(switch.at_ns), 2), f"{before} → {switch.policy}"))
        before = switch.policy
    return tuple(found)


def pictured(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The runs to draw: one baseline to compare with, then every mode of Dure."""
    managed = [outcome for outcome in outcomes if outcome.mode.policy is not None]
    plain = [outcome for outcome in outcomes if outcome.mode.policy is None]
    if not managed:
        return plain
    chosen = [outcome for outcome in plain if outcome.mode.name == "mps"] or plain
    return [*chosen[:1], *managed]
