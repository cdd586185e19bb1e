"""The rules that Elastic Slice Packing is held against: random, best-fit, FGD; on GPU shares only.

They are written apart from `dure.fleet.packing`, as their authors describe them, so that the same
fault cannot be on both sides of a comparison. FGD (Weng et al., USENIX ATC'23) takes the node and
GPU whose expected fragmentation grows least over the typical pods; its score is the integer part
of 100 sigmoid(-growth), and among equal scores the smallest node name wins.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled
from dure.sim.fleet.openb import GPU_MILLI, MOST_GPUS, PodShape, TraceNode

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RANDOM, BEST_FIT, FGD = range(3)
RULES = {"random": RANDOM, "best-fit": BEST_FIT, "fgd": FGD}

TYPICAL_SHARE = 0.95
"""FGD's typical pods are the most frequent shapes that make up this share of the list."""
_MOST_CPU_MILLI = 128_000.0
_MOST_GPU_MILLI = 8_000.0
"""Largest node of the trace, to which best-fit relates what is left."""
_FITS_NOT = np.inf


class Cluster(NamedTuple):
    """Free amounts of the nodes, in order of name."""

    cpu: Ints
    memory: Ints
    gpu: Ints
    """By node and GPU; -1 where the node has no such GPU."""
    model: Ints


class Pods(NamedTuple):
    """Shapes as columns; `models` has a bit for each GPU model."""

    cpu: Ints
    memory: Ints
    gpus: Ints
    milli: Ints
    models: Ints


def cluster_columns(nodes: Sequence[TraceNode], models: Sequence[str]) -> Cluster:
    """Empty nodes as columns."""
    gpu = np.full((len(nodes), MOST_GPUS), -1, dtype=np.int64)
    for row, node in enumerate(nodes):
        gpu[row, : node.gpus] = GPU_MILLI
    return Cluster(
        np.array([node.cpu_milli for node in nodes], dtype=np.int64),
        np.array([node.memory_mib for node in nodes], dtype=np.int64),
        gpu,
        np.array(
            [models.index(node.model) if node.gpus else len(models) for node in nodes],
            dtype=np.int64,
        ),
    )


def pod_columns(shapes: Sequence[PodShape], models: Sequence[str]) -> Pods:
    """Shapes as columns."""
    every = (2 << len(models)) - 1
    masks = [sum(1 << models.index(name) for name in shape.models) or every for shape in shapes]
    return Pods(
        np.array([shape.cpu_milli for shape in shapes], dtype=np.int64),
        np.array([shape.memory_mib for shape in shapes], dtype=np.int64),
        np.array([shape.gpus for shape in shapes], dtype=np.int64),
        np.array([shape.gpu_milli for shape in shapes], dtype=np.int64),
        np.array(masks, dtype=np.int64),
    )


def typical_pods(pods: Pods, counts: Ints) -> tuple[Pods, Floats]:
    """FGD's expected demand: shapes without their memory, the most frequent, and their shares."""
    merged: dict[tuple[int, ...], int] = {}
    columns = zip(pods.cpu, pods.gpus, pods.milli, pods.models, strict=True)
    for column, count in zip(columns, counts, strict=True):
        numbers = tuple(int(each) for each in column)
        merged[numbers] = merged.get(numbers, 0) + int(count)
    ranked = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
    kept, seen = [], 0
    for key, count in ranked:
        kept.append((key, count))
        seen += count
        if seen >= TYPICAL_SHARE * counts.sum():
            break
    table = np.array([key for key, _ in kept], dtype=np.int64)
    cpu, gpus, milli, models = (np.ascontiguousarray(column) for column in table.T)
    share = np.array([count for _, count in kept], dtype=np.float64)
    return Pods(cpu, np.zeros_like(cpu), gpus, milli, models), share / share.sum()


@compiled
def _gpus_of(cluster: Cluster, node: int) -> int:
    count = 0
    while count < MOST_GPUS and cluster.gpu[node, count] >= 0:
        count += 1
    return count


@compiled
def _fits(cluster: Cluster, node: int, pods: Pods, pod: int) -> bool:
    if cluster.cpu[node] < pods.cpu[pod] or cluster.memory[node] < pods.memory[pod]:
        return False
    if pods.gpus[pod] and not pods.models[pod] >> cluster.model[node] & 1:
        return False
    able = 0
    for gpu in range(_gpus_of(cluster, node)):
        able += cluster.gpu[node, gpu] >= pods.milli[pod]
    return bool(able >= pods.gpus[pod])


@compiled
def _fragments(cpu: int, gpus: Ints, model: int, typical: Pods, share: Floats) -> float:
    """Expected GPU milli of a node that a typical pod cannot use (FGD, section 4)."""
    free = 0.0
    for gpu in range(len(gpus)):
        free += gpus[gpu]
    total = 0.0
    for pod in range(len(share)):
        able = 0
        useless = 0.0
        for gpu in range(len(gpus)):
            if gpus[gpu] >= typical.milli[pod]:
                able += 1
            else:
                useless += gpus[gpu]
        reachable = (
            typical.gpus[pod] > 0
            and able >= typical.gpus[pod]
            and cpu >= typical.cpu[pod]
            and typical.models[pod] >> model & 1
        )
        total += share[pod] * (useless if reachable else free)
    return total


@compiled
def _use(gpus: Ints, wanted: int, milli: int) -> None:
    """Take so much of the first GPUs that have it."""
    for gpu in range(len(gpus)):
        if wanted and gpus[gpu] >= milli:
            gpus[gpu] -= milli
            wanted -= 1


@compiled
def _fgd_cost(
    cluster: Cluster, node: int, pods: Pods, pod: int, typical: Pods, share: Floats
) -> tuple[float, int]:
    """Minus FGD's score, and the GPU of a pod that shares one."""
    gpus = cluster.gpu[node, : _gpus_of(cluster, node)]
    model = cluster.model[node]
    before = _fragments(cluster.cpu[node], gpus, model, typical, share)
    cpu = cluster.cpu[node] - pods.cpu[pod]
    best = _FITS_NOT
    chosen = -1
    if pods.gpus[pod] == 1 and pods.milli[pod] < GPU_MILLI:
        for gpu in range(len(gpus)):
            if gpus[gpu] < pods.milli[pod]:
                continue
            trial = gpus.copy()
            trial[gpu] -= pods.milli[pod]
            cost = _fgd_score(_fragments(cpu, trial, model, typical, share) - before)
            if cost < best:
                best = cost
                chosen = gpu
        return best, chosen
    trial = gpus.copy()
    _use(trial, pods.gpus[pod], pods.milli[pod])
    return _fgd_score(_fragments(cpu, trial, model, typical, share) - before), -1


@compiled
def _fgd_score(growth: float) -> float:
    return float(-np.floor(100.0 / (1.0 + np.exp(growth / GPU_MILLI))))


@compiled
def _tightest_gpu(cluster: Cluster, node: int, milli: int) -> int:
    best = -1
    for gpu in range(_gpus_of(cluster, node)):
        free = cluster.gpu[node, gpu]
        if free >= milli and (best < 0 or free < cluster.gpu[node, best]):
            best = gpu
    return best


@compiled
def _left_over(cluster: Cluster, node: int, pods: Pods, pod: int) -> float:
    """Best-fit: what stays free of CPU and GPU, each over that of the largest node."""
    free = 0
    for gpu in range(_gpus_of(cluster, node)):
        free += cluster.gpu[node, gpu]
    gpu_left = free - pods.gpus[pod] * pods.milli[pod]
    cpu_left = cluster.cpu[node] - pods.cpu[pod]
    return float(cpu_left / _MOST_CPU_MILLI + gpu_left / _MOST_GPU_MILLI)


@compiled
def place_all(
    cluster: Cluster, pods: Pods, arrivals: Ints, rule: int, typical: tuple[Pods, Floats],
    draws: Floats,
) -> Ints:  # fmt: skip
    """Place arriving pods by one rule; the node of each, -1 where it fits nowhere.

    `draws` has a row of two numbers from 0 to 1 for each arrival; only random uses them.
    """
    size = len(cluster.cpu)
    version = np.zeros(size, dtype=np.int64)
    seen = np.full((len(pods.cpu), size), -1, dtype=np.int64)
    cost = np.empty((len(pods.cpu), size), dtype=np.float64)
    picked = np.full((len(pods.cpu), size), -1, dtype=np.int64)
    nodes = np.full(len(arrivals), -1, dtype=np.int64)
    for turn in range(len(arrivals)):
        pod = arrivals[turn]
        best = -1
        able = 0
        for node in range(size):
            if seen[pod, node] != version[node]:
                seen[pod, node] = version[node]
                cost[pod, node] = _FITS_NOT
                if _fits(cluster, node, pods, pod):
                    if rule == FGD:
                        cost[pod, node], picked[pod, node] = _fgd_cost(
                            cluster, node, pods, pod, typical[0], typical[1]
                        )
                    elif rule == BEST_FIT:
                        cost[pod, node] = _left_over(cluster, node, pods, pod)
                    else:
                        cost[pod, node] = 0.0
            if cost[pod, node] == _FITS_NOT:
                continue
            able += 1
            if best < 0 or cost[pod, node] < cost[pod, best]:
                best = node
        if best < 0:
            continue
        if rule == RANDOM:
            best = _nth_able(cost[pod], int(draws[turn, 0] * able))
        nodes[turn] = best
        gpu = picked[pod, best]
        if rule != FGD:
            gpu = _pick(cluster, best, pods, pod, -1.0 if rule == BEST_FIT else draws[turn, 1])
        _occupy(cluster, best, pods, pod, gpu)
        version[best] += 1
    return nodes


@compiled
def _nth_able(cost: Floats, nth: int) -> int:
    for node in range(len(cost)):
        if cost[node] != _FITS_NOT:
            if nth == 0:
                return node
            nth -= 1
    return -1


@compiled
def _pick(cluster: Cluster, node: int, pods: Pods, pod: int, draw: float) -> int:
    """The GPU of a pod that shares one: the drawn one, or the tightest where `draw` is negative.

    -1 for all other pods.
    """
    if pods.gpus[pod] != 1 or pods.milli[pod] == GPU_MILLI:
        return -1
    if draw < 0.0:
        return _tightest_gpu(cluster, node, pods.milli[pod])
    able = 0
    for gpu in range(_gpus_of(cluster, node)):
        able += cluster.gpu[node, gpu] >= pods.milli[pod]
    nth = int(draw * able)
    for gpu in range(_gpus_of(cluster, node)):
        if cluster.gpu[node, gpu] >= pods.milli[pod]:
            if nth == 0:
                return gpu
            nth -= 1
    return -1


@compiled
def _occupy(cluster: Cluster, node: int, pods: Pods, pod: int, gpu: int) -> None:
    cluster.cpu[node] -= pods.cpu[pod]
    cluster.memory[node] -= pods.memory[pod]
    if gpu >= 0:
        cluster.gpu[node, gpu] -= pods.milli[pod]
    else:
        _use(cluster.gpu[node, : _gpus_of(cluster, node)], pods.gpus[pod], pods.milli[pod])
