from typing import cast

import pytest
from numba.core.dispatcher import Dispatcher

from dure.fleet.local import scaling
from dure.fleet.packing.booking import book
from dure.fleet.packing.choosing import choose
from dure.fleet.packing.copies import count_copies
from dure.member.core.warmup import warm_up


@pytest.mark.parametrize("loop", [choose, book, count_copies, scaling.provide, scaling.judge])
def test_what_a_member_decides_with_is_compiled_before_it_links(loop: object) -> None:
    warm_up()
    assert cast(Dispatcher, loop).signatures
