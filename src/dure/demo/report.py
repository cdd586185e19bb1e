"""The story as one self-contained HTML file: what happened, what was measured, the tables."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dure import __version__
from dure.demo.acts import PERCENTILE, TARGET_MS
from dure.demo.baselines import Sheet
from dure.demo.charts import Line, Mark, Picture
from dure.demo.stage import TOWNS
from dure.demo.story import Beat, Level, Sample

_TEMPLATE = "report.html.j2"
_MARKED = {
    "load of chat": "load rises",
    "the promise": "risk",
    "the advisor": "policy switched",
    "price of": "price spikes",
    "train moves": "train moves",
}
"""Lines of the story that charts mark, by how they begin."""


@dataclass(frozen=True, slots=True)
class Told:
    """All that the report is made of."""

    beats: Sequence[Beat]
    samples: Sequence[Sample]
    sheets: Sequence[Sheet]
    seed: int


def html_report(told: Told) -> str:
    """The whole file."""
    environment = Environment(
        loader=PackageLoader("dure.demo", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pictures = [_latency(told), _load(told), _prices(told)]
    return environment.get_template(_TEMPLATE).render(
        beats=told.beats,
        demo=Level.DEMO,
        sheets=told.sheets,
        pictures=[(each, Markup(each.svg())) for each in pictures],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        host=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        seed=told.seed,
    )


def marks(beats: Sequence[Beat]) -> tuple[Mark, ...]:
    """Moments that charts show."""
    return tuple(
        Mark(beat.at_s, name)
        for beat in beats
        for begin, name in _MARKED.items()
        if beat.what.startswith(begin)
    )


def _latency(told: Told) -> Picture:
    samples = told.samples
    measured = tuple((each.at_s, each.latency_ms) for each in samples)
    worst = tuple((each.at_s, each.worst_ms) for each in samples)
    ends = [samples[0].at_s, samples[-1].at_s] if samples else [0.0, 1.0]
    promise = tuple((at_s, float(TARGET_MS)) for at_s in ends)
    return Picture(
        "Latency of chat",
        "ms",
        (
            Line(f"{PERCENTILE:g}th percentile", 0, measured),
            Line("99th percentile of the last seconds", 1, worst),
            Line(f"promised {PERCENTILE:g}th percentile", 4, promise, dashed=True),
        ),
        marks(told.beats),
    )


def _load(told: Told) -> Picture:
    asked = tuple((each.at_s, each.asked_per_s) for each in told.samples)
    return Picture("Load of chat", "requests a second", (Line("asked", 2, asked),))


def _prices(told: Told) -> Picture:
    lines = []
    for number, town in enumerate(TOWNS):
        points = tuple((each.at_s, each.prices[town.name]) for each in told.samples)
        lines.append(Line(town.name, number, points, stepped=True))
    paid = tuple((each.at_s, each.prices.get(each.train_at)) for each in told.samples)
    lines.append(Line("where train is", 3, paid, stepped=True, dashed=True))
    return Picture("Price of a device-hour", "USD", tuple(lines), marks(told.beats)[-2:])
