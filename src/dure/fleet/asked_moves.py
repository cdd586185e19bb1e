"""Moves that people ask for: weighed like any other, but made whether they pay or not.

`weigh` leaves nothing behind, so that a dry run and the move itself rest on the same sum.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Site
from dure.domain.fleet.events import MoveAsked
from dure.domain.fleet.instructions import GlobalInstruction, RefuseMove
from dure.domain.fleet.migrations import MoveKind, kind_of
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet import migration, moving
from dure.fleet.global_state import GlobalState, Grant
from dure.fleet.migration import MoveCandidate, Offers, Running
from dure.fleet.move_offers import job_grant, job_offers, service_grant, service_offers
from dure.fleet.sites import Floats
from dure.fleet.terms import transfer_h
from dure.fleet.tracks import Phase, Track

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Weighed:
    """A move that could be made."""

    track: Track
    kind: MoveKind
    source: Site
    target: Site
    candidate: MoveCandidate
    grant: Grant
    pause_h: float
    """Expected, in which nothing is done: 0 of a service."""


def ask(state: GlobalState, event: MoveAsked) -> list[GlobalInstruction]:
    """Make a move, or say why not."""
    found = weigh(state, event.workload, event.cluster)
    if isinstance(found, str):
        return [RefuseMove(event.workload, found)]
    return [moving.make(state, found.track, found.candidate, found.grant)]


def weigh(state: GlobalState, name: WorkloadId, cluster: ClusterId | None) -> Weighed | str:
    """What a move would come to; where it cannot be made, why."""
    track = state.tracks.get(name)
    if track is None or not track.active:
        return "it has no place to be moved from"
    if track.phase is not Phase.RUNNING:
        moves = track.phase is Phase.MOVING
        return "it is on its way elsewhere already" if moves else "it has not started yet"
    if cluster is not None and (why := _why_not_there(state, track, cluster)):
        return why
    service = track.workload.service
    if service is None:
        running, offers, table = job_offers(state, [track])
        candidate = _best(state, running, offers, cluster)
        if candidate is None:
            return _no_room(cluster)
        grant = job_grant(state, track, table, candidate)
    else:
        running, offers, costs = service_offers(state, track, service)
        candidate = _best(state, running, offers, cluster)
        if candidate is None:
            return _no_room(cluster)
        grant = service_grant(state, track, costs, candidate)
    names = state.sites.names
    return Weighed(
        track,
        kind_of(track.workload),
        names[candidate.source],
        names[candidate.target],
        candidate,
        grant,
        _pause_h(state, track, grant),
    )


def _why_not_there(state: GlobalState, track: Track, cluster: ClusterId) -> str:
    rows = state.sites.sites_of.get(cluster)
    if not rows:
        return f"cluster {cluster} is not known, or has not said what it has"
    here = {state.sites.names[place.site].cluster for place in track.places.values()}
    if cluster in here:
        return f"it is in cluster {cluster} already"
    allowed = track.workload.clusters
    if allowed is not None and cluster not in allowed:
        return f"its owner does not let it run in cluster {cluster}"
    if not any(state.sites.columns.up[row] for row in rows):
        return f"cluster {cluster} takes nothing new: it is closed, or out of reach"
    if not any(track.needs.fits[state.sites.columns.kind[row]] for row in rows):
        return f"cluster {cluster} has no device that it fits on"
    return ""


def _no_room(cluster: ClusterId | None) -> str:
    return f"{'no other cluster has' if cluster is None else f'cluster {cluster} has no'} room now"


def _best(
    state: GlobalState, running: Running, offers: Offers, cluster: ClusterId | None
) -> MoveCandidate | None:
    """The move that saves most among those there is room for; None: there is none."""
    open_sites = _open(state, running, offers, cluster)
    best: MoveCandidate | None = None
    for site in np.flatnonzero(open_sites).tolist():
        found = migration.candidate_at(running, offers, 0, site)
        if best is None or found.saving > best.saving:
            best = found
    return best


def _open(
    state: GlobalState, running: Running, offers: Offers, cluster: ClusterId | None
) -> NDArray[np.bool_]:
    """[M]: where it could go now."""
    columns, names = state.sites.columns, state.sites.names
    wanted: Floats = running.amounts[0]
    enough = (wanted <= moving.room(state) + _SLACK).all(axis=1)
    sums = offers.there[0] + offers.transfer[0] + offers.restart[0] + offers.warm_ns[0]
    elsewhere = columns.cluster != columns.cluster[running.sites[0]]
    there = np.array([cluster is None or each.cluster == cluster for each in names], dtype=np.bool_)
    return np.asarray(enough & np.isfinite(sums) & elsewhere & there)


def _pause_h(state: GlobalState, track: Track, grant: Grant) -> float:
    """From the end at the old place to progress at the new one."""
    if not track.is_job:
        return 0.0
    carried = np.asarray(float(track.workload.gang.checkpoint_bytes))
    speed = np.asarray(state.settings.fleet.bytes_per_s)
    return grant.delay_h + float(transfer_h(carried, speed))
