"""Short scenarios for tests: explicit kernels, a fraction of a second of virtual time."""

from pathlib import Path

import yaml

Fields = dict[str, object]


def service(**changes: object) -> Fields:
    """A tenant with random requests of 0.4 ms and a promise."""
    fields: Fields = {
        "name": "web",
        "class": "guaranteed",
        "graph": True,
        "kernels": [{"blocks": 264, "duration": "40us", "repeat": 10}],
        "arrivals": {"poisson": {"rate": 400}},
        "slo": {"latency": "p99=8ms"},
    }
    return fields | changes


def loop(**changes: object) -> Fields:
    """A tenant that runs one iteration of 2 ms after the other."""
    fields: Fields = {
        "name": "train",
        "class": "best-effort",
        "kernels": [{"blocks": 2000, "duration": "500us", "bandwidth": 0.6, "repeat": 4}],
        "arrivals": "closed",
    }
    return fields | changes


def scenario(**changes: object) -> Fields:
    """Both of them on an H200 for 300 ms."""
    fields: Fields = {
        "gpu": "h200",
        "duration": "300ms",
        "modes": ["mps", "slo"],
        "tenants": [service(), loop()],
    }
    return fields | changes


def written(folder: Path, fields: Fields) -> Path:
    """A scenario file with these fields."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path
