"""Devices that drivers give out by claims (DRA): what a node offers, and claims for exact slots.

Which device a slice is comes from its counters: those it takes name its GPU and its slots, whoever
made the driver. The claim then selects that one device by its own attributes.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.slices import ShareMode
from dure.kube.devices import NodeDevices, UnknownDevicesError, matching
from dure.kube.quantities import whole
from dure.kube.resources import Object
from dure.member.kube.spots import NodeSpot

WHOLE = "whole"
_SLOT = re.compile(r"slice[-_]?(\d+)$", re.IGNORECASE)
"""Ends the name of a counter that stands for one slot."""
_PRODUCT_ATTRIBUTES = ("productName", "product", "model")
_PROFILE_ATTRIBUTE = "profile"


@dataclass(frozen=True, slots=True)
class Offer:
    """One device a driver would give."""

    driver: str
    name: str
    parent: str
    """The counters it takes from, or itself."""
    slots: int
    """As a mask; 0: it has none."""
    template: str
    attributes: Mapping[str, Any]
    """By name with its domain: text, number or truth."""
    memory_bytes: int

    def attribute(self, name: str) -> Any:
        """One by its name without a domain."""
        return self.attributes.get(f"{self.driver}/{name}")

    @property
    def selector(self) -> str:
        """A CEL expression that is true of this device alone on its node."""
        terms = [f"device.driver == {json.dumps(self.driver)}"]
        for name, value in sorted(self.attributes.items()):
            domain, _, own = name.rpartition("/")
            field = f"device.attributes[{json.dumps(domain)}].{own}"
            terms.append(f"has({field}) && {field} == {json.dumps(value)}")
        return " && ".join(terms)


class NodeOffers:
    """Everything drivers publish for one node."""

    def __init__(self, node: str, offers: Sequence[Offer]) -> None:
        self.node = node
        self.offers = offers
        parents = {offer.parent: _order(offer) for offer in offers if offer.template == WHOLE}
        rest = {offer.parent for offer in offers} - parents.keys()
        self._parents = sorted(parents, key=lambda parent: parents[parent])
        self._parents += sorted(rest, key=_natural)
        self._by_place: dict[tuple[str, str, int], Offer] = {}
        for offer in offers:
            slots = 0 if offer.template == WHOLE else offer.slots
            self._by_place[offer.parent, offer.template, slots] = offer
        self._numbers = {offer.name: self._parents.index(offer.parent) for offer in offers}

    def devices(self) -> NodeDevices:
        """What the node has; raises `UnknownDevicesError` for what is not in the catalogue."""
        product = next(
            (
                str(found)
                for offer in self.offers
                for name in _PRODUCT_ATTRIBUTES
                if (found := offer.attribute(name))
            ),
            "",
        )
        memory_bytes = max((offer.memory_bytes for offer in self.offers), default=0)
        found = matching(product, memory_bytes, CATALOGUE.values())
        if len(found) != 1:
            among = ", ".join(one.name for one in found) or "nothing that is known"
            raise UnknownDevicesError(f"node {self.node} offers '{product}' by claims: {among}")
        divided = any(offer.template != WHOLE for offer in self.offers)
        mode = ShareMode.MIG if divided else ShareMode.WHOLE
        return NodeDevices(found[0], len(self._parents), mode, driver=self.offers[0].driver)

    def chosen(self, spot: NodeSpot) -> tuple[Offer, ...]:
        """The devices that are a spot; raises where the driver does not offer them."""
        template = spot.template or WHOLE
        found = []
        for rank, device in enumerate(spot.devices):
            slots = spot.masks[rank] if template != WHOLE and rank < len(spot.masks) else 0
            parent = self._parents[device] if device < len(self._parents) else ""
            offer = self._by_place.get((parent, template, slots))
            if offer is None:
                raise DureError(
                    f"no driver of node {self.node} offers {template} at slots {slots:#b} of "
                    f"device {device}",
                    "check what its ResourceSlices publish",
                )
            if sum(other.selector == offer.selector for other in self.offers) > 1:
                raise DureError(
                    f"device {offer.name} of node {self.node} has no attributes of its own",
                    "use a driver that publishes parent, profile and placement of its devices",
                )
            found.append(offer)
        return tuple(found)

    def numbers(self, names: Iterable[str]) -> set[int]:
        """The devices that published devices of these names are, or are slices of."""
        return {self._numbers[name] for name in names if name in self._numbers}


def read_offers(slices: Iterable[Object]) -> dict[str, NodeOffers]:
    """What is offered by node; of each pool only its newest generation."""
    newest: dict[tuple[str, str], int] = {}
    specs = [thing["spec"] for thing in slices if thing["spec"].get("nodeName")]
    for spec in specs:
        pool = (spec["driver"], spec["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), spec["pool"]["generation"])
    by_node: dict[str, list[Offer]] = {}
    for spec in specs:
        pool = (spec["driver"], spec["pool"]["name"])
        if spec["pool"]["generation"] == newest[pool]:
            offers = [_offer(spec["driver"], device) for device in spec.get("devices") or ()]
            by_node.setdefault(spec["nodeName"], []).extend(offers)
    return {node: NodeOffers(node, offers) for node, offers in by_node.items() if offers}


def claim_spec(offers: Sequence[Offer], device_class: str) -> Object:
    """A claim's spec for exactly these devices."""
    requests = [
        {"name": f"device-{rank}", "exactly": _exactly(offer.selector, device_class, 1)}
        for rank, offer in enumerate(offers)
    ]
    return {"devices": {"requests": requests}}


def gang_claim_spec(ranks: Sequence[Sequence[Offer]], device_class: str) -> Object:
    """A spec that every rank of a gang can have: devices that are one of the gang's.

    With each rank bound to its node, ranks of one node may swap devices among themselves only.
    """
    selectors = sorted({offer.selector for rank in ranks for offer in rank})
    either = " || ".join(f"({selector})" for selector in selectors)
    request = {"name": "device", "exactly": _exactly(either, device_class, len(ranks[0]))}
    return {"devices": {"requests": [request]}}


def allocated(claim: Object) -> tuple[str, ...]:
    """Names of the devices a claim was given; empty: none yet."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return tuple(str(result["device"]) for result in results)


def allocated_pools(claim: Object) -> dict[str, list[str]]:
    """Names of the devices a claim was given, by pool, which drivers of nodes name like these."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: dict[str, list[str]] = {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        found.setdefault(str(result["pool"]), []).append(str(result["device"]))
    return found


def _exactly(selector: str, device_class: str, count: int) -> Object:
    return {
        "deviceClassName": device_class,
        "selectors": [{"cel": {"expression": selector}}],
        "allocationMode": "ExactCount",
        "count": count,
    }


def _offer(driver: str, device: Mapping[str, Any]) -> Offer:
    taken = device.get("consumesCounters") or ()
    slots = 0
    for counters in taken:
        for name, amount in counters["counters"].items():
            slot = _SLOT.search(name)
            if slot and whole(amount["value"]) > 0:
                slots |= 1 << int(slot[1])
    attributes = _attributes(driver, device.get("attributes") or {})
    memory = (device.get("capacity") or {}).get("memory") or {}
    return Offer(
        driver=driver,
        name=str(device["name"]),
        parent=str(taken[0]["counterSet"]) if taken else str(device["name"]),
        slots=slots,
        template=str(attributes.get(f"{driver}/{_PROFILE_ATTRIBUTE}", WHOLE)),
        attributes=attributes,
        memory_bytes=whole(memory.get("value", 0)),
    )


def _attributes(driver: str, stated: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in stated.items():
        qualified = name if "/" in name else f"{driver}/{name}"
        for kind in ("string", "int", "bool"):
            if kind in value:
                found[qualified] = value[kind]
    return found


def _order(offer: Offer) -> tuple[Any, ...]:
    index = offer.attribute("index")
    return (index if isinstance(index, int) else 1 << 30, *_natural(offer.parent))


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Sorts `gpu-10` after `gpu-9`."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
