from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.rest.centre import Centre
from tests.stores.fixtures import BACKENDS, fresh_address


@pytest.fixture(params=BACKENDS, scope="module")
def centre(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Centre]:
    """A centre on each kind of database, shared by the tests of a file."""
    folder: Path = tmp_path_factory.mktemp("centre")
    with Centre(fresh_address(request.param, folder)) as running:
        yield running
