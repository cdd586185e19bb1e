"""Why a tenant waited: for whom, how long, for which reason and promise; in a sentence or two."""

from collections.abc import Mapping
from dataclasses import dataclass

from dure.agent.books import REASONS, Deeds
from dure.client.schema import HeldFor, HeldReason, WhyAnswer
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S, format_duration
from dure.kernel.goal_words import joined, promises_words, share_words

_NAMES: dict[str, str] = {
    "budget": "having used up its turn",
    "order": "tenants that go before it",
    "promise": "tenants with a promise",
}
_HARDLY = 0.005
"""Held for less than this share of the time is not worth a reason."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to say something about."""

    tenant: str
    deeds: Deeds
    neighbours: Mapping[int, Tenant]
    """By index."""
    policy: str
    clients: int
    gate_note: str | None
    """Why nobody is held at all, if so."""
    gpu: str | None = None


def explain(scene: Scene) -> WhyAnswer:
    """The answer, in words and figures."""
    deeds = scene.deeds
    holders = _holders(scene)
    reasons = _reasons(deeds)
    return WhyAnswer(
        tenant=scene.tenant,
        window_s=deeds.elapsed_ns / NS_PER_S,
        sentences=tuple(_sentences(scene, reasons, holders)),
        held_ns=deeds.held_ns,
        held_share=deeds.share(deeds.held_ns),
        gpu_share=deeds.share(deeds.gpu_ns),
        reasons=reasons,
        holders=holders,
        longest_hold_ns=deeds.longest_hold_ns,
        gpu=scene.gpu,
    )


def _holders(scene: Scene) -> tuple[HeldFor, ...]:
    found = []
    for index, held_ns in scene.deeds.held_for_ns.items():
        neighbour = scene.neighbours.get(index)
        if neighbour is None or held_ns <= 0:
            continue
        words = promises_words(neighbour.slo) or None
        found.append(HeldFor(tenant=neighbour.id, held_ns=held_ns, promise=words))
    return tuple(sorted(found, key=lambda each: -each.held_ns))


def _reasons(deeds: Deeds) -> tuple[HeldReason, ...]:
    found = [
        HeldReason.model_validate({"reason": name, "held_ns": held_ns})
        for name, held_ns in zip(REASONS[1:], deeds.gated_by_ns[1:], strict=True)
        if held_ns > 0
    ]
    return tuple(sorted(found, key=lambda each: -each.held_ns))


def _sentences(
    scene: Scene, reasons: tuple[HeldReason, ...], holders: tuple[HeldFor, ...]
) -> list[str]:
    deeds, name = scene.deeds, scene.tenant
    span = format_duration(deeds.elapsed_ns)
    if scene.clients == 0:
        return [f"{name} has no process on this GPU."]
    got = f"it had {share_words(round(deeds.share(deeds.gpu_ns), 3))} of the device's time"
    if deeds.share(deeds.held_ns) < _HARDLY:
        because = f", since {scene.gate_note}" if scene.gate_note else ""
        return [f"{name} was not held by others in the last {span}{because}; {got}."]
    held = (
        f"{name} was held for {format_duration(deeds.held_ns)} of the last {span} "
        f"(at most {format_duration(deeds.longest_hold_ns)} at a time) under '{scene.policy}', "
        f"mostly waiting for {_waited_for(reasons, holders)}; {got}."
    )
    return [held, *_remedies(scene, reasons, holders)]


def _main(reasons: tuple[HeldReason, ...]) -> str:
    """What it was mostly held by, its own work in flight apart."""
    return next((each.reason for each in reasons if each.reason != "in-flight"), "order")


def _waited_for(reasons: tuple[HeldReason, ...], holders: tuple[HeldFor, ...]) -> str:
    main = _main(reasons)
    if main in ("order", "promise") and holders:
        shown = holders[:2]
        return joined(
            f"{each.tenant} ({format_duration(each.held_ns)}"
            + (f", promised {each.promise})" if each.promise else ")")
            for each in shown
        )
    return _NAMES[main]


def _remedies(
    scene: Scene, reasons: tuple[HeldReason, ...], holders: tuple[HeldFor, ...]
) -> list[str]:
    """What its owner could do."""
    main = _main(reasons)
    if main == "promise" and holders:
        return [
            f"Relax the promise of {holders[0].tenant} or give {scene.tenant} a floor "
            f"(`dure set {scene.tenant} sm_share=20%`) to have it wait less."
        ]
    if main == "budget":
        return [f"Raise its weight (`dure set {scene.tenant} weight=2`) for longer turns."]
    return []
