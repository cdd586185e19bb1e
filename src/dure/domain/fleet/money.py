"""Money: one currency for all sums, and rates, given as data, to bring others to it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dure.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class ExchangeRates:
    """What one unit of each known currency is worth in the fleet's own."""

    base: str = "USD"
    """The currency of every sum Dure shows."""
    worth: Mapping[str, float] = field(default_factory=dict)
    """By currency code; the base itself need not be listed."""

    def __post_init__(self) -> None:
        for code, rate in self.worth.items():
            if not math.isfinite(rate) or rate <= 0:
                raise InputError(
                    f"{rate} is no exchange rate for {code}", f"write what 1 {code} is worth"
                )

    def to_base(self, amount: float, currency: str) -> float:
        """An amount of another currency in the base; raises `InputError` for an unknown one."""
        if currency == self.base:
            return amount
        try:
            return amount * self.worth[currency]
        except KeyError:
            known = ", ".join(sorted({self.base, *self.worth}))
            raise InputError(
                f"there is no exchange rate for '{currency}'",
                f"add one, or use one of {known}",
            ) from None
