"""Looks for running work that would be so much cheaper elsewhere that a move pays."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.instructions import GlobalInstruction, MoveWorkload
from dure.domain.fleet.workloads import Service
from dure.fleet import migration
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.migration import MoveCandidate
from dure.fleet.move_offers import job_grant, job_offers, service_grant, service_offers
from dure.fleet.service_round import merge_parts, wanted_parts
from dure.fleet.sites import Floats
from dure.fleet.tracks import FOR_EVER_NS, HOUR_NS, Phase, Track

_MOST_LOOKED_AT = 256
"""Running workloads that one scan prices everywhere: those that still cost most."""
_LEAST_LEFT_H = 0.5
"""Work with less left to run is not worth the trouble."""
MOVE_PATIENCE_NS = 6 * HOUR_NS
"""A move that has not happened by then is given up."""


def scan(state: GlobalState) -> list[GlobalInstruction]:
    """Moves worth making now; gives up those that never happened."""
    _give_up(state)
    _see_who_stays(state)
    policy = state.policy
    if not policy.migrate or len(state.sites) < 2:
        return []
    in_flight = sum(1 for name in state.moving if name in state.tracks)
    jobs = _worth_a_look(state)
    instructions: list[GlobalInstruction] = []
    if jobs:
        running, offers, table = job_offers(state, jobs)
        offers = replace(offers, there=np.where(_held_sites(state), np.inf, offers.there))
        for move in migration.scan(running, offers, room(state), policy, state.now_ns, in_flight):
            track = jobs[move.row]
            grant = job_grant(state, track, table, move)
            instructions.append(make(state, track, move, grant, dry_run=policy.dry_run))
            in_flight += 1
    instructions += _services(state, in_flight)
    return instructions


def room(state: GlobalState) -> Floats:
    """[M, D]: what is left at each site; less than nothing where nothing new may go."""
    columns = state.sites.columns
    return np.where(columns.up[:, None], columns.free, -1.0)


def _give_up(state: GlobalState) -> None:
    """Release targets of moves that did not take place."""
    for name in list(state.moving):
        track = state.tracks.get(name)
        if track is None or track.phase is not Phase.MOVING:
            state.moving.discard(name)
            continue
        newest = max(track.places)
        if track.is_job and len(track.places) == 1:
            # It has left its old place: there is nothing to go back to, the new one must take it.
            track.phase = Phase.PLACED
            state.moving.discard(name)
        elif state.now_ns - track.places[newest].ordered_ns > MOVE_PATIENCE_NS:
            state.release(track, newest, undone=True)
            track.phase = Phase.RUNNING
            state.moving.discard(name)


def stays(state: GlobalState, track: Track, lost: int) -> None:
    """A workload that was moving has lost the place it was to go to: it stays where it is."""
    if track.phase is Phase.MOVING and track.places and lost > max(track.places):
        track.phase = Phase.RUNNING
        state.moving.discard(track.id)


def is_held(state: GlobalState, track: Track) -> bool:
    """Whether a workload is not to be moved by itself now."""
    held = state.held
    if track.id in held.workloads or track.workload.tenant in held.tenants:
        return True
    names = state.sites.names
    return any(names[place.site].cluster in held.clusters for place in track.places.values())


def _held_sites(state: GlobalState) -> NDArray[np.bool_]:
    """[M]: where nothing is to be moved by itself now."""
    clusters = [state.sites.names[row].cluster for row in range(len(state.sites))]
    return np.array([each in state.held.clusters for each in clusters], dtype=np.bool_)


def _see_who_stays(state: GlobalState) -> None:
    """Learn how long work stays where it is."""
    running, sites = state.running, len(state.sites)
    for_ever = running.end_ns >= FOR_EVER_NS
    for tenure, rows in (
        (state.job_tenure, running.used & ~for_ever & _has_much_left(state)),
        (state.service_tenure, running.used & for_ever),
    ):
        there = np.bincount(running.site[rows], minlength=sites).astype(np.float64)
        tenure.pass_time(state.now_ns, there)


def _has_much_left(state: GlobalState) -> NDArray[np.bool_]:
    """[rows of running work]: whether there is enough to do for it to be worth a move."""
    return np.asarray(state.running.end_ns - state.now_ns > _LEAST_LEFT_H * HOUR_NS)


def left_early(state: GlobalState, track: Track, attempt: int) -> None:
    """A place is lost to a workload that would have stayed: displaced, moved or cut short."""
    place = track.places[attempt]
    if not track.is_job:
        state.service_tenure.leave(place.site)
    elif state.running.end_ns[place.row] - state.now_ns > _LEAST_LEFT_H * HOUR_NS:
        state.job_tenure.leave(place.site)


def _worth_a_look(state: GlobalState) -> list[Track]:
    """Running jobs with the most still to pay."""
    running = state.running
    left_ns = running.end_ns - state.now_ns
    mask = running.used & (running.end_ns < FOR_EVER_NS) & _has_much_left(state)
    rows = np.flatnonzero(mask)
    length = np.maximum(running.end_ns[rows] - running.start_ns[rows], 1)
    still = running.money[rows] * left_ns[rows] / length
    found = []
    for row in rows[np.argsort(-still, kind="stable")]:
        owner = running.owner[row]
        track = state.tracks[owner] if owner is not None else None
        if track is None or track.phase is not Phase.RUNNING:
            continue
        if state.policy.of(track.workload.kind).migrate and not is_held(state, track):
            found.append(track)
        if len(found) == _MOST_LOOKED_AT:
            break
    return found


def _attempt_at(track: Track, site: int) -> int:
    return next(attempt for attempt, place in track.places.items() if place.site == site)


def make(
    state: GlobalState, track: Track, move: MoveCandidate, grant: Grant, *, dry_run: bool = False
) -> GlobalInstruction:
    """Order a workload elsewhere; its old place stays until the new one runs."""
    source = state.sites.names[move.source].cluster
    if dry_run:
        order = Order(
            workload=track.workload,
            site=state.sites.names[grant.site],
            attempt=track.attempt + 1,
            instances=grant.instances,
            resume_share=track.saved_share,
            start_ns=state.now_ns,
            explanation=grant.explanation,
        )
        return MoveWorkload(track.id, source, order, move.saving, dry_run=True)
    left_early(state, track, min(track.places) if track.is_job else _attempt_at(track, move.source))
    order = state.place(track, grant)
    track.phase = Phase.MOVING
    track.moved_ns = state.now_ns
    state.moving.add(track.id)
    return MoveWorkload(
        track.id,
        source,
        order,
        move.saving,
        egress=move.transfer,
        carbon_saved_g=grant.carbon_saved_g,
    )


def _services(state: GlobalState, in_flight: int) -> list[GlobalInstruction]:
    """Moves of services, one part at a time, the dearest parts first; and parts given up."""
    policy = state.policy
    if not policy.serving.migrate:
        return []
    running = state.running
    rows = np.flatnonzero(running.used & (running.end_ns >= FOR_EVER_NS))
    rows = rows[np.argsort(-running.money[rows], kind="stable")][:_MOST_SERVICES]
    instructions: list[GlobalInstruction] = []
    for row in rows:
        owner = running.owner[row]
        track = state.tracks[owner] if owner is not None else None
        if track is None or track.phase is not Phase.RUNNING or track.workload.service is None:
            continue
        if is_held(state, track):
            continue
        service = track.workload.service
        found = merge_parts(state, track, service)
        found = found or _service_move(state, track, service, in_flight)
        in_flight += bool(found)
        instructions += found
    return instructions


def _service_move(
    state: GlobalState, track: Track, service: Service, in_flight: int
) -> list[GlobalInstruction]:
    """A better cluster for the dearest part of a service, if a move there pays."""
    if len(track.places) > wanted_parts(service, track, state):
        return []
    running, offers, costs = service_offers(state, track, service)
    offers = replace(offers, there=np.where(_held_sites(state), np.inf, offers.there))
    free = state.sites.columns.free
    moves = migration.scan(running, offers, free, state.policy, state.now_ns, in_flight)
    if not moves:
        return []
    grant = service_grant(state, track, costs, moves[0])
    return [make(state, track, moves[0], grant, dry_run=state.policy.dry_run)]


_MOST_SERVICES = 64
"""Parts of services that one scan looks at."""
