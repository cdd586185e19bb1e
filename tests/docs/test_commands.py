"""Every command in the documentation exists, with every option and argument it is written with."""

import pytest

from tests.docs.commands import Written, complaint, pages, written

WRITTEN = sorted({str(each): each for each in written()}.items())


@pytest.mark.parametrize(
    "command", [each for _, each in WRITTEN], ids=[name for name, _ in WRITTEN]
)
def test_every_command_is_one_that_the_command_line_takes(command: Written) -> None:
    assert complaint(command) == "", str(command)


def test_the_commands_of_every_part_are_found() -> None:
    found = {each.page for _, each in WRITTEN}
    assert "README.md" in found
    assert len(WRITTEN) > 200
    assert len(found) > len(pages()) / 3


@pytest.mark.parametrize(
    ("words", "story"),
    [
        ("nothing", "no command 'nothing'"),
        ("fleet nothing", "no command 'nothing'"),
        ("sim kernel --nothing x.yaml", "No such option"),
        ("sim kernel x.yaml y.yaml", "nothing takes"),
        ("policy set slo --dry", "No such option"),
        ("record x.jsonl --for", "requires an argument"),
        ("run --tenants web -- python x.py", "No such option"),
        ("sim kernel x.yaml --modes mps,slo", ""),
        ("run --tenant web -- python x.py --their-own", ""),
        ("clusters", ""),
    ],
)
def test_what_does_not_exist_is_found(words: str, story: str) -> None:
    said = complaint(Written("here", tuple(words.split())))
    assert (story in said) if story else said == ""


def test_a_sentence_may_name_an_option_without_its_value_but_none_that_is_not_there() -> None:
    assert complaint(Written("here", ("member", "--config"), whole=False)) == ""
    assert complaint(Written("here", ("member", "--nothing"), whole=False)) != ""
