from pathlib import Path

import pytest

from dure.bench.common.shelf import Shelf
from dure.kit.files import FileProblem


def test_a_row_that_is_measured_after_all_has_not_failed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.fail("plain", "no GPU")
    shelf.fail("paper", "no Docker")
    shelf.put("plain-05-0", "plain", {"seconds": 3})
    assert shelf.failed() == {"paper": "no Docker"}
    assert shelf.holds("plain-05-0")
    assert list(shelf.all_cells()) == [{"seconds": 3}]


def test_a_torn_cell_is_named_with_the_way_out(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("plain-05-0", "plain", {})
    (tmp_path / "cells" / "plain-05-0.json").write_text("{", encoding="utf-8")
    with pytest.raises(FileProblem, match="delete it, and it is measured anew"):
        list(shelf.all_cells())
