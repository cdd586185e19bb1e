"""Lines of endless answers, waits, and the meaning of refusals: what needs no cluster."""

import asyncio
import random
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.kit.backoff import Backoff
from dure.kube.errors import (
    KubeConflictError,
    KubeError,
    KubeExistsError,
    KubeExpiredError,
    KubeForbiddenError,
    KubeInvalidError,
    KubeNotFoundError,
    KubeOverloadedError,
    KubeServerError,
    refused,
    refused_status,
)
from dure.kube.resources import JOBS, NODES, PODS
from dure.kube.streams import lines_of


async def _chunks(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def cut(parts: list[bytes], **more: int) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [line async for line in lines_of(_chunks(parts), **more)]

    return asyncio.run(collect())


@given(st.lists(st.binary(max_size=6)))
def test_lines_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert cut(parts) == expected


def test_only_newlines_end_a_line() -> None:
    odd = '{"text": "a\u2028b\x85c\x0bd\re"}'.encode()
    assert cut([odd + b"\n"]) == [odd]


def test_a_line_without_end_comes_in_pieces() -> None:
    pieces = cut([b"x" * 10] * 10, max_bytes=35)
    assert b"".join(pieces) == b"x" * 100
    assert max(map(len, pieces)) <= 45


def test_waits_grow_to_the_limit_and_begin_anew() -> None:
    waits = Backoff(first_s=1.0, limit_s=8.0, chance=random.Random(1))
    taken = [waits.next_s() for _ in range(6)]
    for wait_s, whole_s in zip(taken, (1, 2, 4, 8, 8, 8), strict=True):
        assert whole_s / 2 <= wait_s <= whole_s
    waits.reset()
    assert waits.next_s() <= 1.0


def test_two_clients_do_not_come_back_at_once() -> None:
    waits = [Backoff(chance=random.Random(seed)).next_s() for seed in range(20)]
    assert len(set(waits)) == 20


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", KubeInvalidError),
        (401, "Unauthorized", KubeForbiddenError),
        (403, "Forbidden", KubeForbiddenError),
        (404, "NotFound", KubeNotFoundError),
        (409, "AlreadyExists", KubeExistsError),
        (409, "Conflict", KubeConflictError),
        (410, "Expired", KubeExpiredError),
        (422, "Invalid", KubeInvalidError),
        (429, "TooManyRequests", KubeOverloadedError),
        (500, "InternalError", KubeServerError),
        (503, "ServiceUnavailable", KubeOverloadedError),
        (504, "Timeout", KubeServerError),
    ],
)
def test_every_refusal_has_its_kind(code: int, reason: str, kind: type[KubeError]) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "said so"}
    error = refused_status(status, "GET /x")
    assert type(error) is kind
    assert "GET /x: said so" in str(error)


def test_a_server_that_must_catch_up_is_asked_again_when_it_says() -> None:
    status = {"code": 504, "reason": "Timeout", "details": {"retryAfterSeconds": 3}}
    error = refused_status(status, "GET /x")
    assert isinstance(error, KubeOverloadedError)
    assert error.retry_after_s == 3


def test_an_answer_of_something_in_between_is_understood() -> None:
    answer = httpx.Response(503, headers={"retry-after": "7"}, text="<html>no server</html>")
    error = refused(answer, "GET /x")
    assert isinstance(error, KubeOverloadedError)
    assert error.retry_after_s == 7
    assert "no server" in str(error)


def test_paths_of_kinds() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("team", "pod", "log") == "/api/v1/namespaces/team/pods/pod/log"
    assert NODES.path("", "node") == "/api/v1/nodes/node"
    assert JOBS.path("team") == "/apis/batch/v1/namespaces/team/jobs"
    assert PODS.path("../x", "a/b") == "/api/v1/namespaces/..%2Fx/pods/a%2Fb"
