"""Which accelerators a node has: its extended resources and labels, matched to the catalogue."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import ShareMode, SliceTemplate
from dure.kube import labels as own_labels
from dure.kube.quantities import whole
from dure.kube.resources import Object

GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_MEMORY = "nvidia.com/gpu.memory"
"""In MiB."""
GPU_COUNT = "nvidia.com/gpu.count"
GPU_REPLICAS = "nvidia.com/gpu.replicas"
GPU_SHARING = "nvidia.com/gpu.sharing-strategy"
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_MEMORY_SLACK = 0.15
"""Products are told apart by memory within this share: what drivers report is a little less."""
_MIB = 1024**2
_GB = 1000**3
_INSTANCE_PREFIXES = {"inf2": "inferentia2", "trn1": "trainium"}
"""Chips that share resource names, by the family of their machines."""
_LOOKS_LIKE_ONE = re.compile(r"gpu|npu|tpu|mig-|neuron|ascend|gaudi|hpu|rngd|accel|xilinx|habana")
_STRATEGIES = {"mps": ShareMode.MPS, "time-slicing": ShareMode.TIME_SLICE}
_SINGLE_MIG = re.compile(r"-mig-(?P<template>[0-9]+g\.[0-9]+gb)$")


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The accelerators of a node, all of one kind and shared in one way."""

    profile: DeviceProfile
    count: int
    mode: ShareMode
    resources: tuple[tuple[str, int], ...] = ()
    """Extended resources it offers of them."""
    shared_resource: str = ""
    """What a holder of a share asks for, where it is not what the catalogue says."""
    driver: str = ""
    """Driver whose claims give them out; empty: extended resources do."""

    def resource_of(self, template: str) -> str:
        """The extended resource that a holder of a slice asks for."""
        if self.shared_resource:
            return self.shared_resource
        return self.profile.slice(template or "whole").resource_name

    @property
    def taint_keys(self) -> tuple[str, ...]:
        """Taints that administrators put on such nodes to keep others away."""
        offered = (name for name, _ in self.resources)
        return tuple(dict.fromkeys((self.profile.whole.resource_name, *offered)))

    def offers(self, resource: str) -> int:
        """How many of an extended resource the node has in all."""
        return dict(self.resources).get(resource, 0)


class UnknownDevicesError(DureError):
    """A node has accelerators that nobody can name."""

    def __init__(self, what: str) -> None:
        known = ", ".join(CATALOGUE)
        super().__init__(what, f"label the node {own_labels.PROFILE} with one of {known}")


def node_devices(node: Object) -> NodeDevices | None:
    """The accelerators a node offers as extended resources; None: it has none.

    Raises `UnknownDevicesError` where it has some that are not in the catalogue.
    """
    labels = node["metadata"].get("labels") or {}
    has = (node.get("status") or {}).get("allocatable") or {}
    extended = {name: whole(amount) for name, amount in has.items() if "/" in name}
    offered = {name: amount for name, amount in extended.items() if amount > 0}
    known = {name: amount for name, amount in offered.items() if name in _OFFERED_BY}
    if not known:
        odd = sorted(name for name in offered if _LOOKS_LIKE_ONE.search(name.lower()))
        if odd:
            where = node["metadata"]["name"]
            raise UnknownDevicesError(f"node {where} has {', '.join(odd)}, which is not known")
        return None
    profile = _profile(node["metadata"]["name"], labels, known)
    return _divided(profile, labels, known)


def _offerings() -> dict[str, tuple[DeviceProfile, ...]]:
    found: dict[str, list[DeviceProfile]] = {}
    for profile in CATALOGUE.values():
        for resource in profile.resource_names:
            found.setdefault(resource, []).append(profile)
    return {resource: tuple(profiles) for resource, profiles in found.items()}


_OFFERED_BY = _offerings()
"""Profiles by the extended resources they can appear as."""


def _profile(name: str, labels: Mapping[str, str], known: Mapping[str, int]) -> DeviceProfile:
    """The one profile that resources and labels allow."""
    stated = labels.get(own_labels.PROFILE, "").lower()
    if stated:
        if stated not in CATALOGUE:
            raise UnknownDevicesError(f"node {name} is labelled {own_labels.PROFILE}={stated}")
        return CATALOGUE[stated]
    candidates = [
        profile
        for profile in CATALOGUE.values()
        if all(profile in _OFFERED_BY[resource] for resource in known)
    ]
    product = labels.get(GPU_PRODUCT, "")
    if product:
        candidates = matching(product, _memory_bytes(labels), candidates)
    family = labels.get(_INSTANCE_TYPE, "").split(".")[0]
    if len(candidates) > 1 and family in _INSTANCE_PREFIXES:
        candidates = [one for one in candidates if one.name == _INSTANCE_PREFIXES[family]]
    if len(candidates) != 1:
        what = f" ({product})" if product else ""
        among = ", ".join(one.name for one in candidates) or "nothing that is known"
        raise UnknownDevicesError(f"node {name} has {', '.join(known)}{what}: {among}")
    return candidates[0]


def _memory_bytes(labels: Mapping[str, str]) -> int:
    stated = labels.get(GPU_MEMORY, "")
    return int(stated) * _MIB if stated.isdigit() else 0


def matching(
    product: str, memory_bytes: int, candidates: Iterable[DeviceProfile]
) -> list[DeviceProfile]:
    """The profiles a product's name means: by model, then by memory where that is known.

    `memory_bytes` of a node whose devices are divided is that of a slice: the name goes first.
    """
    words = [word for word in re.split(r"[^a-z0-9.]+", product.lower()) if word]
    found = [one for one in candidates if one.name.split("-")[0] in words]
    sizes = [int(match[1]) * _GB for word in words if (match := re.fullmatch(r"(\d+)gb", word))]
    size = sizes[0] if sizes else memory_bytes
    if len(found) > 1 and size:
        near = [
            one for one in found if abs(one.memory_bytes - size) <= _MEMORY_SLACK * one.memory_bytes
        ]
        return near or found
    return found


def _divided(
    profile: DeviceProfile, labels: Mapping[str, str], known: Mapping[str, int]
) -> NodeDevices:
    """How many devices there are, and how they are shared."""
    resources = tuple(sorted(known.items()))
    stated = labels.get(own_labels.SHARE, "")
    single = _SINGLE_MIG.search(labels.get(GPU_PRODUCT, "").lower())
    replicas = max(1, _number(labels, GPU_REPLICAS))
    counted = _number(labels, GPU_COUNT)
    main = profile.whole.resource_name
    slices = _slices(profile, known)
    if stated and ShareMode(stated) in profile.modes:
        mode = ShareMode(stated)
        return NodeDevices(profile, counted or known.get(main, 0) or 1, mode, resources)
    if single:
        template = profile.slice(single["template"])
        count = counted or -(-known.get(main, 0) // template.most)
        return NodeDevices(profile, count, ShareMode.MIG, resources, main)
    if slices and main not in known:
        slots = sum(template.slots * count for template, count in slices)
        size = slices[0][0].device_slots
        return NodeDevices(profile, counted or -(-slots // size), slices[0][0].mode, resources)
    shared = f"{main}.shared" if f"{main}.shared" in known else main
    if shared != main or replicas > 1:
        mode = _STRATEGIES.get(labels.get(GPU_SHARING, ""), ShareMode.TIME_SLICE)
        count = counted or -(-known[shared] // replicas)
        return NodeDevices(profile, count, mode, resources, shared)
    return NodeDevices(profile, known[main], ShareMode.WHOLE, resources)


def _slices(profile: DeviceProfile, known: Mapping[str, int]) -> list[tuple[SliceTemplate, int]]:
    return [
        (template, known[template.resource_name])
        for template in profile.slices
        if template.mode in (ShareMode.MIG, ShareMode.CORE_GROUP)
        and template.resource_name in known
        and template.resource_name != profile.whole.resource_name
    ]


def _number(labels: Mapping[str, str], key: str) -> int:
    stated = labels.get(key, "")
    return int(stated) if stated.isdigit() else 0
