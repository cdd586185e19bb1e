import pytest

from dure.agent.profiles import profile_of
from dure.devices.nvml import GpuFacts, uuid_bytes
from dure.domain.errors import DureError


def _facts(name: str, sms: int | None, capability: tuple[int, int] | None = None) -> GpuFacts:
    return GpuFacts(0, "GPU-x", name, 10**10, sms, capability)


def test_a_known_card_is_taken_from_the_catalogue_with_its_true_size() -> None:
    profile = profile_of(_facts("NVIDIA A100-SXM4-40GB", None))
    assert (profile.name, profile.sms, profile.memory_bytes) == ("a100", 108, 10**10)
    slice_ = profile_of(_facts("NVIDIA H200", 16))
    assert (slice_.name, slice_.sms, slice_.sm_granule) == ("h200", 16, 8)


def test_an_unknown_card_gets_the_granularity_of_its_generation() -> None:
    profile = profile_of(_facts("NVIDIA RTX 6000 Ada", 142, (8, 9)))
    assert (profile.sms, profile.sm_granule, profile.sm_minimum) == (142, 2, 4)
    newer = profile_of(_facts("NVIDIA B300", 160, (10, 3)))
    assert (newer.sm_granule, newer.sm_minimum) == (8, 8)
    tiny = profile_of(_facts("NVIDIA B300", 4, (10, 3)))
    assert (tiny.sm_granule, tiny.sm_minimum) == (1, 1)


def test_a_uuid_is_the_sixteen_bytes_the_driver_gives() -> None:
    assert uuid_bytes("GPU-00112233-4455-6677-8899-aabbccddeeff") == bytes.fromhex(
        "00112233445566778899aabbccddeeff"
    )
    with pytest.raises(DureError, match="not the UUID of a GPU"):
        uuid_bytes("GPU-12")
