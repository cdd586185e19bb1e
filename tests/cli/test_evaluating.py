"""`dure explain --file` against a real centre: what would become of jobs that are not submitted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.rest.centre import Centre
from tests.server.rest.fleets import join_clusters

Dure = Callable[..., tuple[int, str, str]]
JOB = (
    "name: train\nkind: training\nimage: trainer:1\nwork: 2h\n"
    "resources: {devices: 8, whole: true}\n"
)


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("cli")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:
        join_clusters(running, {"osaka": 1.0, "oregon": 3.0})
        yield running


@pytest.fixture(autouse=True)
def as_acme(centre: Centre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURE_SERVER", centre.url)
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["acme"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


def test_clusters_are_ranked_in_a_table(dure: Dure, file: str) -> None:
    code, out, _ = dure("explain", "--file", file)
    assert code == 0
    assert "train (training) would go to osaka" in out
    assert out.index("osaka") < out.index("oregon")


def test_programs_get_every_term(dure: Dure, file: str) -> None:
    code, out, _ = dure("explain", "--file", file, "--json", "--set", "gang=8")
    assert code == 0
    [job] = json.loads(out)["jobs"]
    assert job["cluster"] is None, "no cluster has eight nodes"
    assert {each["cluster"] for each in job["refusals"]} >= {"osaka", "oregon"}
    assert all(each["why"] for each in job["refusals"])


def test_a_job_or_a_file_never_both(dure: Dure, file: str) -> None:
    for words in ((), ("01j00000000000000000000000", "--file", file)):
        code, _, err = dure("explain", *words)
        assert code == 2
        assert "name a job, or a file" in err
