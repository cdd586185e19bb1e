from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.azure import read_azure


def trace(folder: Path, *rows: str) -> Path:
    path = folder / "requests.csv"
    path.write_text("\n".join(("TIMESTAMP,ContextTokens,GeneratedTokens", *rows)), encoding="utf-8")
    return path


def test_requests_come_in_order_with_their_tokens(tmp_path: Path) -> None:
    found = read_azure(
        trace(tmp_path, "2023-11-16 18:17:05.0000000,30,3", "2023-11-16 18:17:03.5000000,10,1")
    )
    assert found.arrival_s.tolist() == [0.0, 1.5]
    assert found.context_tokens.tolist() == [10, 30]
    assert found.generated_tokens.tolist() == [1, 3]


def test_the_burst_profile_is_relative_to_the_mean(tmp_path: Path) -> None:
    rows = [f"2023-11-16 18:00:{second:02}.0,1,1" for second in (0, 1, 2, 12, 20)]
    profile = read_azure(trace(tmp_path, *rows)).burst_profile(10.0)
    assert profile.tolist() == pytest.approx([1.2, 0.8])


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("now,1,1", "line 3: column 'TIMESTAMP'"),
        ("2023-11-16 18:17:03,many,1", "line 3: column 'ContextTokens'"),
        ("2023-11-16 18:17:03,1,-2", "line 3: column 'GeneratedTokens'"),
        ("2023-11-16 18:17:03,1", "line 3: has 2 columns"),
    ],
)
def test_a_malformed_row_is_refused_with_its_line(tmp_path: Path, row: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        read_azure(trace(tmp_path, "2023-11-16 18:17:01,1,1", row))


def test_a_trace_without_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no stretch of time"):
        read_azure(trace(tmp_path, "2023-11-16 18:17:01,1,1"))
