"""A DRA driver on paper: publishes divisible GPUs of nodes that have none, for demos and tests.

Devices look as a driver's with dynamic MIG do: every slice a GPU could be cut into is a device
that takes its memory slots from the GPU's counters, so no two slices that overlap are given out.
"""

from collections.abc import Iterator

from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import MIG_COMPUTE_SLICES, MIG_SLOTS, ShareMode, SliceTemplate
from dure.kube.resources import Object

DRIVER = "paper.dure.io"
MOST_PER_SLICE = 64
"""Devices of one ResourceSlice where they take from counters."""
MOST_COUNTER_SETS = 8
"""Counter sets of one ResourceSlice."""


def device_slices(node: str, profile: DeviceProfile, count: int) -> list[Object]:
    """The ResourceSlices that publish a node's GPUs and everything they can be cut into."""
    devices = [device for number in range(count) for device in _devices_of(node, number, profile)]
    sets = [_counters(number) for number in range(count)]
    contents: list[Object] = [
        {"sharedCounters": sets[first : first + MOST_COUNTER_SETS]}
        for first in range(0, count, MOST_COUNTER_SETS)
    ]
    contents += [
        {"devices": devices[first : first + MOST_PER_SLICE]}
        for first in range(0, len(devices), MOST_PER_SLICE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {
            "metadata": {"name": f"{node}-{DRIVER}-{number}"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **content},
        }
        for number, content in enumerate(contents)
    ]


def _counters(number: int) -> Object:
    slots = {f"memory-slice-{slot}": {"value": "1"} for slot in range(MIG_SLOTS)}
    return {
        "name": f"gpu-{number}",
        "counters": {**slots, "compute-slices": {"value": str(MIG_COMPUTE_SLICES)}},
    }


def _devices_of(node: str, number: int, profile: DeviceProfile) -> Iterator[Object]:
    uuid = f"GPU-{node}-{number}"
    yield {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": uuid},
            "index": {"int": number},
            "productName": {"string": f"NVIDIA {profile.product}"},
        },
        "capacity": {"memory": {"value": str(profile.memory_bytes)}},
        "consumesCounters": [_counters_taken(number, range(MIG_SLOTS), MIG_COMPUTE_SLICES)],
    }
    for template in profile.slices:
        if template.mode is ShareMode.MIG:
            for start in template.starts:
                yield _slice_of(number, uuid, template, start)


def _slice_of(number: int, uuid: str, template: SliceTemplate, start: int) -> Object:
    compute = round(template.compute_milli * MIG_COMPUTE_SLICES / 1000)
    plain = template.name.replace(".", "")
    return {
        "name": f"gpu-{number}-mig-{plain}-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "parentUUID": {"string": uuid},
            "parentIndex": {"int": number},
            "profile": {"string": template.name},
            "placementStart": {"int": start},
        },
        "capacity": {"memory": {"value": str(template.memory_bytes)}},
        "consumesCounters": [
            _counters_taken(number, range(start, start + template.slots), compute)
        ],
    }


def _counters_taken(number: int, slots: range, compute: int) -> Object:
    taken = {f"memory-slice-{slot}": {"value": "1"} for slot in slots}
    return {
        "counterSet": f"gpu-{number}",
        "counters": {**taken, "compute-slices": {"value": str(compute)}},
    }
