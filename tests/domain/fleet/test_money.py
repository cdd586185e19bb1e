import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.money import ExchangeRates

RATES = ExchangeRates("USD", {"KRW": 0.00075})


def test_amounts_are_brought_to_the_base_currency() -> None:
    assert RATES.to_base(2_000.0, "KRW") == pytest.approx(1.5)
    assert RATES.to_base(3.0, "USD") == 3.0


def test_an_unknown_currency_is_refused_with_those_known() -> None:
    with pytest.raises(InputError, match=r"no exchange rate for 'EUR'.*KRW, USD"):
        RATES.to_base(1.0, "EUR")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_must_be_a_positive_number(rate: float) -> None:
    with pytest.raises(InputError, match="exchange rate"):
        ExchangeRates("USD", {"KRW": rate})
