import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.profiles import (
    DataType,
    PowerCurve,
    can_coexist,
    fits,
    full_mixes,
    units_needed,
)
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand

GB = 1000**3
H100 = CATALOGUE["h100"]
MIG = (ShareMode.MIG,)


def names(profile: str, demand: Demand, modes: tuple[ShareMode, ...] | None = None) -> list[str]:
    return [template.name for template in fits(CATALOGUE[profile], demand, modes)]


def test_power_is_a_line_from_idle_to_peak_and_stays_between_them() -> None:
    curve = PowerCurve(idle_w=100, peak_w=700)
    assert [curve.power_w(use) for use in (-1, 0, 0.5, 1, 2)] == [100, 100, 400, 700, 700]
    assert H100.power_w(1.0) == 700


def test_the_smallest_slice_that_meets_the_demand_comes_first() -> None:
    assert names("h100", Demand(memory_bytes=15 * GB), MIG) == [
        "1g.20gb",
        "2g.20gb",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
    ]
    assert names("h100", Demand(memory_bytes=GB))[0] == "mps.5pc"


def test_every_dimension_of_a_demand_counts() -> None:
    by_compute = Demand(memory_bytes=GB, compute_tops=250.0, data_type=DataType.BF16)
    assert names("h100", by_compute, MIG)[0] == "2g.20gb"
    by_bandwidth = Demand(memory_bytes=GB, bandwidth_bytes_per_s=1000.0 * GB)
    assert names("h100", by_bandwidth, MIG)[0] == "3g.40gb"
    assert names("h100", Demand(memory_bytes=81 * GB)) == []


def test_a_data_type_the_device_lacks_does_not_fit() -> None:
    assert names("a100", Demand(data_type=DataType.FP8)) == []
    assert names("t4", Demand(data_type=DataType.BF16)) == []
    assert (
        units_needed(CATALOGUE["a100"], CATALOGUE["a100"].whole, Demand(data_type=DataType.FP8))
        is None
    )


def test_whole_devices_and_several_devices_are_never_slices() -> None:
    assert names("h100", Demand(memory_bytes=GB, whole=True)) == ["whole"]
    assert names("h100", Demand(memory_bytes=GB, devices=2)) == ["whole"]
    assert names("h100", Demand(memory_bytes=GB, devices=2), MIG) == []


def test_units_needed_is_set_by_the_scarcest_dimension() -> None:
    small = H100.slice("1g.10gb")
    assert units_needed(H100, small, Demand(memory_bytes=25 * GB)) == 3
    assert units_needed(H100, small, Demand(memory_bytes=25 * GB, compute_tops=989.5)) == 8
    assert units_needed(H100, H100.whole, Demand(compute_tops=989.5)) == 1
    assert units_needed(H100, H100.whole, Demand(compute_tops=2000.0)) == 3


@given(
    memory=st.integers(0, 150 * GB),
    tops=st.floats(0, 2500),
    bandwidth=st.floats(0, 6e12),
    data_type=st.sampled_from(list(DataType)),
    name=st.sampled_from(list(CATALOGUE)),
)
def test_what_fits_meets_the_demand_and_what_does_not_falls_short(
    memory: int, tops: float, bandwidth: float, data_type: DataType, name: str
) -> None:
    profile = CATALOGUE[name]
    demand = Demand(
        memory_bytes=memory,
        compute_tops=tops,
        bandwidth_bytes_per_s=bandwidth,
        data_type=data_type,
    )
    fitting = fits(profile, demand)
    used = [profile.share_milli(template) for template in fitting]
    assert used == sorted(used)
    for template in profile.slices:
        have_tops = profile.slice_tops(template, data_type)
        have_bandwidth = profile.slice_bandwidth_bytes_per_s(template)
        meets = (
            data_type in profile.tops
            and template.memory_bytes >= memory
            and (have_tops >= tops or math.isclose(have_tops, tops))
            and (have_bandwidth >= bandwidth or math.isclose(have_bandwidth, bandwidth))
        )
        assert (template in fitting) == meets


def test_a_slice_uses_up_its_largest_share_of_anything() -> None:
    assert H100.share_milli(H100.slice("1g.10gb")) == 143 - 1
    assert H100.share_milli(H100.slice("1g.20gb")) == 250
    assert H100.share_milli(H100.slice("4g.40gb")) == 571
    assert H100.share_milli(H100.whole) == 1000


@pytest.mark.parametrize("name", ["h100", "a100-40gb", "rngd", "ascend-910b", "trainium"])
def test_full_mixes_fit_and_leave_room_for_nothing(name: str) -> None:
    profile = CATALOGUE[name]
    mode = profile.modes[1]
    mixes = full_mixes(profile, mode)
    assert len(set(mixes)) == len(mixes) > 0
    for mix in mixes:
        held = [profile.slice(each) for each in mix]
        assert can_coexist(profile, held)
        others = [each for each in profile.slices if each.mode is mode]
        assert not any(can_coexist(profile, [*held, other]) for other in others)


def test_slices_without_a_place_have_no_partitions() -> None:
    assert full_mixes(H100, ShareMode.MPS) == ()
    assert full_mixes(H100, ShareMode.CORE_GROUP) == ()


def test_only_devices_that_two_tenants_can_hold_at_once_are_shareable() -> None:
    assert not CATALOGUE["atom"].shareable
    assert H100.shareable
    assert CATALOGUE["p100"].shareable


def test_an_unknown_slice_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no slice '1g.5gb'; use one of whole, 1g.10gb"):
        H100.slice("1g.5gb")


def test_a_profile_without_a_source_or_with_slices_larger_than_itself_is_refused() -> None:
    sources = {field: source for field, source in H100.sources.items() if field != "tops"}
    with pytest.raises(InputError, match="where tops comes from"):
        replace(H100, sources=sources)
    with pytest.raises(InputError, match="larger than itself"):
        replace(H100, memory_bytes=H100.memory_bytes - 1)


def test_profiles_can_be_keys() -> None:
    assert {H100: 1}[replace(H100)] == 1
