"""A service without any replica comes before what others have in reserve.

First room that is kept for others' peaks is given up. Then, where that is not enough, it is sent to
a cluster in which others have replicas to spare: the cluster stops some of them for it. Who still
has none after a while is named in a warning.
"""

from dataclasses import replace

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, PlaceWorkload, Warn
from dure.domain.fleet.workloads import Service
from dure.fleet.fit import replicas_for
from dure.fleet.global_state import GlobalState
from dure.fleet.service_round import best_place, part_grant, service_costs
from dure.fleet.sites import Floats
from dure.fleet.tracks import PlaceRow, Track

_PAIR = 2
"""Replicas that a service keeps when another has none, whatever its load."""
_SLACK = 1e-9


def from_kept_room(state: GlobalState, tracks: list[Track]) -> list[GlobalInstruction]:
    """Place services that have no place where only room kept for others' peaks was in their way."""
    instructions: list[GlobalInstruction] = []
    for track in tracks:
        service = track.workload.service
        if service is None or track.places:
            continue
        costs = service_costs(state, track, service)
        kept = np.asarray(state.sites.columns.kept.any(axis=1))
        for site in np.argsort(costs.total, kind="stable").tolist():
            if not np.isfinite(costs.total[site]):
                break
            if kept[site] and _give_up_kept(state, track, service, site):
                grant = best_place(state, track, service)
                assert grant is not None
                least = min(grant.instances, int(costs.least[grant.site]))
                instructions.append(
                    PlaceWorkload(state.place(track, replace(grant, instances=least)))
                )
                break
    return instructions


def _give_up_kept(state: GlobalState, track: Track, service: Service, site: int) -> bool:
    """Free room kept at a site, the largest first, until a service fits; else all stays kept."""
    given: list[tuple[Track, PlaceRow, int]] = []
    others = sorted(_there(state, site), key=lambda each: (-each[1].kept, each[0].id))
    for other, place in others:
        if not place.kept or other.priority > track.priority:
            continue
        given.append((other, place, place.kept))
        state.set_kept(other, place, 0)
        grant = best_place(state, track, service)
        if grant is not None and grant.site == site:
            return True
    for other, place, kept in given:
        state.set_kept(other, place, kept)
    return False


def from_spare_replicas(state: GlobalState, tracks: list[Track]) -> list[GlobalInstruction]:
    """Send services that have no place to where others have replicas to spare."""
    instructions: list[GlobalInstruction] = []
    for track in tracks:
        service = track.workload.service
        if service is None or track.places or track.workload.pool is not None:
            continue
        columns = state.sites.columns
        costs = service_costs(state, track, service)
        unit = track.needs.usage[columns.kind]
        for site in np.argsort(costs.total, kind="stable").tolist():
            if not np.isfinite(costs.total[site]):
                break
            # What was promised to others before is missing in what is free, down to below nothing.
            room = columns.free[site] + _spare(state, track, site)
            if (room < unit[site] - _SLACK).any():
                continue
            note = "; others' spare replicas give way"
            grant = part_grant(state, costs, site, int(costs.least[site]), None)
            reason = replace(grant.explanation, note=grant.explanation.note + note)
            grant = replace(grant, explanation=reason, makes_room=True)
            instructions.append(PlaceWorkload(state.place(track, grant)))
            break
    return instructions


def _there(state: GlobalState, site: int) -> list[tuple[Track, PlaceRow]]:
    """Services with a place at a site."""
    return [
        (track, place)
        for track in state.tracks.values()
        if not track.is_job
        for place in track.places.values()
        if place.site == site
    ]


def _spare(state: GlobalState, track: Track, site: int) -> Floats:
    """[D]: what replicas that others can spare take at a site."""
    kind = state.sites.columns.kind[site]
    profile = state.sites.kinds[kind][0]
    sums = np.zeros(state.sites.columns.free.shape[1])
    for other, place in _there(state, site):
        service = other.workload.service
        if service is None or other.priority > track.priority or other.workload.pool is not None:
            continue
        have = place.replicas or place.instances
        rate = state.loads.last(other.id)
        budget = service.target_latency_ms - float(state.way_ms(service.users)[site])
        load = (service.requests_per_s if rate is None else rate) / len(other.places)
        needed = replicas_for(other.workload, profile, load, budget)
        least = max(1, service.warm_minimum)
        spare = max(have - max(least, needed), have - max(least, _PAIR), 0)
        sums += other.needs.usage[kind] * spare
    return sums


def warn_of_unserved(state: GlobalState, told: set[str]) -> list[GlobalInstruction]:
    """Name services that have had no replica for long; each once until it has one again."""
    news: list[GlobalInstruction] = []
    told.intersection_update(state.unstarted)
    for track in sorted(state.unstarted.values(), key=lambda each: each.number):
        without_ns = state.now_ns - track.pending_ns
        if without_ns < state.settings.unserved_warning_ns or track.id in told:
            continue
        told.add(track.id)
        news.append(
            Warn(
                f"service '{track.id}'",
                f"has had no replica for {without_ns / 60e9:.0f} min: "
                + (track.why or "its cluster has not started one"),
                "add devices it can use, raise its priority, or lower what others keep warm",
            )
        )
    return news
