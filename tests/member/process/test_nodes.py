"""The file of nodes: what it may say, and what is said about its mistakes."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.slices import ShareMode
from dure.domain.units import GIB
from tests.member.process.beds import nodes_in


def test_nodes_become_groups_in_the_order_of_the_file(tmp_path: Path) -> None:
    nodes = nodes_in(
        tmp_path,
        """
nodes:
  - {name: big, profile: h100, devices: 2, mode: mps, cpu: 4, memory: 8GiB}
  - {name: small, profile: a100, count: 2}
  - {name: other, profile: h100, devices: 2, mode: mps, cpu: 4, memory: 8GiB, cordoned: true}
""",
    )
    assert [node.name for node in nodes.nodes] == ["big", "other", "small-0", "small-1"]
    first, second = nodes.groups
    assert (first.name, first.count, first.devices, first.mode) == (
        "h100-mps",
        2,
        2,
        ShareMode.MPS,
    )
    assert (first.cpu_milli, first.host_memory_bytes) == (4000, 8 * GIB)
    assert (second.name, second.count) == ("a100-whole", 2)
    facts = nodes.inventory(frozenset()).nodes
    assert [fact.up for fact in facts] == [True, False, True, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: []", "no nodes"),
        ("nodes:\n  - {name: a, profile: nothing}", "nothing"),
        ("nodes:\n  - {name: a, profile: a100, colour: red}", "colour"),
        ("nodes:\n  - {name: a, profile: a100, mode: x}", "x"),
        ("nodes:\n  - {name: a, profile: a100, memory: lots}", "lots"),
        ("nodes:\n  - {name: a, profile: a100, devices: 2, gpus: ['0']}", "names 1 GPUs"),
        ("nodes:\n  - {name: a, profile: a100}\n  - {name: a, profile: a100}", "one name"),
        (
            "nodes:\n  - {name: a, group: g, profile: a100}\n  - {group: g, profile: h100}",
            "not equal",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        nodes_in(tmp_path, text)
    assert words in str(caught.value)
    assert "line" in str(caught.value)
