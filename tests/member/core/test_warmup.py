from typing import cast

import pytest
from numba.core.dispatcher import Dispatcher

from dure.fleet.local import scaling
from dure.fleet.packing import loops
from dure.member.core.warmup import warm_up


@pytest.mark.parametrize(
    "loop", [loops.choose, loops.book, loops.count_copies, scaling.provide, scaling.judge]
)
def test_what_a_member_decides_with_is_compiled_before_it_links(loop: object) -> None:
    warm_up()
    assert cast(Dispatcher, loop).signatures
