"""The same over a longer search, after every bound of the document was tried on both sides.

A file of its own: its requests are made when it is collected, and that takes as long as collecting
all other tests.
"""

from typing import Any

import pytest
from schemathesis import Case

from tests.server.rest.centre import Centre
from tests.server.rest.described import answered_as_described, described, search

EXAMPLES = 60
"""For each operation."""

long = described(bounds=True)


@pytest.mark.slow
@pytest.mark.parametrize("centre", ["sqlite"], indirect=True)
@long.parametrize()  # type: ignore[untyped-decorator]
@search(EXAMPLES)  # type: ignore[untyped-decorator]
def test_answers_are_as_described_to_many_more_requests(case: "Case[Any]", centre: Centre) -> None:
    answered_as_described(case, centre)
