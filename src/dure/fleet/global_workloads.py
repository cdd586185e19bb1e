"""What the centre does about news of workloads: from their submission to their end."""

from dure.domain.fleet.events import (
    OrderTurnedDown,
    ServiceObserved,
    UsageObserved,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    PreemptWorkload,
    RefuseWorkload,
    Warn,
)
from dure.domain.fleet.workloads import WhenCutOff
from dure.fleet import moving
from dure.fleet.costs import possible
from dure.fleet.fit import never_fits
from dure.fleet.global_state import GlobalState
from dure.fleet.holding import job_work
from dure.fleet.rightsizing import UseBook
from dure.fleet.service_round import observe_load, wanted_parts
from dure.fleet.tracks import FOR_EVER_NS, HOUR_NS, Phase, Track, after_h

LATE_JOB_STRAIN = 0.1
"""How much one late job counts, of a class in full violation."""
SERVICE_STRAIN = 0.05
"""How much one observation of one service counts; there are many."""
OBSERVED_SHARE = 0.2
"""Weight of a new observation in a smoothed one."""


class WorkloadNews:
    """Takes in events of workloads."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._sizes = UseBook()

    def submitted(self, event: WorkloadSubmitted) -> list[GlobalInstruction]:
        """Known from now on, and looked at in the next round; refused where it can never fit."""
        state, workload = self._state, event.workload
        known = state.tracks.get(workload.id)
        if known is not None:
            if known.workload == workload:
                return []
            return [Warn(workload.id, "was submitted before and is known", "use another id")]
        track = state.track(workload)
        track.attempt, track.saved_share = event.last_attempt, event.saved_share
        track.done_share = track.saved_share
        if len(state.sites) and not possible(track, state.sites).any():
            groups = [
                (name, group)
                for name, cluster in state.sites.clusters.items()
                for group in cluster.groups
            ]
            reason = never_fits(workload, groups)
            if reason is not None:
                state.drop(track)
                return [RefuseWorkload(workload.id, *reason)]
        if state.policy.carbon_budget_g is not None:
            state.adaptation.pacer.arrived(state.now_ns, job_work(track)[0])
        state.waiting.admit(track)
        return []

    def withdrawn(self, event: WorkloadWithdrawn) -> list[GlobalInstruction]:
        """Its tenant no longer wants it."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None:
            return []
        stops: list[GlobalInstruction] = [
            PreemptWorkload(
                workload=track.id,
                cluster=state.sites.names[place.site].cluster,
                attempt=attempt,
                wanted_by=track.id,
                cost=0.0,
            )
            for attempt, place in track.places.items()
        ]
        state.forget(track)
        return stops

    def started(self, event: WorkloadStarted) -> list[GlobalInstruction]:
        """It runs: a job that was moved has left its old place."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        place = track.places[event.attempt]
        if place.started_ns is None:
            place.started_ns = event.now_ns
            state.see_replicas(track)
            state.adaptation.slipped(place.site, (event.now_ns - place.start_ns) / HOUR_NS)
        if track.is_job:
            length = state.running.end_ns[place.row] - state.running.start_ns[place.row]
            state.running.start_ns[place.row] = event.now_ns
            state.running.end_ns[place.row] = min(event.now_ns + length, FOR_EVER_NS - 1)
            for other in [each for each in track.places if each < event.attempt]:
                state.release(track, other)
            if max(track.places) > event.attempt:
                return []  # A late word of the old place: the move goes on.
        track.phase = Phase.RUNNING
        return []

    def progressed(self, event: WorkloadProgressed) -> list[GlobalInstruction]:
        """A job says how far it is, and with how many workers."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None or not track.places:
            return []
        track.done_share, track.saved_share = event.done_share, event.saved_share
        track.workers = event.workers
        if track.is_job:
            place = track.places[min(track.places)]
            kind = state.sites.columns.kind[place.site]
            speed = track.workload.gang.speed(max(event.workers, 1))
            state.set_extra(track, place, max(0, event.workers - place.instances))
            left_h = (1.0 - event.done_share) * float(track.runtime_h[kind]) / speed
            state.running.end_ns[place.row] = after_h(event.now_ns, left_h)
        return []

    def stopped(self, event: WorkloadStopped) -> list[GlobalInstruction]:
        """It lost a place: by a fault, or displaced."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        track.saved_share = max(track.saved_share, event.saved_share)
        if track.phase is not Phase.MOVING:
            moving.left_early(state, track, event.attempt)
        state.release(track, event.attempt, undone=track.phase is Phase.PLACED)
        moving.stays(state, track, event.attempt)
        if track.places and track.is_job:
            return []
        service = track.workload.service
        if service is not None and len(track.places) >= wanted_parts(service, track, state):
            return []
        track.why = f"lost its place: {event.why}"
        place_again(state, track)
        return []

    def ended(self, event: WorkloadEnded) -> list[GlobalInstruction]:
        """A job is done."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None:
            return []
        deadline = track.workload.sla.deadline_ns
        if deadline is not None and event.now_ns > deadline:
            state.adaptation.violated(track.workload.kind, LATE_JOB_STRAIN)
        self._sizes.forget(track.workload)
        state.forget(track)
        return []

    def turned_down(self, event: OrderTurnedDown) -> list[GlobalInstruction]:
        """A cluster has no room for it after all; that site is avoided for a while."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        site = track.places[event.attempt].site
        state.release(track, event.attempt, undone=True)
        track.avoid[site] = event.now_ns + state.settings.avoid_ns
        track.why = f"{state.sites.names[site]} turned it down: {event.why}"
        place_again(state, track)
        return []

    def service_observed(self, event: ServiceObserved) -> list[GlobalInstruction]:
        """Load and broken promises of a service."""
        state = self._state
        track = state.tracks.get(event.workload)
        if track is not None:
            track.violated += OBSERVED_SHARE * (event.violated_share - track.violated)
            if track.workload.service is not None:
                observe_load(state, track, track.workload.service, event)
            state.adaptation.violated(track.workload.kind, event.violated_share * SERVICE_STRAIN)
        return []

    def usage_observed(self, event: UsageObserved) -> list[GlobalInstruction]:
        """Learn what a workload really uses; tell once when it should ask for something else."""
        track = self._state.tracks.get(event.workload)
        if track is None:
            return []
        self._sizes.observe(track.workload, event)
        better = self._sizes.advise(track.workload)
        return [better.warning()] if better is not None else []


def place_again(state: GlobalState, track: Track, *, fence: bool = False) -> None:
    """A place of a workload is gone: what is missing is to be placed again."""
    if track.is_job and track.places:
        track.phase = Phase.RUNNING
        return
    track.done_share = track.saved_share
    track.pending_ns = state.now_ns
    if fence and track.workload.when_cut_off is WhenCutOff.FENCE_AFTER:
        track.why = "its cluster was cut off and has not surely stopped it yet"
        state.waiting.wait(track, state.now_ns + state.settings.fence_ns, ())
    else:
        state.waiting.admit(track)
