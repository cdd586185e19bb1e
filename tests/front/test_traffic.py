"""What a front counts of what passes through it, and what it says of that."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from dure.client.fleet import AsyncFleetClient
from dure.client.fleet.config import Context
from dure.front.reporting import Reporter
from dure.front.traffic import Traffic
from tests.front.test_proxy import front, instance, served
from tests.stores.helpers import asynchronous


def known() -> Traffic:
    traffic = Traffic()
    traffic.know({"a:1": "east", "b:1": "west"})
    return traffic


def ask(
    traffic: Traffic, address: str, at_s: float, took_s: float, *, failed: bool = False
) -> None:
    traffic.began(address, at_s)
    traffic.ended(address, at_s + took_s, took_s, failed=failed)


def test_rates_and_percentiles_are_counted_by_cluster_over_the_last_seconds() -> None:
    traffic = known()
    for number in range(100):
        ask(traffic, "a:1", 100.0 + number / 10, 0.01 * (number % 10 + 1))
    ask(traffic, "b:1", 105.0, 0.5, failed=True)
    figures = traffic.figures(110.0)
    assert figures["east"].requests_per_s == pytest.approx(10.0, abs=0.3)
    assert (figures["east"].p50_s, figures["east"].p99_s) == pytest.approx((0.05, 0.1))
    assert (figures["east"].errors_per_s, figures["west"].errors_per_s) == (0.0, 0.1)
    assert traffic.figures(200.0)["east"].requests_per_s == 0.0


def test_requests_that_come_count_however_slowly_they_are_answered() -> None:
    traffic = known()
    for number in range(50):
        traffic.began("a:1", 100.0 + number / 10)
    figures = traffic.figures(105.0)["east"]
    assert figures.requests_per_s == pytest.approx(10.0, abs=0.3)
    assert figures.in_flight == 50


def test_a_step_of_the_rate_is_seen_after_seconds() -> None:
    traffic = known()
    for number in range(40):
        traffic.began("a:1", 100.0 + number / 4)
    for number in range(48):
        traffic.began("a:1", 110.0 + number / 12)
    assert traffic.figures(114.0)["east"].requests_per_s == pytest.approx(12.0, abs=0.5)


def test_a_request_that_an_instance_did_not_take_counts_where_it_is_answered() -> None:
    traffic = known()
    traffic.began("a:1", 100.0)
    traffic.refused("a:1")
    ask(traffic, "b:1", 100.0, 0.1)
    figures = traffic.figures(101.0)
    assert (figures["east"].requests_per_s, figures["east"].in_flight) == (0.0, 0)
    assert figures["west"].requests_per_s > 0


def test_a_cluster_that_the_service_has_left_is_forgotten() -> None:
    traffic = known()
    ask(traffic, "a:1", 100.0, 0.1)
    traffic.know({"b:1": "west"})
    assert set(traffic.figures(101.0)) == {"east", "west"}
    assert set(traffic.figures(120.0)) == {"west"}


def reporter(traffic: Traffic) -> Reporter:
    return Reporter(AsyncFleetClient(Context(("http://127.0.0.1:9",), "t")), traffic)


def test_each_cluster_is_told_its_part_and_those_who_wait_are_told_of_all() -> None:
    traffic = known()
    ask(traffic, "a:1", 100.0, 0.2)
    with traffic.a_wait():
        said = list(reporter(traffic).reports(101.0))
    assert [(each.cluster, each.queue, each.latency) for each in said] == [
        ("east", 0.0, "200000000ns"),
        ("west", 0.0, None),
        (None, 1.0, None),
    ]
    assert len({each.source for each in said}) == 3


def test_that_nobody_waits_any_more_is_said_once() -> None:
    traffic = known()
    its = reporter(traffic)
    with traffic.a_wait():
        list(its.reports(100.0))
    assert [each.queue for each in its.reports(102.0) if each.cluster is None] == [0.0]
    assert not [each for each in its.reports(104.0) if each.cluster is None]


def test_before_a_service_that_sleeps_only_those_who_wait_are_told() -> None:
    traffic = Traffic()
    with traffic.a_wait():
        (said,) = reporter(traffic).reports(100.0)
    assert (said.requests_per_second, said.queue, said.cluster) == (0.0, 1.0, None)


@asynchronous
async def test_what_passes_through_is_counted_to_its_last_byte() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.1)
        code = 500 if request.url.path == "/bad" else 200
        return PlainTextResponse("done", code)

    async with served(instance(slow)) as address, front(address) as (made, client):
        made.traffic.know({address: "east"})
        await asyncio.gather(*(client.get("/") for _ in range(4)), client.get("/bad"))
        figures = made.traffic.figures(asyncio.get_running_loop().time())["east"]
    assert figures.in_flight == 0
    assert figures.p95_s >= 0.1
    assert figures.errors_per_s > 0


@asynchronous
async def test_who_waits_for_an_instance_is_counted_as_waiting() -> None:
    async def look(made: Any) -> int:
        for _ in range(200):
            if made.traffic.waiting:
                return int(made.traffic.waiting)
            await asyncio.sleep(0.01)
        return 0

    async with front(patience_s=3.0) as (made, client):
        asking = asyncio.create_task(client.get("/"))
        assert await look(made) == 1
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(client, httpx.AsyncClient)
