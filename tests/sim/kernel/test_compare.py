from pathlib import Path

from dure.sim.kernel.compare import compare
from dure.sim.kernel.scenario import read_scenario
from tests.sim.kernel.scenarios import loop, scenario, service, written


def test_progress_names_every_part_and_only_grows(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    described = read_scenario(written(tmp_path, scenario()))
    compare(described, progress=lambda what, share: told.append((what, share)))
    names = list(dict.fromkeys(what for what, _ in told))
    assert names == ["web alone", "train alone", "mps", "slo", "done"]
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_only_a_queue_that_outgrows_the_run_counts_as_diverging(tmp_path: Path) -> None:
    busy = service(name="busy", arrivals={"poisson": {"load": 1.6}})
    calm = service(name="calm", arrivals={"poisson": {"load": 0.1}})
    fields = scenario(duration="1s", modes=["mps"], tenants=[busy, calm, loop(weight=2)])
    found = compare(read_scenario(written(tmp_path, fields)))
    assert found.runs[0].diverging[0] is True
    assert found.runs[0].diverging[2] is False


def test_a_target_missed_even_alone_is_noted(tmp_path: Path) -> None:
    crowded = service(arrivals={"poisson": {"load": 0.95}}, slo={"latency": "p99=500us"})
    found = compare(read_scenario(written(tmp_path, scenario(modes=["mps"], tenants=[crowded]))))
    assert "misses its target of 500 µs even alone" in found.notes[0]
