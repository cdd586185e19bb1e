import numpy as np
import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.series import HOUR_NS, Floats, Series
from dure.fleet.forecasts import HORIZONS_H, Forecaster, SeriesForecasts

DAYS = 21
HOURS = np.arange(24 * DAYS)


def diurnal(series: int, noise: float, seed: int = 1) -> Floats:
    """Days of the same shape, weekends lower, weather that lasts some hours: [series, hours]."""
    rng = np.random.default_rng(seed)
    weather = np.zeros((series, len(HOURS)))
    for hour in HOURS[1:]:
        weather[:, hour] = 0.9 * weather[:, hour - 1] + rng.normal(0, noise, series)
    shape = 100 + 40 * np.sin(2 * np.pi * HOURS / 24) - 15 * (HOURS // 24 % 7 >= 5)
    return np.asarray(shape + weather)


def feed(forecaster: Forecaster, values: Floats) -> None:
    for hour in range(values.shape[1]):
        forecaster.observe(hour * HOUR_NS, values[:, hour])


def test_it_beats_persistence_on_a_diurnal_series_at_every_horizon() -> None:
    forecaster = Forecaster(20)
    feed(forecaster, diurnal(20, noise=4.0))
    for error in forecaster.errors():
        assert error.share < 0.9 * error.persistence
    six_hours = forecaster.errors()[1]
    assert six_hours.share < 0.4 * six_hours.persistence


def test_without_seasons_it_is_hardly_worse_than_persistence() -> None:
    steps = np.random.default_rng(3).normal(0, 2, (20, len(HOURS)))
    forecaster = Forecaster(20)
    feed(forecaster, 200 + np.cumsum(steps, axis=1))
    for error in forecaster.errors():
        assert error.share < 1.1 * error.persistence


@pytest.mark.parametrize("seasonal", [True, False])
def test_the_error_it_reports_is_the_real_one(seasonal: bool) -> None:
    values = diurnal(3, noise=4.0)
    forecaster = Forecaster(3, seasonal=seasonal)
    said: dict[int, list[Floats]] = {horizon: [] for horizon in HORIZONS_H}
    for hour in range(values.shape[1]):
        forecaster.observe(hour * HOUR_NS, values[:, hour])
        ahead = forecaster.ahead(hour * HOUR_NS, 25).mean
        for horizon in HORIZONS_H:
            said[horizon].append(ahead[:, horizon])
    for error in forecaster.errors():
        # The last hour is not over, so it is not scored yet.
        made = np.array(said[error.horizon_h])[: -error.horizon_h - 1].T
        came = values[:, error.horizon_h : -1]
        assert error.count == came.size
        assert error.share == pytest.approx(np.abs(made - came).sum() / np.abs(came).sum())
        lasting = np.abs(values[:, : -error.horizon_h - 1] - came).sum() / np.abs(came).sum()
        assert error.persistence == pytest.approx(lasting)


def test_switched_off_the_present_lasts() -> None:
    values = diurnal(2, noise=4.0)
    forecaster = Forecaster(2, seasonal=False)
    feed(forecaster, values)
    now_ns = (values.shape[1] - 1) * HOUR_NS
    expected = np.repeat(values[:, -1:], 30, axis=1)
    assert forecaster.ahead(now_ns, 30).mean == pytest.approx(expected)


def test_the_first_step_is_the_present_and_later_ones_follow_the_day() -> None:
    values = diurnal(1, noise=0.0)
    forecaster = Forecaster(1)
    feed(forecaster, values)
    ahead = forecaster.ahead((values.shape[1] - 1) * HOUR_NS, 25)
    assert ahead.mean[0, 0] == values[0, -1]
    again = diurnal(1, noise=0.0)[0, -24:]
    assert np.argmax(ahead.mean[0, 1:]) == pytest.approx(np.argmax(again), abs=1)


def test_the_spread_grows_with_the_horizon_where_errors_do() -> None:
    forecaster = Forecaster(5)
    feed(forecaster, diurnal(5, noise=4.0))
    spread = forecaster.ahead(int(HOURS[-1]) * HOUR_NS, 25).spread
    assert np.all(spread[:, 24] > spread[:, 1])


def test_values_within_an_hour_are_averaged() -> None:
    forecaster = Forecaster(1)
    forecaster.observe(0, np.array([10.0]))
    forecaster.observe(HOUR_NS // 2, np.array([20.0]))
    assert forecaster.ahead(HOUR_NS // 2, 1).mean[0, 0] == 15.0


def test_gaps_are_left_out_and_not_scored() -> None:
    values = diurnal(1, noise=4.0)
    forecaster = Forecaster(1)
    seen = [hour for hour in HOURS if not 200 <= hour < 240]
    for hour in seen:
        forecaster.observe(int(hour) * HOUR_NS, values[:, hour])
    one_hour = forecaster.errors()[0]
    assert one_hour.count == len(seen) - 1 - 2, "neither the gap nor the hour after it"
    assert np.isfinite(forecaster.ahead(int(HOURS[-1]) * HOUR_NS, 48).mean).all()


def test_one_unknown_series_does_not_disturb_the_others() -> None:
    values = diurnal(2, noise=4.0)
    alone, both = Forecaster(1), Forecaster(1)
    feed(alone, values[:1])
    both.grow(2)
    for hour in HOURS:
        both.observe(int(hour) * HOUR_NS, np.array([values[0, hour], np.nan]))
    ahead = both.ahead(int(HOURS[-1]) * HOUR_NS, 24).mean
    assert ahead[0] == pytest.approx(alone.ahead(int(HOURS[-1]) * HOUR_NS, 24).mean[0])
    assert np.isnan(ahead[1]).all()


def test_values_out_of_order_are_refused() -> None:
    forecaster = Forecaster(1)
    forecaster.observe(5 * HOUR_NS, np.array([1.0]))
    with pytest.raises(InputError, match="older"):
        forecaster.observe(HOUR_NS, np.array([1.0]))


def test_what_is_published_is_known_and_the_rest_predicted_from_the_past_alone() -> None:
    values = diurnal(1, noise=4.0)[0]
    series, shorter = Series(values), Series(values[:325].copy())
    now_ns = 300 * HOUR_NS
    known = SeriesForecasts(published_ns=24 * HOUR_NS)(series, now_ns, 72)
    assert known[:25] == pytest.approx(values[300:325])
    assert len(known) == 72
    assert not np.allclose(known[25:], values[325:372])
    blind = SeriesForecasts(published_ns=24 * HOUR_NS)(shorter, now_ns, 72)
    assert known == pytest.approx(blind), "what comes later is not looked at"


def test_a_replaced_series_keeps_what_was_learned_and_a_new_one_learns_its_past() -> None:
    values = diurnal(2, noise=4.0)
    whole = SeriesForecasts()
    longer = Series(values[0])
    whole.set("oslo", Series(values[0, :200].copy()))
    first = whole(Series(values[1]), 199 * HOUR_NS, 5)
    whole.set("oslo", longer)
    expected = whole(longer, 300 * HOUR_NS, 30)
    fresh = SeriesForecasts()(longer, 300 * HOUR_NS, 30)
    assert expected == pytest.approx(fresh)
    assert len(first) == 5


def test_a_constant_series_stays_constant() -> None:
    assert list(SeriesForecasts()(Series.constant(3.0), 0, 4)) == [3.0] * 4
