import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.kernel import KernelSignature
from dure.kernel.book import KernelBook
from tests.kernel.factories import H200, B, narrow, sample, wide

shares = st.floats(0.01, 1.0)
samples = st.builds(
    lambda signature, ns, sms, accompanied: sample(
        "a", ns, signature=signature, sms=sms, company=(B,) if accompanied else ()
    ),
    st.builds(
        KernelSignature,
        st.integers(0, 3),
        st.integers(1, 10**6),
        st.just(256),
        st.integers(1, 32),
        st.booleans(),
    ),
    st.integers(0, 10**12),
    st.sampled_from([8, 32, 64, 96, 132]),
    st.booleans(),
)


def solo_ns(book: KernelBook, signature: KernelSignature) -> float:
    return next(known.solo_ns for known in book.profiles() if known.signature == signature)


@given(st.lists(samples, max_size=30), shares, shares)
def test_more_of_the_device_is_never_slower(
    learned: list[object], one: float, other: float
) -> None:
    book = KernelBook(H200)
    for entry in learned:
        book.learn(entry)  # type: ignore[arg-type]
    low, high = sorted((one, other))
    assert 0.0 < book.speed(low) <= book.speed(high) <= 1.0


def test_the_whole_device_is_full_speed() -> None:
    assert KernelBook(H200).speed(1.0) == 1.0


def test_a_duration_alone_is_learned() -> None:
    book = KernelBook(H200)
    for _ in range(30):
        book.learn(sample("a", 80_000))
    assert solo_ns(book, wide(1)) == pytest.approx(80_000)


def test_a_changed_duration_is_followed() -> None:
    book = KernelBook(H200)
    book.learn(sample("a", 80_000))
    for _ in range(30):
        book.learn(sample("a", 40_000))
    assert solo_ns(book, wide(1)) == pytest.approx(40_000, rel=0.01)


def test_the_first_time_alone_replaces_what_was_guessed_from_company() -> None:
    book = KernelBook(H200)
    book.learn(sample("a", 100_000, company=(B,)))
    assert solo_ns(book, wide(1)) < 100_000
    book.learn(sample("a", 60_000))
    assert solo_ns(book, wide(1)) == 60_000


def test_launches_in_company_do_not_change_the_duration_alone() -> None:
    book = KernelBook(H200)
    book.learn(sample("a", 60_000))
    alone_ns = book.learn(sample("a", 300_000, launches=4, company=(B,)))
    assert solo_ns(book, wide(1)) == 60_000
    assert alone_ns == pytest.approx(4 * 60_000)


def test_a_speed_measured_on_half_the_device_is_learned() -> None:
    book = KernelBook(H200)
    book.learn(sample("a", 60_000))
    for _ in range(200):
        book.learn(sample("a", 60_000))
        book.learn(sample("a", 66_000, sms=64))
    assert book.speed(0.5) == pytest.approx(60 / 66, abs=0.1)


def test_narrow_kernels_lose_little_on_part_of_the_device() -> None:
    narrow_book, wide_book = KernelBook(H200), KernelBook(H200)
    for _ in range(50):
        narrow_book.learn(sample("a", 50_000, signature=narrow(1)))
        wide_book.learn(sample("a", 50_000, signature=wide(1)))
    assert narrow_book.speed(0.5) > 0.8
    assert wide_book.speed(0.5) < 0.7
    assert narrow_book.width_share < 0.2 < wide_book.width_share
