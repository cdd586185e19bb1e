from dure.domain.risks import RiskKind
from dure.telemetry.signs import DeviceReading, DeviceWatch, ThrashWatch, ThrottleWatch


def clocks(watch: ThrottleWatch, count: int, mhz: float, *, held_back: bool = False) -> int | None:
    """After how many readings there is a risk."""
    for number in range(count):
        wobble = mhz * (1.0 + 0.002 * (number % 5 - 2))
        if watch.observe(DeviceReading(0.9, wobble, held_back)) is not None:
            return number
    return None


def test_a_clock_that_stays_low_under_load_is_throttling() -> None:
    watch = ThrottleWatch("clock")
    assert clocks(watch, 100, 1900.0) is None
    assert clocks(watch, 20, 1500.0, held_back=True) == 4


def test_a_device_that_gives_no_reason_needs_longer() -> None:
    watch = ThrottleWatch("clock")
    clocks(watch, 100, 1900.0)
    assert clocks(watch, 20, 1500.0) == 14


def test_a_low_clock_at_rest_is_rest() -> None:
    watch = ThrottleWatch("clock")
    clocks(watch, 100, 1900.0)
    found = [watch.observe(DeviceReading(0.0, 300.0, False)) for _ in range(50)]
    assert found == [None] * 50


def work(watch: ThrashWatch, count: int, speed: float, copied: float) -> bool:
    seen = False
    for number in range(count):
        wobble = 1.0 + 0.02 * (number % 5 - 2)
        seen |= watch.observe(speed * wobble, copied * wobble) is not None
    return seen


def test_less_work_and_more_copies_are_thrashing() -> None:
    watch = ThrashWatch("work")
    assert not work(watch, 100, 1.0, 1e9)
    assert work(watch, 10, 0.4, 8e9)


def test_less_work_or_more_copies_alone_are_not() -> None:
    watch = ThrashWatch("work")
    work(watch, 100, 1.0, 1e9)
    assert not work(watch, 10, 0.4, 1e9)
    other = ThrashWatch("work")
    work(other, 100, 1.0, 1e9)
    assert not work(other, 10, 1.0, 8e9)


def test_a_device_is_watched_for_both() -> None:
    watch = DeviceWatch(ThrottleWatch("clock"), ThrashWatch("work"))
    for number in range(100):
        wobble = 1.0 + 0.01 * (number % 5 - 2)
        assert watch.observe(DeviceReading(0.9, 1900.0, False, 0.8 * wobble, 1e9 * wobble)) == []
    found = [watch.observe(DeviceReading(0.9, 1500.0, True, 0.2, 9e9)) for _ in range(6)]
    assert {risk.kind for risk in found[-1]} == {RiskKind.THROTTLE, RiskKind.THRASH}
