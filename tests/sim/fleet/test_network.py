from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.network import matrix_file, read_egress


def matrix(folder: Path, text: str) -> Path:
    path = folder / "network-cost" / "aws_transmission_cost_matrix.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_prices_are_by_source_and_target(tmp_path: Path) -> None:
    matrix(tmp_path, ",us,eu\neu,0.09,0\nus,0,0.02\n")
    found = read_egress(matrix_file(tmp_path, "aws"))
    assert found.per_gb("us", "eu") == 0.02
    assert found.per_gb("eu", "us") == 0.09
    with pytest.raises(InputError, match="no region 'asia'"):
        found.per_gb("us", "asia")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (",us,eu\nus,0,x\neu,0,0\n", "line 2: column 'eu': 'x' is no number of at least 0"),
        (",us,eu\nus,0,-1\neu,0,0\n", "line 2: column 'eu'"),
        (",us,eu\nus,0,0.1\n", "has no row for 'eu'; make it square"),
        (",us,eu\nus,0,0.1\nas,0,0\n", "line 3.*'as' is no column"),
        (",us\nus,0\nus,0\n", "line 3.*'us' is there twice"),
        ("us\nus\n", "has no regions"),
    ],
)
def test_a_matrix_with_holes_is_refused(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        read_egress(matrix(tmp_path, text))


def test_an_unknown_provider_is_refused_with_the_nearest(tmp_path: Path) -> None:
    matrix(tmp_path, ",us\nus,0\n")
    with pytest.raises(InputError, match="no transfer prices of 'awz'; did you mean 'aws'"):
        matrix_file(tmp_path, "awz")
    with pytest.raises(InputError, match="check --data"):
        matrix_file(tmp_path / "elsewhere", "aws")
