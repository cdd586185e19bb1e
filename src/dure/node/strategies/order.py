"""Who is next: classes with ageing, then first come, first served, except near a deadline."""

from collections.abc import Collection, Sequence

from dure.domain.ids import GpuUuid
from dure.node.history import History
from dure.node.settings import NodeSettings
from dure.node.units import Unit


def effective_class(unit: Unit, now_ns: int, settings: NodeSettings) -> int:
    """Its class, lifted by one for each while it has waited."""
    waited_ns = now_ns - unit.wait_ns if unit.wait_ns is not None else 0
    return unit.priority + int(waited_ns * unit.weight // settings.ageing_ns)


def in_order(
    units: Sequence[Unit],
    ahead_ns: int,
    now_ns: int,
    history: History,
    settings: NodeSettings,
    crowded: Collection[GpuUuid] = (),
) -> list[Unit]:
    """Units that wait, next one first; `ahead_ns` is what those who run will still take.

    Within a class it is first come, first served; on a crowded GPU, for which a risk is foreseen,
    the shortest burst goes first. Who would miss its deadline that way and can
    still make it goes before its class, the earliest deadline first.
    """
    queue = sorted(
        units,
        key=lambda u: (
            -effective_class(u, now_ns, settings),
            (u.burst_ns(history) or 0) if crowded and not u.gpus.isdisjoint(crowded) else 0,
            *u.arrival_order(),
        ),
    )
    if all(unit.deadline_ns is None for unit in queue):
        return queue
    urgent: list[Unit] = []
    start_ns = now_ns + ahead_ns
    for unit in queue:
        length_ns = unit.burst_ns(history) or 0
        deadline_ns = unit.deadline_ns
        if deadline_ns is not None and start_ns + length_ns > deadline_ns >= now_ns + length_ns:
            urgent.append(unit)
        start_ns += length_ns
    if not urgent:
        return queue
    urgent.sort(key=lambda u: (u.deadline_ns or 0, *u.arrival_order()))
    placed: list[Unit] = []
    classes = {u.key: effective_class(u, now_ns, settings) for u in queue}
    rest = [unit for unit in queue if unit not in urgent]
    for unit in rest:
        while urgent and classes[urgent[0].key] >= classes[unit.key]:
            placed.append(urgent.pop(0))
        placed.append(unit)
    return placed + urgent
