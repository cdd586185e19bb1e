import datetime
from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.philly import read_philly

OCTOBER = datetime.datetime(2017, 10, 1, tzinfo=datetime.UTC)
DAY_S = 86400.0


def trace(
    folder: Path, *rows: str, header: str = "timestamp,duration,num_gpus,gpu_time,cluster"
) -> Path:
    path = folder / "philly.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def test_jobs_of_the_window_come_in_order_of_submission(tmp_path: Path) -> None:
    path = trace(
        tmp_path,
        "2017-10-01 02:00:00,66.0,1,66.0,b",
        "2017-10-01 01:00:00,100.0,8,800.0,a",
        "2017-09-30 23:59:59,5.0,1,5.0,a",
        "2017-10-02 00:00:00,5.0,1,5.0,a",
    )
    found = read_philly(path, OCTOBER, DAY_S)
    assert found.submitted_s.tolist() == [3600.0, 7200.0]
    assert found.duration_s.tolist() == [100.0, 66.0]
    assert found.devices.tolist() == [8, 1]
    assert found.groups == ("a", "b")


@pytest.mark.parametrize(
    ("row", "column", "part"),
    [
        ("yesterday,66,1,66,b", "timestamp", "is not a moment in time"),
        ("2017-10-01 02:00:00,long,1,66,b", "duration", "'long' is no number of at least 0"),
        ("2017-10-01 02:00:00,-1,1,66,b", "duration", "no number of at least 0"),
        ("2017-10-01 02:00:00,nan,1,66,b", "duration", "no number"),
        ("2017-10-01 02:00:00,0,1,66,b", "duration", "'0' is no number of at least 0.001"),
        ("2017-10-01 02:00:00,1e30,1,66,b", "duration", "at most 31,622,400"),
        ("2017-10-01 02:00:00,66,99999999999999999999,66,b", "num_gpus", "at most 1,000,000"),
        ("2017-10-01 02:00:00,\x1b[2J,1,66,b", "duration", "'?[2J' is no number"),
        ("2017-10-01 02:00:00,66,0,66,b", "num_gpus", "whole number of at least 1"),
        ("2017-10-01 02:00:00,66,1.5,66,b", "num_gpus", "'1.5' is no whole number"),
        ("2017-10-01 02:00:00,66,,66,b", "num_gpus", "an empty cell is no whole number"),
    ],
)
def test_a_malformed_row_is_refused_with_its_line_and_column(
    tmp_path: Path, row: str, column: str, part: str
) -> None:
    path = trace(tmp_path, "2017-10-01 01:00:00,100.0,8,800.0,a", row)
    with pytest.raises(InputError) as refused:
        read_philly(path, OCTOBER, DAY_S)
    assert f"{path}, line 3: column '{column}'" in str(refused.value)
    assert part in str(refused.value)


def test_a_short_row_is_refused_with_its_line(tmp_path: Path) -> None:
    path = trace(tmp_path, "2017-10-01 01:00:00,100.0,8")
    with pytest.raises(InputError, match="line 2: has 3 columns where the header has 5"):
        read_philly(path, OCTOBER, DAY_S)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = trace(tmp_path, "1,2,3", header="timestamp,duration,gpus")
    with pytest.raises(InputError, match="has no column 'num_gpus'; did you mean 'gpus'"):
        read_philly(path, OCTOBER, DAY_S)


def test_a_window_without_jobs_is_refused(tmp_path: Path) -> None:
    path = trace(tmp_path, "2017-10-01 01:00:00,100.0,8,800,a")
    with pytest.raises(InputError, match="has no job in the 24 hours from 2017-10-02"):
        read_philly(path, OCTOBER + datetime.timedelta(days=1), DAY_S)
