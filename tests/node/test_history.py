"""What is remembered of images."""

from dure.domain.units import GIB, MIB, NS_PER_S
from dure.node.history import IMAGES, SIZES_PER_IMAGE, Burst, History


def burst(peak_gib: float, seconds: float, *, held: bool = False) -> Burst:
    return Burst(int(peak_gib * GIB), round(seconds * NS_PER_S), held, None)


def test_the_usual_length_is_the_median_of_the_last() -> None:
    history = History()
    for seconds in (9.0, 1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 5.0):
        history.learn("a", burst(4, seconds))
    found = history.find("a", 4 * GIB)
    assert found is not None
    assert found.burst_ns == round(1.1 * NS_PER_S)


def test_sizes_of_one_image_are_told_apart_by_their_memory() -> None:
    history = History()
    for peak, seconds in ((1.3, 0.3), (2.6, 1.2), (5.0, 3.4)):
        history.learn("matmul", burst(peak, seconds))
    lengths = [record.burst_ns for record in history.candidates("matmul", 2 * GIB)]
    assert sorted(length for length in lengths if length) == [1_200_000_000, 3_400_000_000]
    found = history.find("matmul", 2 * GIB)
    assert found is not None
    assert found.burst_ns == 1_200_000_000
    assert history.find("matmul", 9 * GIB) is None
    assert history.peak_bytes("matmul") == 5 * GIB
    assert history.peak_bytes("other") is None


def test_bursts_from_the_launch_on_are_kept_apart() -> None:
    history = History()
    history.learn("a", burst(4, 3.5))
    history.learn("a", burst(4, 3.0, held=True))
    found = history.find("a", GIB)
    assert found is not None
    assert found.left_ns(held=False) == 3_500_000_000
    assert found.left_ns(held=True) == found.burst_ns == 3_000_000_000


def test_what_was_learned_outlives_the_machine() -> None:
    history = History()
    history.learn("a", burst(4, 1))
    history.learn("b", burst(1, 2))
    again = History.of(history.records())
    assert again.records() == history.records()


def test_the_least_recent_are_forgotten() -> None:
    history = History()
    for number in range(IMAGES + 5):
        history.learn(f"image-{number}", burst(1, 1))
    assert len(history.records()) == IMAGES
    assert history.find("image-0", 0) is None
    for number in range(SIZES_PER_IMAGE + 5):
        history.learn("grows", Burst(MIB << number, 1, False, None))
    assert len(history.candidates("grows", 0)) == SIZES_PER_IMAGE


def test_the_time_of_an_input_is_the_shortest_seen_of_its_size() -> None:
    history = History()
    for input_ms in (900, 700, 1000):
        history.learn_input("a", 4 * GIB, input_ms * 1_000_000)
    history.learn_input("a", 1 * GIB, 50_000_000)
    found = history.find("a", 3 * GIB)
    assert found is not None
    assert (found.peak_bytes, found.input_ns) == (4 * GIB, 700_000_000)
    assert found.burst_ns is None
    history.learn("a", burst(4, 3.0))
    found = history.find("a", 3 * GIB)
    assert found is not None
    assert (found.input_ns, found.burst_ns) == (700_000_000, 3 * NS_PER_S)
    (again, *_) = History.of(history.records()).candidates("a", 3 * GIB)
    assert again.input_ns == 700_000_000
