import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.slices import (
    MPS_MOST_CLIENTS,
    ShareMode,
    SliceTemplate,
    coexist,
    expected_wait_s,
    masks,
    mps_share,
    place_all,
    queue_unit,
    time_slice,
    worst_wait_s,
)

H100 = CATALOGUE["h100"]
GB = 1000**3
ALL = [(profile, template) for profile in CATALOGUE.values() for template in profile.slices]


def h100(*names: str) -> list[SliceTemplate]:
    return [H100.slice(name) for name in names]


@pytest.mark.parametrize(
    ("name", "placements"),
    [
        ("1g.10gb", [0b1, 0b10, 0b100, 0b1000, 0b10000, 0b100000, 0b1000000]),
        ("1g.20gb", [0b11, 0b1100, 0b110000, 0b11000000]),
        ("2g.20gb", [0b11, 0b1100, 0b110000]),
        ("3g.40gb", [0b1111, 0b11110000]),
        ("4g.40gb", [0b1111]),
        ("7g.80gb", [0b11111111]),
        ("whole", [0b1]),
        ("mps.50pc", [0]),
    ],
)
def test_masks_list_where_the_hardware_lets_a_slice_start(name: str, placements: list[int]) -> None:
    assert list(masks(H100.slice(name))) == placements


@pytest.mark.parametrize(("profile", "template"), ALL)
def test_no_mask_leaves_the_device_and_each_has_the_slots_of_its_template(
    profile: object, template: SliceTemplate
) -> None:
    for mask in masks(template):
        assert mask >> template.device_slots == 0
        assert mask.bit_count() == template.slots
    assert list(masks(template)) == sorted(set(masks(template)))


def test_no_two_modes_share_a_device() -> None:
    assert not coexist(h100("1g.10gb", "mps.5pc"), H100.memory_bytes)


@pytest.mark.parametrize(
    "names",
    [
        ["1g.10gb"] * 7,
        ["4g.40gb", "3g.40gb"],
        ["3g.40gb", "3g.40gb"],
        ["4g.40gb", "2g.20gb", "1g.10gb"],
        ["2g.20gb", "2g.20gb", "2g.20gb", "1g.20gb"],
    ],
)
def test_mixes_of_the_mig_guide_fit(names: list[str]) -> None:
    found = place_all(h100(*names))
    assert found is not None
    assert coexist(h100(*names), H100.memory_bytes)


@pytest.mark.parametrize(
    "names",
    [
        ["1g.10gb"] * 8,
        ["4g.40gb", "4g.40gb"],
        ["4g.40gb", "3g.40gb", "1g.10gb"],
        ["7g.80gb", "1g.10gb"],
        ["2g.20gb"] * 4,
        ["whole", "whole"],
        ["mps.50pc", "mps.50pc", "mps.5pc"],
        ["ts.2", "ts.2", "ts.2"],
    ],
)
def test_mixes_beyond_the_device_do_not_fit(names: list[str]) -> None:
    assert not coexist(h100(*names), H100.memory_bytes)


def test_placing_respects_what_is_occupied() -> None:
    assert place_all(h100("3g.40gb"), occupied=0b1) == (0b11110000,)
    assert place_all(h100("4g.40gb"), occupied=0b1) is None


@given(data=st.data())
def test_no_feasible_set_of_slices_exceeds_its_device(data: st.DataObject) -> None:
    profile = data.draw(st.sampled_from(list(CATALOGUE.values())))
    mode = data.draw(st.sampled_from(profile.modes))
    offered = [template for template in profile.slices if template.mode is mode]
    chosen = data.draw(st.lists(st.sampled_from(offered), min_size=1, max_size=9))
    held: list[SliceTemplate] = []
    for template in chosen:
        if coexist([*held, template], profile.memory_bytes):
            held.append(template)
    assert held, "one slice alone always fits"
    assert sum(each.memory_bytes for each in held) <= profile.memory_bytes
    assert sum(each.compute_milli for each in held) <= 1000
    assert sum(each.bandwidth_milli for each in held) <= 1000
    placed = place_all(held)
    assert placed is not None
    used = 0
    for mask, template in zip(placed, held, strict=True):
        assert mask in masks(template)
        assert not mask & used
        used |= mask


@given(data=st.data())
def test_slots_alone_keep_placed_slices_within_compute_and_memory(data: st.DataObject) -> None:
    """A packer that looks at masks only, as on a real device, cannot oversubscribe either."""
    placed_modes = (ShareMode.MIG, ShareMode.CORE_GROUP)
    profiles = [each for each in CATALOGUE.values() if set(placed_modes) & set(each.modes)]
    profile = data.draw(st.sampled_from(profiles))
    offered = [template for template in profile.slices if template.mode in placed_modes]
    used, held = 0, list[SliceTemplate]()
    for template in data.draw(st.lists(st.sampled_from(offered), max_size=12)):
        free = [mask for mask in masks(template) if not mask & used]
        if free:
            used |= data.draw(st.sampled_from(free))
            held.append(template)
    assert sum(each.memory_bytes for each in held) <= profile.memory_bytes
    assert sum(each.compute_milli for each in held) <= 1000
    assert len(held) <= offered[0].mode_most


@given(data=st.data())
def test_ascend_slices_never_need_more_than_its_six_control_processors(data: st.DataObject) -> None:
    ascend = CATALOGUE["ascend-910b"]
    offered = [each for each in ascend.slices if each.mode is ShareMode.CORE_GROUP]
    used = processors = 0
    for template in data.draw(st.lists(st.sampled_from(offered), max_size=12)):
        free = [mask for mask in masks(template) if not mask & used]
        if free:
            used |= data.draw(st.sampled_from(free))
            processors += int(template.name.split("_")[1].removesuffix("c"))
    assert processors <= 6


def test_mps_takes_any_whole_percentage_and_no_more_clients_than_a_server_has() -> None:
    share = mps_share(130, 10 * GB)
    assert (share.compute_milli, share.memory_bytes, share.most) == (130, 10 * GB, 7)
    tiny = mps_share(10, GB // 2)
    assert tiny.most == MPS_MOST_CLIENTS
    assert coexist([tiny] * 48, 80 * GB)
    assert not coexist([tiny] * 49, 80 * GB)
    newer = mps_share(10, GB // 2, most_clients=60)
    assert coexist([newer] * 60, 80 * GB)
    with pytest.raises(InputError, match="whole percentage"):
        mps_share(125, GB)


def test_memory_is_by_agreement_where_nothing_enforces_it() -> None:
    assert not time_slice(4, 80 * GB).memory_enforced
    assert not queue_unit(100, GB, resource_name="x/y").memory_enforced
    assert mps_share(100, GB).memory_enforced
    assert H100.slice("1g.10gb").memory_enforced


def test_counted_slices_are_bounded_by_memory_as_well() -> None:
    large = mps_share(100, 50 * GB)
    assert not coexist([large, large], 80 * GB)


def test_a_busier_device_makes_queue_units_wait_longer_and_a_full_one_for_ever() -> None:
    assert expected_wait_s(2.0, 0.0) == 0
    assert expected_wait_s(2.0, 0.5) == pytest.approx(2.0)
    assert expected_wait_s(2.0, 0.9) == pytest.approx(18.0)
    assert expected_wait_s(2.0, 1.0) == math.inf
    with pytest.raises(InputError):
        expected_wait_s(1.0, -0.1)


def test_a_queue_units_weight_bounds_its_wait_whatever_others_do() -> None:
    # A quarter of the device, a tenth of its time asked for: 4 s a request at load 0.4.
    assert worst_wait_s(1.0, 0.1, 250) == pytest.approx(4.0 / 0.6 - 1.0)
    assert worst_wait_s(1.0, 0.25, 250) == math.inf
    assert worst_wait_s(1.0, 0.5, 1000) == pytest.approx(expected_wait_s(1.0, 0.5))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"slots": 9}, "takes 9 of 8 slots"),
        ({"starts": (0, 8)}, "outside its 8 slots"),
        ({"starts": (2, 0)}, "ascending order"),
        ({"starts": ()}, "ascending order"),
        ({"compute_milli": 1001}, "1001 thousandths"),
        ({"bandwidth_milli": 0}, "0 thousandths"),
        ({"memory_bytes": -1}, "-1 bytes"),
        ({"most": 0}, "allows 0 instances"),
        ({"most": 8}, "allows 8 instances"),
        ({"mode": ShareMode.MPS}, "does not know"),
    ],
)
def test_an_impossible_template_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(H100.slice("1g.10gb"), **change)  # type: ignore[arg-type]
