"""Signals in a whole run: a cluster that fills is dearer before it is full, and that is said."""

from dataclasses import replace

from dure.domain.fleet.policy import HOUR_NS
from dure.sim.fleet.run import run
from tests.sim.fleet.test_run import _busy


def test_weights_follow_signals_and_say_so_only_where_that_is_wanted() -> None:
    setting = replace(_busy(8.0), round_ns=HOUR_NS // 60)
    plain = run(setting, "dure")
    heeding = run(replace(setting, signals=True), "dure")
    assert not [said for said in plain.warnings if "weight goes" in said]
    told = [said for said in heeding.warnings if "the congestion weight goes from 1 to" in said]
    assert told
    assert "it will be full" in told[0]
    assert heeding.jobs.ended == plain.jobs.ended
