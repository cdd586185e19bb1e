import pickle

import pytest

from dure.domain import catalogue as kernel_catalogue
from dure.domain.accelerator import AcceleratorKind
from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import CATALOGUE, device_profile
from dure.domain.fleet.profiles import SOURCED_FIELDS, DataType, DeviceProfile, SourceKind
from dure.domain.fleet.slices import ShareMode

every_profile = pytest.mark.parametrize("profile", CATALOGUE.values(), ids=list(CATALOGUE))


def test_the_fleet_knows_the_gpus_and_npus_people_run() -> None:
    gpus = {each.name for each in CATALOGUE.values() if each.kind is AcceleratorKind.GPU}
    npus = {each.name for each in CATALOGUE.values() if each.kind is AcceleratorKind.NPU}
    assert {"a100", "a100-40gb", "h100", "h200", "l4", "t4", "v100", "p100"} <= gpus
    assert {"atom", "rngd", "ascend-910b", "inferentia2", "trainium"} <= npus


@every_profile
def test_every_value_names_a_public_source_and_estimates_say_what_they_rest_on(
    profile: DeviceProfile,
) -> None:
    assert set(profile.sources) == set(SOURCED_FIELDS)
    for source in profile.sources.values():
        assert source.title
        assert source.url.startswith("https://")
        if source.kind is SourceKind.ESTIMATE:
            assert source.note


@every_profile
def test_values_are_possible(profile: DeviceProfile) -> None:
    assert profile.name == profile.name.lower()
    assert profile.tops
    assert all(speed > 0 for speed in profile.tops.values())
    assert 0 < profile.power.idle_w < profile.power.peak_w
    assert profile.bandwidth_bytes_per_s > profile.link.bytes_per_s > 0
    assert profile.slices[0] == profile.whole
    assert profile.whole.memory_bytes == profile.memory_bytes
    assert all("/" in name for name in profile.resource_names)


@every_profile
def test_no_slice_exceeds_its_device_and_names_are_unique(profile: DeviceProfile) -> None:
    assert len({each.name for each in profile.slices}) == len(profile.slices)
    for template in profile.slices:
        assert template.memory_bytes <= profile.memory_bytes
        assert template.memory_bytes * template.most <= profile.memory_bytes
        assert template.compute_milli * template.most <= 1000
        assert template.bandwidth_milli * template.most <= 1000


@every_profile
def test_profiles_travel_between_processes(profile: DeviceProfile) -> None:
    assert pickle.loads(pickle.dumps(profile)) == profile


@pytest.mark.parametrize("name", sorted(kernel_catalogue.CATALOGUE))
def test_both_levels_agree_on_memory_and_bandwidth(name: str) -> None:
    kernel, fleet = kernel_catalogue.CATALOGUE[name], CATALOGUE[name]
    assert kernel.memory_bytes == fleet.memory_bytes
    assert kernel.bandwidth_bytes_per_s == fleet.bandwidth_bytes_per_s


@pytest.mark.parametrize(
    ("name", "instances"),
    [
        ("a100-40gb", ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
        ("a100", ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        ("h100", ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        ("h200", ["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]),
    ],
)
def test_mig_instances_have_the_names_and_resources_of_their_card(
    name: str, instances: list[str]
) -> None:
    found = [each for each in CATALOGUE[name].slices if each.mode is ShareMode.MIG]
    assert [each.name for each in found] == instances
    assert [each.resource_name for each in found] == [
        f"nvidia.com/mig-{each}" for each in instances
    ]
    assert [each.most for each in found] == [7, 4, 3, 2, 1, 1]


def test_speeds_are_dense() -> None:
    assert CATALOGUE["h100"].tops[DataType.FP16] == 1979 / 2
    assert CATALOGUE["a100"].tops[DataType.INT8] == 624


@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("h100", {"nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"}),
        ("atom", {"rebellions.ai/npu"}),
        ("rngd", {"furiosa.ai/rngd", "furiosa.ai/rngd-2core.12gb"}),
        ("ascend-910b", {"huawei.com/Ascend910B2"}),
        ("inferentia2", {"aws.amazon.com/neuroncore"}),
    ],
)
def test_resources_have_the_names_of_the_vendors_plugins(name: str, resources: set[str]) -> None:
    assert resources <= set(CATALOGUE[name].resource_names)


def test_names_are_found_in_any_case_and_unknown_ones_name_the_known() -> None:
    assert device_profile("H100") is CATALOGUE["h100"]
    with pytest.raises(InputError, match="'h99' is not a known accelerator; use one of h200"):
        device_profile("h99")
