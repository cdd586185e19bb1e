"""Bills from charges: lines that add up to the cent and gram, and months that are closed."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dure.api.bills import BillColumn, BillSum
from dure.domain.fleet.amounts import MICRO, MICRO_DIGITS, RunningSum, decimal_text, minor_digits
from dure.server.auth import path_of
from dure.server.calendar import Calendar
from dure.stores.errors import ConflictError
from dure.stores.repos.billing import ChargeSum, Period
from dure.stores.rows import Closing
from dure.stores.transaction import Transaction

_TREE = (BillColumn.TENANT, BillColumn.TEAM, BillColumn.SERVICE, BillColumn.JOB, BillColumn.ATTEMPT)
_STORED = {BillColumn.JOB: "job_id"}
_MILLI_HOUR_US = 3_600_000
_HOUR_DIGITS = 3


@dataclass(slots=True)
class Sum:
    """Some charges as a bill shows them, in smallest units, beside what they are exactly."""

    currency: str
    milli_hours: int = 0
    amount: int = 0
    carbon_g: int = 0
    rent_micro: int = 0
    energy_micro: int = 0
    egress_micro: int = 0
    carbon_ug: int = 0
    device_us: int = 0

    @property
    def amount_micro(self) -> int:
        """All parts, exactly."""
        return self.rent_micro + self.energy_micro + self.egress_micro

    def add(self, other: "Sum") -> None:
        """Take in another of the same currency."""
        for name in self.__dataclass_fields__:
            if name != "currency":
                setattr(self, name, getattr(self, name) + getattr(other, name))

    def said(self) -> dict[str, Any]:
        """As a document says it."""
        return {
            "currency": self.currency,
            "device_hours": decimal_text(self.milli_hours, _HOUR_DIGITS),
            "rent": decimal_text(self.rent_micro, MICRO_DIGITS),
            "energy": decimal_text(self.energy_micro, MICRO_DIGITS),
            "egress": decimal_text(self.egress_micro, MICRO_DIGITS),
            "amount": decimal_text(self.amount, minor_digits(self.currency)),
            "carbon_g": self.carbon_g,
            "amount_micro": self.amount_micro,
            "carbon_ug": self.carbon_ug,
            "device_us": self.device_us,
        }


@dataclass(slots=True)
class Line:
    """One line of a bill."""

    names: Mapping[BillColumn, Any]
    adjusts: str
    sum: Sum


@dataclass(frozen=True)
class Wish:
    """Which bill somebody wants, and what of it they may see."""

    period: Period
    by: Sequence[BillColumn] = ()
    tenant: str | None = None
    """None: of all."""
    shows: Callable[[str], bool] = field(default=lambda _: True)
    """Whether a node of the tenants' tree is on it."""

    @property
    def columns(self) -> tuple[BillColumn, ...]:
        """What lines are named by: a job with its owner, a team with its tenant."""
        depth = max((_TREE.index(each) + 1 for each in self.by if each in _TREE), default=0)
        return (
            *_TREE[:depth],
            *(each for each in BillColumn if each in self.by and each not in _TREE),
        )


async def bill_lines(tx: Transaction, wish: Wish) -> AsyncIterator[Line]:
    """The lines of a bill.

    They are rounded within each tenant in the order of the tree. So a team's sum is the same on its
    own bill, on its tenant's and on the fleet's, whatever else they are broken down by.
    """
    columns = wish.columns
    finer = [each for each in columns if each not in _TREE[:3]]
    stored = ("team", "service", *(_STORED.get(each, each.value) for each in finer))
    merged: dict[tuple[Any, ...], Line] = {}
    rounding, of = _Rounding(""), ("", "")
    async for each in tx.charges.summed(wish.period, stored, wish.tenant):
        if (each.of["tenant"], each.of["currency"]) != of:
            of = (each.of["tenant"], each.of["currency"])
            rounding = _Rounding(of[1])
        shown = rounding.line(each)
        if not wish.shows(path_of(each.of["tenant"], each.of["team"], each.of["service"])):
            continue
        names = {column: each.of[_STORED.get(column, column.value)] for column in columns}
        line = Line(names, each.adjusts, shown)
        if len(columns) - len(finer) == len(_TREE[:3]):
            yield line  # nothing else is of the same name
            continue
        key = (*names.values(), of[1], each.adjusts)
        if key in merged:
            merged[key].sum.add(shown)
        else:
            merged[key] = line
    for key in sorted(merged):
        yield merged[key]


class _Rounding:
    """Running sums of one tenant in one currency."""

    def __init__(self, currency: str) -> None:
        self._currency = currency
        self._money = RunningSum(MICRO // 10 ** minor_digits(currency))
        self._grams = RunningSum(MICRO)
        self._hours = RunningSum(_MILLI_HOUR_US)

    def line(self, exact: ChargeSum) -> Sum:
        return Sum(
            currency=self._currency,
            milli_hours=self._hours.add(exact.device_us),
            amount=self._money.add(exact.money_micro),
            carbon_g=self._grams.add(exact.carbon_ug),
            rent_micro=exact.rent_micro,
            energy_micro=exact.energy_micro,
            egress_micro=exact.egress_micro,
            carbon_ug=exact.carbon_ug,
            device_us=exact.device_us,
        )


def added_up(totals: dict[str, Sum], line: Line) -> None:
    """Count a line in the totals of its currency."""
    currency = line.sum.currency
    totals.setdefault(currency, Sum(currency)).add(line.sum)


async def month_so_far(tx: Transaction, month: str) -> tuple[str, list[dict[str, Any]]]:
    """The digest of all that is billed in a month, and its totals."""
    digest, totals = hashlib.sha256(), dict[str, Sum]()
    by = (BillColumn.SERVICE, BillColumn.CLUSTER, BillColumn.PROFILE)
    exact = []
    async for line in bill_lines(tx, Wish(Period(month=month), by)):
        added_up(totals, line)
        names = [line.names[column] for column in line.names]
        said = line.sum
        exact.append(
            [*names, line.adjusts, said.currency, said.device_us, said.amount_micro, said.carbon_ug]
        )
    for each in sorted(exact):  # databases sort by different alphabets
        digest.update(json.dumps(each).encode() + b"\n")
    return digest.hexdigest(), [totals[name].said() for name in sorted(totals)]


CLOSED = "month.closed"
"""What is told when a month is."""


async def close_month(
    tx: Transaction, month: str, calendar: Calendar, who: str, expect: str | None = None
) -> tuple[Closing, bool]:
    """Close a month for ever; whether it was open. Closed again it must be the same."""
    await tx.closings.hold()
    if tx.now_ns < calendar.month_ends_ns(month):
        raise ConflictError(
            f"month {month} is not over in {calendar.name}", "close it when its last day has passed"
        )
    digest, totals = await month_so_far(tx, month)
    before = await tx.closings.find(month)
    if before is not None:
        _check_same(before, digest, expect)
        return before, False
    closed_through = await tx.charges.closed_through()
    if month <= closed_through:
        raise ConflictError(
            f"month {month} was closed with {closed_through}, and nothing is billed in it",
            "close the months after that",
        )
    earlier = [each for each in await tx.charges.months() if closed_through < each < month]
    if earlier:
        raise ConflictError(f"month {earlier[0]} is still open", "close the months in their order")
    if expect not in (None, digest):
        raise ConflictError(
            f"something else is billed in {month} by now: its digest is {digest}",
            "look at it again and close what you then see",
        )
    closing = Closing(month, calendar.name, digest, {"totals": totals}, who, tx.now_ns)
    await tx.closings.close(closing)
    return closing, True


def _check_same(before: Closing, digest: str, expect: str | None) -> None:
    if digest != before.digest:
        raise ConflictError(
            f"what is billed in {before.month} is not what it was when it was closed",
            "compare the database with a backup: nothing of Dure changes a closed month",
        )
    if expect not in (None, before.digest):
        raise ConflictError(
            f"month {before.month} was closed with the digest {before.digest}",
            "what came later is an adjustment of the month after",
        )


def sums_of(totals: Sequence[Mapping[str, Any]]) -> list[BillSum]:
    """Totals as documents."""
    return [BillSum(**each) for each in totals]
