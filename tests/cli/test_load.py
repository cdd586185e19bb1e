"""`dure load`, and the sizes of services in `dure jobs` and `dure explain`, with a real centre."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.rest.centre import Centre
from tests.server.rest.test_loads import placed

Dure = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("cli")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:
        yield running


@pytest.fixture(autouse=True)
def as_acme(centre: Centre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURE_SERVER", centre.url)
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["acme"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_what_is_said_reaches_the_cluster_and_who_was_told_is_printed(
    centre: Centre, dure: Dure
) -> None:
    job = placed(centre, ("seoul", 2))
    code, out, _ = dure("load", job, "--queue", "12", "--latency", "20ms", "--source", "lb")
    assert (code, out.strip()) == (0, "told seoul")
    ((_, signal),) = centre.signals.heard
    assert (signal.queue_length, signal.latency_ms, signal.source) == (12.0, 20.0, "lb")


def test_bad_figures_are_refused_with_what_to_do(centre: Centre, dure: Dure) -> None:
    job = placed(centre, ("seoul", 1))
    for words, told in (
        ((), "give --rate, --queue or --latency"),
        (("--queue", "-3"), "queue"),
        (("--queue", "nan"), "queue"),
        (("--latency", "fast"), "latency"),
        (("--rate", "1000000"), "check the unit"),
        (("--queue", "1", "--valid-for", "2h"), "validFor"),
    ):
        code, _, err = dure("load", job, *words)
        assert code != 0, words
        assert told in err, (words, err)
    assert not centre.signals.heard


def test_sizes_are_listed_and_explained(centre: Centre, dure: Dure) -> None:
    job = placed(centre, ("seoul", 3))
    _, listed, _ = dure("jobs", "--limit", "1")
    assert "3/3" in listed
    _, explained, _ = dure("explain", job)
    assert "size: 3 of 3 take requests" in explained
    assert "as the centre ordered it" in explained
