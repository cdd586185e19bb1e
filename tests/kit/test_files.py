import math
import os
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dure.kit.files import FileProblem, parse_yaml, read_text, read_yaml, write_text

NAME = Path("scenario.yaml")

SCENARIO = """\
gpu: h200
tenants:
  - name: web
    weight: 2
  - name: train
    slo:
      p99_ms: 20
"""


def problem_of(text: str) -> FileProblem:
    with pytest.raises(FileProblem) as caught:
        parse_yaml(text, NAME)
    sentence = str(caught.value)
    assert sentence.startswith("scenario.yaml")
    assert "\n" not in sentence
    return caught.value


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ((), 1),
        (("gpu",), 1),
        (("tenants",), 2),
        (("tenants", 0), 3),
        (("tenants", 0, "weight"), 4),
        (("tenants", 1, "slo", "p99_ms"), 7),
    ],
)
def test_every_field_knows_its_line(where: tuple[str | int, ...], line: int) -> None:
    assert parse_yaml(SCENARIO, NAME).line_of(where) == line


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (("tenants", 1, "slo", "p95_ms"), 6),
        (("tenants", 9), 2),
        (("gpu", "sms"), 1),
        (("tenants", "name"), 2),
    ],
)
def test_a_missing_field_has_the_line_of_what_encloses_it(
    where: tuple[str | int, ...], line: int
) -> None:
    assert parse_yaml(SCENARIO, NAME).line_of(where) == line


def test_values_come_as_plain_python() -> None:
    assert parse_yaml(SCENARIO, NAME).data == {
        "gpu": "h200",
        "tenants": [{"name": "web", "weight": 2}, {"name": "train", "slo": {"p99_ms": 20}}],
    }


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("true", True),
        ("1e6", 1e6),
        ("1.5e-3", 0.0015),
        ("-2.5", -2.5),
        (".5", 0.5),
        ("010", 10),
        ("-7", -7),
        ("1_000_000", 1_000_000),
        ("0x1F", 31),
        ("20ms", "20ms"),
        ("null", None),
        ("", None),
        ("-.inf", -math.inf),
    ],
)
def test_scalars_follow_yaml_1_2(scalar: str, value: object) -> None:
    assert parse_yaml(f"field: {scalar}\n", NAME).data == {"field": value}


def test_nan_is_read_as_a_number_for_the_caller_to_refuse() -> None:
    value = parse_yaml("field: .nan\n", NAME).data["field"]
    assert isinstance(value, float)
    assert math.isnan(value)


@given(st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none())
def test_what_yaml_writes_is_read_back_the_same(value: object) -> None:
    assert parse_yaml(yaml.safe_dump({"field": value}), NAME).data == {"field": value}


def test_merged_fields_are_read_and_keep_their_own_line() -> None:
    text = "base: &base\n  weight: 1\n  sms: 8\nweb:\n  <<: *base\n  weight: 3\n"
    parsed = parse_yaml(text, NAME)
    assert parsed.data["web"] == {"weight": 3, "sms": 8}
    assert parsed.line_of(("web", "weight")) == 6


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gpu: h200\ntenants: [web\n", 3),
        ("gpu: h200\n\tname: web\n", 2),
        ("gpu: 'h200\n", 2),
        ("a: 1\nb: *nowhere\n", 2),
        ("a: 1\nb: !!python/object:os.system x\n", 2),
        ("a: 1\n---\nb: 2\n", 2),
    ],
)
def test_a_syntax_error_names_the_line(text: str, line: int) -> None:
    problem = problem_of(text)
    assert problem.line == line
    assert f"line {line}: this is not valid YAML" in str(problem)


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3\n", "x: {a: 1,\n    a: 1}\n", "x: {a: 1, a: 1}\n"]
)
def test_a_field_given_twice_is_refused(text: str) -> None:
    assert "`a` is already given on line 1" in str(problem_of(text))


@pytest.mark.parametrize("text", ["1: web\n", "? [a, b]\n: web\n", "{a: {null: 1}}\n"])
def test_a_field_name_must_be_text(text: str) -> None:
    assert "name is not text" in str(problem_of(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ("# only a comment\n", "is empty"), ("---\n", "not a mapping")],
)
def test_an_empty_file_is_refused(text: str, words: str) -> None:
    assert words in str(problem_of(text))


@pytest.mark.parametrize("text", ["- web\n- train\n", "web\n", "3\n"])
def test_the_top_level_must_be_a_mapping(text: str) -> None:
    assert "not a mapping" in str(problem_of(text))


def test_a_value_that_contains_itself_is_refused() -> None:
    assert "contains itself" in str(problem_of("a: &x\n  - *x\n"))


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in str(problem_of("a: " + "[" * 5_000 + "]" * 5_000))


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert "more than 1,000,000 values" in str(problem_of("\n".join(lines)))


def test_an_unprintable_character_names_the_line() -> None:
    assert problem_of("a: 1\nb: \x00\n").line == 2


def test_a_number_too_long_to_convert_is_refused() -> None:
    assert "out of range" in str(problem_of(f"a: {'9' * 5_000}\n"))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="there is no such file; check the path"):
        read_yaml(tmp_path / "nowhere.yaml")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="cannot be read"):
        read_text(tmp_path)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(FileProblem, match="not UTF-8"):
        read_yaml(file)


def test_reading_a_file_gives_its_mapping(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    write_text(file, SCENARIO)
    assert read_yaml(file).data["gpu"] == "h200"


def test_writing_makes_missing_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "report.html"
    write_text(file, "두레\n")
    assert file.read_text(encoding="utf-8") == "두레\n"
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_obeys_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    before = os.umask(0o027)
    try:
        write_text(file, "first")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o604)
    write_text(file, "second")
    assert stat.S_IMODE(file.stat().st_mode) == 0o604
    assert file.read_text(encoding="utf-8") == "second"


def test_a_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "\ud800")
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "latest.json"
    write_text(real, "1")
    link.symlink_to(real)
    write_text(link, "2")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "2"


def test_a_device_is_written_to_directly() -> None:
    write_text(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileProblem, match="cannot be written"):
        write_text(tmp_path / "file" / "report.html", "text")
