from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.fleet.prices import PriceLists

HEADER = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region"
ROWS = (
    "p4de,A100-80GB,8.0,40.0,16.0,us-east-1",
    "p4d,A100,8.0,32.0,,us-east-1",
    "one,A100-80GB,1,4.0,2.0,us-east-1",
    "p4de,A100-80GB,8.0,48.0,20.0,eu-west-1",
    "inf2,Inferentia2,6,4.56,,us-east-1",
)


@pytest.fixture
def lists(tmp_path: Path) -> PriceLists:
    path = tmp_path / "v7_aws_accelerator_vms.csv"
    path.write_text("\n".join((HEADER, *ROWS)) + "\n", encoding="utf-8")
    return PriceLists(tmp_path)


def test_a_device_costs_its_part_of_the_cheapest_machine(lists: PriceLists) -> None:
    assert lists.device_hour("aws", "us-east-1", "a100") == 4.0
    assert lists.device_hour("aws", "eu-west-1", "a100") == 6.0
    assert lists.device_hour("aws", "us-east-1", "a100-40gb") == 4.0
    assert lists.device_hour("aws", "us-east-1", "inferentia2") == pytest.approx(0.76)


def test_machines_with_as_many_devices_are_preferred(lists: PriceLists) -> None:
    assert lists.device_hour("aws", "us-east-1", "a100", devices=8) == 5.0


def test_spot_prices_are_prices_too(lists: PriceLists) -> None:
    assert lists.device_hour("aws", "us-east-1", "a100", devices=8, spot=True) == 2.0
    with pytest.raises(InputError, match="'us-east-1' has no inferentia2 with a price"):
        lists.device_hour("aws", "us-east-1", "inferentia2", spot=True)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        (("awss", "us-east-1", "a100"), "no price list of 'awss'; did you mean 'aws'"),
        (("aws", "us-east-2", "a100"), "no region 'us-east-2'; did you mean 'us-east-1'"),
        (("aws", "eu-west-1", "inferentia2"), "has no inferentia2 with a price; it is sold in us-"),
        (("aws", "us-east-1", "atom"), "price lists do not know 'atom'; write its price"),
    ],
)
def test_what_is_not_sold_is_refused_with_what_is(
    lists: PriceLists, asked: tuple[str, str, str], part: str
) -> None:
    with pytest.raises(InputError, match=part):
        lists.device_hour(*asked)


def test_a_price_that_is_no_number_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "v7_aws_accelerator_vms.csv"
    path.write_text(f"{HEADER}\n{ROWS[0]}\nx,A100,8,cheap,1,us-east-1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3: column 'Price': 'cheap' is no number"):
        PriceLists(tmp_path).device_hour("aws", "us-east-1", "a100")
