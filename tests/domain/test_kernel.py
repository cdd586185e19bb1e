import pytest

from dure.domain.kernel import LONG_KERNEL_NS, KernelClass, KernelSignature, classify
from tests.kernel.factories import H200, narrow, wide


@pytest.mark.parametrize(
    ("signature", "duration_ns", "expected"),
    [
        (wide(1), 50_000, KernelClass.COMPUTE),
        (wide(1, memory_bound=True), 50_000, KernelClass.MEMORY),
        (narrow(1), 50_000, KernelClass.SMALL),
        (narrow(1), LONG_KERNEL_NS, KernelClass.LONG),
        (wide(1, memory_bound=True), LONG_KERNEL_NS, KernelClass.LONG),
    ],
)
def test_duration_then_width_then_bound_decide_the_class(
    signature: KernelSignature, duration_ns: float, expected: KernelClass
) -> None:
    assert classify(signature, duration_ns, H200) is expected


def test_a_kernel_is_never_wider_than_the_device() -> None:
    assert KernelSignature(1, 10**9, 256, 8).width_sms(H200) == H200.sms


def test_a_partly_filled_wave_counts_as_one() -> None:
    assert KernelSignature(1, 132 * 8 + 1, 256, 8).waves(132) == 2
    assert KernelSignature(1, 1, 256, 8).waves(132) == 1
