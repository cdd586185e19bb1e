"""The bench of services that follow their load: what it calls stepwise, and its noise."""

import pytest

from dure.bench.centre import noise
from dure.bench.centre.asking import FAILED, Asked
from dure.bench.centre.elastic import StepTimes
from dure.bench.centre.elastic_page import MOST_CHANGES, _is_stepwise


@pytest.mark.parametrize(
    ("before", "sizes", "stepwise"),
    [
        (2, [5, 4, 3, 2], True),
        (4, [8, 6, 4], True),
        (2, [5, 2], False),
        (2, [5, 4, 5, 4, 3, 2], False),
        (2, [5, 4, 3], False),
    ],
)
def test_steps_are_small_and_lead_back_to_where_it_was(
    before: int, sizes: list[int], stepwise: bool
) -> None:
    assert _is_stepwise(StepTimes(before=before, sizes=sizes)) is stepwise


def test_requests_without_an_answer_are_counted() -> None:
    asked = [Asked(0.0, 0.1, "1"), Asked(1.0, 0.1, FAILED), Asked(2.0, 0.3, "1")]
    found = StepTimes(asked)
    assert found.failed == 1
    assert found.took_s(0.5, 3.0) == [0.1, 0.3]


@pytest.mark.parametrize("each", noise.NOISES, ids=lambda each: each.name)
@pytest.mark.parametrize("forgets", [True, False])
def test_no_noise_makes_a_size_tremble(each: noise.Noise, forgets: bool) -> None:
    found = noise.run(each, 1, forgets_bursts=forgets)
    assert found.grew + found.shrank <= MOST_CHANGES
    assert noise.run(each, 1, forgets_bursts=forgets) == found
