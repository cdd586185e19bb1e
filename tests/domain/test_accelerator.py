import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import CATALOGUE, accelerator
from dure.domain.errors import InputError

profiles = st.sampled_from(list(CATALOGUE.values()))


@given(profiles, st.floats(0, 1000))
def test_set_sizes_are_what_the_device_offers(profile: AcceleratorProfile, wanted: float) -> None:
    size = profile.snap_sms(wanted)
    assert size % profile.sm_granule == 0
    assert profile.sm_minimum <= size <= profile.sms


@given(profiles, st.floats(0, 1))
def test_a_size_that_fits_is_off_by_half_a_granule_at_most(
    profile: AcceleratorProfile, share: float
) -> None:
    most = profile.sm_groups * profile.sm_granule
    wanted = profile.sm_minimum + share * (most - profile.sm_minimum)
    assert abs(profile.snap_sms(wanted) - wanted) <= profile.sm_granule / 2


def test_hopper_divides_in_eights_and_keeps_a_remainder() -> None:
    h200 = accelerator("h200")
    assert h200.snap_sms(66) == 64
    assert h200.sm_groups * 8 == 128
    assert h200.sms == 132


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ({"threads": 256}, 8),
        ({"threads": 1024}, 2),
        ({"threads": 32}, 32),
        ({"threads": 256, "registers": 128}, 2),
        ({"threads": 256, "shared_bytes": 100_000}, 2),
        ({"threads": 1024, "registers": 255}, 1),
    ],
)
def test_the_scarcest_resource_bounds_resident_blocks(shape: dict[str, int], blocks: int) -> None:
    assert accelerator("h200").resident_blocks(**shape) == blocks


def test_names_are_found_in_any_case() -> None:
    assert accelerator("H200") is CATALOGUE["h200"]


def test_an_unknown_accelerator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="h200, h100, a100, l4, t4"):
        accelerator("gtx")


@pytest.mark.parametrize("profile", CATALOGUE.values(), ids=CATALOGUE)
def test_every_catalogued_device_can_be_divided(profile: AcceleratorProfile) -> None:
    assert profile.sm_minimum % profile.sm_granule == 0
    assert profile.sm_groups >= 2
    assert profile.memory_bytes > 0
    assert profile.bandwidth_bytes_per_s > profile.copy_bytes_per_s
