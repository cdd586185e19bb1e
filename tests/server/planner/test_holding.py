"""Pins and windows reach the machine, and leave it when their time has come."""

import datetime
from typing import Any, cast

from dure.domain.fleet.windows import windows_of
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.server.planner.book import Book, Bound
from dure.server.planner.centre import Centre
from dure.server.planner.holding import Holding
from dure.server.planner.suspects import Suspects
from tests.fleet.factories import fleet


class Told:
    """What people declared, as far as it matters here."""

    tenant_windows = {TenantId("acme"): windows_of(["daily 00:00-06:00"])}  # noqa: RUF012
    cluster_windows = {"west": windows_of(["sat"])}  # noqa: RUF012


def ns(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp()) * 10**9


def test_what_is_held_follows_the_time() -> None:
    now = [ns("2026-11-16T12:00:00Z")]  # a Monday
    book = Book(cast(Any, Told()))
    centre = Centre(GlobalMachine(GlobalSettings(fleet())), book, lambda: now[0], Suspects())
    holding, state = Holding(centre), centre.machine.state
    book.bound["pinned"] = Bound(pinned=True)
    book.bound["nightly"] = Bound(windows=windows_of(["daily 22:00-06:00"]))
    holding.look()
    assert state.held.workloads == {WorkloadId("pinned"), WorkloadId("nightly")}
    assert state.held.tenants == {TenantId("acme")}
    assert state.held.clusters == {ClusterId("west")}
    told = state.held
    now[0] += 1
    holding.look()
    assert state.held is told
    now[0] = ns("2026-11-21T00:30:00Z")  # a Saturday
    del book.bound["pinned"]
    holding.look()
    assert not state.held.workloads
    assert not state.held.tenants
    assert not state.held.clusters
