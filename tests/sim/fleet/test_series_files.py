import datetime
from pathlib import Path

import numpy as np
import pytest

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.sim.fleet.series_files import Span, read_hourly

HOUR_NS = 3600 * NS_PER_S
START_NS = 1_672_531_200 * NS_PER_S  # 2023-01-01 00:00 UTC


def table(folder: Path, *rows: str, header: str = "datetime_utc,KR,DE-LU") -> Path:
    path = folder / "carbon.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def hours(count: int) -> list[str]:
    start = datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC)
    return [
        f"{start + datetime.timedelta(hours=hour):%Y-%m-%d %H:%M:%S},{400 + hour},{200 - hour}"
        for hour in range(count)
    ]


def test_a_zone_becomes_a_series_on_the_clock_of_the_fleet(tmp_path: Path) -> None:
    found = read_hourly(table(tmp_path, *hours(5))).series("DE-LU", Span(START_NS, 3 * HOUR_NS))
    assert found.at(START_NS) == 200.0
    assert found.at(START_NS + 2 * HOUR_NS + 5) == 198.0
    assert found.mean(START_NS, START_NS + 2 * HOUR_NS) == pytest.approx(199.5)


def test_the_past_of_a_table_is_kept(tmp_path: Path) -> None:
    later = START_NS + 3 * HOUR_NS
    found = read_hourly(table(tmp_path, *hours(5))).series("KR", Span(later, HOUR_NS))
    assert found.at(later) == 403.0
    assert found.at(START_NS) == 400.0
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (
            ["2023-01-01 00:00:00,1,2", "2023-01-01 02:00:00,1,2"],
            ("line 3: column 'datetime_utc'", "there is a gap from 2023-01-01 00:00 to 2023-01-01"),
        ),
        (["2023-01-01 00:00:00,1,2"] * 2, ("line 3", "the hours do not follow")),
        (["soon,1,2"], ("line 2: column 'datetime_utc'", "'soon' is not a moment in time")),
        (["2023-01-01 00:00:00,1"], ("line 2", "has 2 columns where the header has 3")),
        ([], ("has no rows below its header",)),
    ],
)
def test_a_table_with_holes_is_refused(
    tmp_path: Path, rows: list[str], parts: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as refused:
        read_hourly(table(tmp_path, *rows))
    assert all(part in str(refused.value) for part in (str(tmp_path), *parts))


@pytest.mark.parametrize(
    ("value", "part"),
    [("nan", "'nan' is no number"), ("", "the value is missing; fill the gap"), ("x", "no number")],
)
def test_a_value_that_is_no_number_is_refused_with_its_line_and_column(
    tmp_path: Path, value: str, part: str
) -> None:
    rows = hours(3)
    rows[1] = f"2023-01-01 01:00:00,{value},7"
    made = read_hourly(table(tmp_path, *rows))
    with pytest.raises(InputError) as refused:
        made.series("KR", Span(START_NS, 2 * HOUR_NS))
    assert "line 3: column 'KR'" in str(refused.value)
    assert part in str(refused.value)
    assert made.series("DE-LU", Span(START_NS, 2 * HOUR_NS)).at(START_NS) == 200.0


@pytest.mark.parametrize("late_h", [-1, 4])
def test_a_table_must_cover_the_whole_scenario(tmp_path: Path, late_h: int) -> None:
    made = read_hourly(table(tmp_path, *hours(5)))
    with pytest.raises(InputError, match="covers 2023-01-01 00:00 to 2023-01-01 05:00, not all"):
        made.series("KR", Span(START_NS + late_h * HOUR_NS, 2 * HOUR_NS))


def test_an_unknown_zone_is_refused_with_the_nearest(tmp_path: Path) -> None:
    made = read_hourly(table(tmp_path, *hours(2)))
    with pytest.raises(InputError, match="no zone 'DE-LV'; did you mean 'DE-LU'"):
        made.series("DE-LV", Span(START_NS, HOUR_NS))


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"", "the file is empty"), (b"\xff\xfe\x00", "not UTF-8"), (b"hour\n1\n", "beside the hour")],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "carbon.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=part):
        read_hourly(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv: there is no such file; check --data"):
        read_hourly(tmp_path / "nowhere.csv")


def test_a_zone_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, *hours(2))
    path.write_text(path.read_text(encoding="utf-8").replace("DE-LU", "KR"), encoding="utf-8")
    with pytest.raises(InputError, match="has two columns 'KR'; rename or remove one"):
        read_hourly(path).series("KR", Span(START_NS, HOUR_NS))


def test_values_below_the_least_are_refused_with_line_and_column(tmp_path: Path) -> None:
    made = read_hourly(table(tmp_path, *hours(2)))
    assert made.series("KR", Span(START_NS, HOUR_NS), least=0.0).values.min() >= 0.0
    with pytest.raises(InputError, match=r"line 2: column 'KR': '.*' is no number of at"):
        made.series("KR", Span(START_NS, HOUR_NS), least=1e9)
