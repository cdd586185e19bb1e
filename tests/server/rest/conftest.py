from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.rest.centre import Centre
from tests.stores.fixtures import BACKENDS, fresh_address


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file that is dear to collect holds nothing that is asked for; None: look."""
    left_out = "not slow" in config.option.markexpr
    return True if left_out and collection_path.name == "test_openapi_bounds.py" else None


@pytest.fixture(params=BACKENDS, scope="module")
def centre(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Centre]:
    """A centre on each kind of database, shared by the tests of a file."""
    folder: Path = tmp_path_factory.mktemp("centre")
    with Centre(fresh_address(request.param, folder)) as running:
        yield running
