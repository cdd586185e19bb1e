"""How long requests wait at a service's replicas: M/M/c, for one service or a column of them."""

import math

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled

LATE_SHARE = 0.05
"""Targets are of the 95th percentile."""


@compiled
def wait_p95_s(replicas: int, requests_per_s: float, replica_rate: float) -> float:
    """95th percentile of the time a request waits for a free replica; infinite when overloaded.

    `replica_rate` is what one replica serves in a second when always busy. Erlang's C formula gives
    the share of requests that wait at all; how long they wait is exponential.
    """
    if requests_per_s <= 0.0:
        return 0.0
    offered = requests_per_s / replica_rate
    if replicas <= offered:
        return math.inf
    blocked = 1.0
    for busy in range(1, replicas + 1):
        blocked = offered * blocked / (busy + offered * blocked)
    waiting = blocked / (1.0 - offered / replicas * (1.0 - blocked))
    if waiting <= LATE_SHARE:
        return 0.0
    return math.log(waiting / LATE_SHARE) / (replicas * replica_rate - requests_per_s)


@compiled
def least_replicas(
    requests_per_s: float, replica_rate: float, most_wait_s: float, most: int
) -> int:
    """Fewest replicas whose 95th percentile of waiting is short enough; `most` if none are."""
    if requests_per_s <= 0.0:
        return 0
    replicas = int(requests_per_s / replica_rate) + 1
    while replicas < most and wait_p95_s(replicas, requests_per_s, replica_rate) > most_wait_s:
        replicas += 1
    return min(replicas, most)


@compiled
def waits_p95_s(
    replicas: NDArray[np.int64],
    requests_per_s: NDArray[np.float64],
    replica_rate: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`wait_p95_s` of a column of services."""
    waits = np.empty(len(replicas))
    for row in range(len(replicas)):
        waits[row] = wait_p95_s(replicas[row], requests_per_s[row], replica_rate[row])
    return waits


@compiled
def least_replicas_each(
    requests_per_s: NDArray[np.float64],
    replica_rate: NDArray[np.float64],
    most_wait_s: NDArray[np.float64],
    most: NDArray[np.int64],
) -> NDArray[np.int64]:
    """`least_replicas` of a column of services."""
    needed = np.empty(len(requests_per_s), np.int64)
    for row in range(len(requests_per_s)):
        needed[row] = least_replicas(
            requests_per_s[row], replica_rate[row], most_wait_s[row], most[row]
        )
    return needed
