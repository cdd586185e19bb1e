"""Waiting for descriptors."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dure.kit.waiting import readable

HIGH = 1500


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose end to read has a number that `select` does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= HIGH:
        pytest.skip(f"this process may have {hard} descriptors at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 100), hard))
    low, write = os.pipe()
    read = os.dup2(low, HIGH + 50)
    os.close(low)
    yield read, write
    for each in (read, write):
        with suppress(OSError):
            os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_descriptors_of_any_number_are_waited_for(pipe: tuple[int, int]) -> None:
    read, write = pipe
    assert readable([read], 0.0) == []
    os.write(write, b"x")
    assert readable([read], 30.0) == [read]


def test_an_end_counts_as_something_to_read(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(write)
    assert readable([read], 30.0) == [read]
