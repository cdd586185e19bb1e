"""What is foreseen of one burst."""

import pytest

from dure.domain.units import GIB, NS_PER_S
from dure.node.activity import Activity, Phase
from dure.node.history import History
from dure.node.settings import NodeSettings
from dure.node.strategies.base import Scene
from dure.node.strategies.forecast import Forecast
from dure.node.units import Unit, UnitKey
from tests.node.factories import GPU

BURST_NS = 4 * NS_PER_S


def seen(phase: Phase, *, launched: bool) -> tuple[Forecast, Unit]:
    """Somebody with little memory that was locked once and has run for a second since."""
    activity = Activity(phase, GIB // 2, work_ns=float(NS_PER_S), launched=launched)
    unit = Unit(UnitKey("one"), activity=activity, context_made=True)
    unit.gpus, unit.image, unit.expect_ns = frozenset({GPU}), "job", BURST_NS
    settings = NodeSettings()
    scene = Scene(0, True, (unit,), (), {}, History(), settings)
    return Forecast(scene), unit


@pytest.mark.parametrize(
    ("phase", "launched"), [(Phase.COMPUTE, False), (Phase.INPUT, True), (Phase.COMPUTE, True)]
)
def test_a_burst_that_computes_grows_shorter_however_little_memory_it_has(
    phase: Phase, launched: bool
) -> None:
    forecast, unit = seen(phase, launched=launched)
    assert forecast.left_ns(unit) == BURST_NS - NS_PER_S


def test_all_of_a_burst_is_to_come_where_there_is_no_more_than_a_context() -> None:
    forecast, unit = seen(Phase.INPUT, launched=False)
    assert forecast.left_ns(unit) == BURST_NS
