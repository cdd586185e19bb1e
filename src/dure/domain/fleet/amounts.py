"""Amounts that are shown: from millionths to cents and grams, so that lines add up to their total.

Lines are rounded by their running sum: a line is what the rounded sum grew by. So the lines of any
stretch differ from what they are exactly by less than one unit, all lines together are the rounded
total, and a stretch (all lines of a team) has the same sum however finely it is divided.
"""

from dataclasses import dataclass

MICRO = 10**6
"""Millionths of a currency's unit in one; micrograms in a gram."""
MICRO_DIGITS = 6
_WITHOUT = frozenset(
    [
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "ISK",
        "JPY",
        "KMF",
        "KRW",
        "PYG",
        "RWF",
        "UGX",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    ]
)
_THREE = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])
"""Currencies whose smallest unit is not a hundredth, after ISO 4217."""


def minor_digits(currency: str) -> int:
    """Digits after the point of sums in a currency."""
    if currency in _WITHOUT:
        return 0
    return 3 if currency in _THREE else 2


def rounded(micro: int, unit: int) -> int:
    """Millionths in units of so many of them; a half goes to the even one."""
    whole, rest = divmod(micro, unit)
    return whole + (rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1))


def decimal_text(units: int, digits: int) -> str:
    """A whole number of smallest units as people write it: 1205 with 2 digits is 12.05."""
    if not digits:
        return str(units)
    sign, units = ("-" if units < 0 else ""), abs(units)
    whole, rest = divmod(units, 10**digits)
    return f"{sign}{whole}.{rest:0{digits}d}"


@dataclass(slots=True)
class RunningSum:
    """Rounds one line after the other."""

    unit: int
    """Millionths that are shown as one."""
    exact: int = 0
    shown: int = 0

    def add(self, micro: int) -> int:
        """The line of an amount, in units."""
        self.exact += micro
        before, self.shown = self.shown, rounded(self.exact, self.unit)
        return self.shown - before
