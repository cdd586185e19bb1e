"""The OpenAPI document holds: whatever it allows is answered as it says, and never with a 5xx."""

from typing import Any

from schemathesis import Case

from tests.server.rest.centre import Centre
from tests.server.rest.described import answered_as_described, described, search

EXAMPLES = 5
"""For each operation; `test_openapi_bounds.py` looks further."""

short = described(bounds=False)


@short.parametrize()  # type: ignore[untyped-decorator]
@search(EXAMPLES)  # type: ignore[untyped-decorator]
def test_answers_are_as_described(case: "Case[Any]", centre: Centre) -> None:
    answered_as_described(case, centre)
