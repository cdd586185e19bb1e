"""Every term of the objective, checked against sums done by hand."""

import numpy as np
import pytest

from dure.fleet import terms


def a(*values: float) -> terms.Amount:
    return np.array(values)


def test_devices_on_nodes_in_use_cost_nothing_while_others_keep_the_node() -> None:
    opened = terms.opened_devices(a(2.0), a(4.0), a(8.0), a(0.5), a(1.0))
    assert opened == pytest.approx(0.0)


def test_a_fresh_node_is_paid_whole_but_for_what_others_will_fill() -> None:
    opened = terms.opened_devices(a(2.0), a(0.0), a(8.0), a(0.5), a(0.0))
    assert opened == pytest.approx(2.0 + 6.0 * 0.5)


def test_a_gang_first_takes_what_is_open_then_opens_nodes() -> None:
    opened = terms.opened_devices(a(10.0), a(2.0), a(8.0), a(1.0), a(0.25))
    assert opened == pytest.approx(2.0 * 0.75 + 8.0)


def test_rent_is_devices_times_price_times_hours() -> None:
    assert terms.rent(a(4.0), a(2.5), a(3.0)) == pytest.approx(30.0)


def test_energy_counts_idle_devices_only_where_their_node_is_opened() -> None:
    watts = terms.added_power_w(a(0.0, 8.0), a(2.0, 2.0), a(50.0), a(400.0), a(100.0))
    assert watts.tolist() == pytest.approx([700.0, 700.0 + 8 * 150.0])
    assert terms.energy_kwh(watts, a(2.0), a(1.5)) == pytest.approx([2.1, 5.7])


def test_carbon_is_priced_per_tonne() -> None:
    grams = terms.carbon_g(a(10.0), a(400.0))
    assert grams == pytest.approx(4000.0)
    assert terms.carbon(grams, a(50.0)) == pytest.approx(0.2)


def test_transfers_cost_by_the_gigabyte_and_take_time() -> None:
    assert terms.transfer(a(5e9), a(0.02)) == pytest.approx(0.1)
    assert terms.transfer_h(a(4.5e12), a(1.25e9)) == pytest.approx(1.0)


def test_lateness_is_expected_before_the_deadline_and_certain_after_it() -> None:
    late = terms.expected_lateness_h(a(100.0, 0.0, -3.0), a(0.5))
    assert late[0] == pytest.approx(0.0, abs=1e-12)
    assert late[1] == pytest.approx(0.5)
    assert late[2] == pytest.approx(3.5)


def test_less_slack_is_never_less_late() -> None:
    late = terms.expected_lateness_h(np.linspace(10.0, -10.0, 100), a(0.7))
    assert (np.diff(late) >= 0).all()


def test_penalties_stop_at_their_cap() -> None:
    assert terms.late_penalty(a(2.0, 20.0), a(10.0), a(50.0)).tolist() == [20.0, 50.0]
    assert terms.violation_penalty(a(0.5, 1.0), a(1.0), a(800.0), 12.0).tolist() == [360.0, 400.0]


def test_congestion_is_paid_per_device_hour() -> None:
    assert terms.congestion(a(6.0), a(0.5)) == pytest.approx(3.0)


def test_only_what_nobody_else_keeps_on_is_saved_by_leaving() -> None:
    eight = np.array(8.0)
    whole = terms.closed_devices(np.array(16.0), eight, np.array(0.9), np.array(0.9))
    assert whole == 16.0
    kept = terms.closed_devices(np.array(1.0), eight, np.array(1.0), np.array(1.0))
    assert kept == 0.0
    alone = terms.closed_devices(np.array(1.0), eight, np.array(0.0), np.array(1.0))
    assert alone == 1.0
    partly = terms.closed_devices(np.array(10.0), eight, np.array(1.0), np.array(0.75))
    assert partly == 8.5
