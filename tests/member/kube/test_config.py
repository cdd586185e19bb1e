"""The file of `dure member --config`: what it sets, and what is wrong with it."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.ids import ClusterId
from dure.kit.files import FileProblem
from dure.member.kube.config import read_settings
from dure.member.kube.settings import KubeSettings

DEFAULTS = KubeSettings(ClusterId("here"), "dure-system")


def read(folder: Path, text: str) -> KubeSettings:
    file = folder / "member.yaml"
    file.write_text(text, encoding="utf-8")
    return read_settings(file, DEFAULTS)


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        """
namespaces: {acme: research}
bind_within_s: 30
tolerations:
- {key: pool, operator: Exists}
partitioner: mig-manager
""",
    )
    assert made.namespaces == {"acme": "research"}
    assert (made.bind_within_s, made.partitioner) == (30.0, "mig-manager")
    assert made.tolerations == ({"key": "pool", "operator": "Exists"},)
    assert (made.cluster, made.namespace) == ("here", "dure-system")
    assert made.start_within_s == DEFAULTS.start_within_s


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bind_within: 3", "there is no field 'bind_within'"),
        ("bind_within_s: soon", "bind_within_s is 'soon', not a number of seconds"),
        ("start_within_s: -1", "start_within_s is -1"),
        ("concurrency: 0", "concurrency is 0, not a whole number from 1"),
        ("partitioner: magic", "not one of mig-manager, device-plugin, dra"),
        ("partitioner: [mig-manager]", "not one of mig-manager"),
        ("namespaces: {acme: Not_A_Name}", "no name in Kubernetes"),
        ("tolerations: {key: pool}", "tolerations is no list"),
        ("tolerations: [{keys: pool}]", "a toleration has"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match="line 2") as told:
        read(tmp_path, f"# settings\n{text}\n")
    assert words in str(told.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no such file"):
        read_settings(tmp_path / "none.yaml", DEFAULTS)
