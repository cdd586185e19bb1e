"""Closes off what somebody else uses of a node: whole free devices, CPU and host memory."""

from typing import NamedTuple

from dure.fleet.packing.ground import COMPUTE, LIMIT, ROOM
from dure.fleet.packing.packer import Packer
from dure.fleet.packing.shapes import Ints


class Withheld(NamedTuple):
    """What was closed off on a node, at most what was asked for."""

    cpu_milli: int
    host_mib: int
    devices: dict[int, Ints]
    """By row of the device matrix: what the row was."""


def withhold(packer: Packer, node: int, devices: int, cpu_milli: int, host_mib: int) -> Withheld:
    """Close off so much of what is free on a node, the last devices first; less if less is free."""
    ground = packer.ground
    first, end = int(ground.first[node]), int(ground.first[node + 1])
    rows = ground.devices
    free = [row for row in reversed(range(first, end)) if rows[row, ROOM] == rows[row, LIMIT]]
    return withhold_these(packer, node, free[: max(0, devices)], cpu_milli, host_mib)


def withhold_these(
    packer: Packer, node: int, devices: list[int], cpu_milli: int, host_mib: int
) -> Withheld:
    """The same of just these devices, which are free."""
    ground = packer.ground
    cpu = max(0, min(cpu_milli, int(ground.cpu[node])))
    host = max(0, min(host_mib, int(ground.host[node])))
    held = Withheld(cpu, host, {row: ground.devices[row].copy() for row in devices})
    ground.cpu[node] -= cpu
    ground.host[node] -= host
    for row in devices:
        ground.devices[row, COMPUTE : ROOM + 1] = 0
    packer.look_again(node)
    return held


def hand_back(packer: Packer, node: int, held: Withheld) -> None:
    """Open it again."""
    ground = packer.ground
    ground.cpu[node] += held.cpu_milli
    ground.host[node] += held.host_mib
    for row, was in held.devices.items():
        ground.devices[row] = was
    packer.look_again(node)
