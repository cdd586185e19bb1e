"""What the centre does about news of clusters: they join, are lost, and say how they are."""

from dataclasses import replace

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.events import (
    ClusterClosed,
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    SeriesExtended,
)
from dure.domain.fleet.instructions import GlobalInstruction, PreemptWorkload
from dure.domain.fleet.workloads import WhenCutOff
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.global_state import GlobalState
from dure.fleet.global_workloads import place_again


class ClusterNews:
    """Takes in events of clusters."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._abandoned: dict[ClusterId, list[tuple[WorkloadId, int]]] = {}
        """Places given up while their cluster was cut off: to be stopped when it is back."""

    def joined(self, event: ClusterJoined) -> list[GlobalInstruction]:
        """It is new, has other nodes, or is back: what was given up there is stopped."""
        state = self._state
        kinds = len(state.sites.kinds)
        back = event.cluster.id in state.sites.lost
        before = [(row, state.sites.groups[row]) for row in self._rows(event.cluster.id)]
        self._divided_anew(event.cluster)
        state.sites.join(event.cluster)
        for row, group in before:
            if state.sites.groups[row] != group:
                state.regrouped(row)
        state.see_series(event.cluster)
        state.pools.cluster_joined(event.cluster)
        self._resized()
        if len(state.sites.kinds) != kinds:
            state.refresh_needs()
        state.waiting.wake(list(state.waiting.waiting()))
        if not back:
            return []
        stale = [
            PreemptWorkload(
                workload=name,
                cluster=event.cluster.id,
                attempt=attempt,
                wanted_by=name,
                cost=0.0,
            )
            for name, attempt in self._abandoned.pop(event.cluster.id, ())
        ]
        return list(stale)

    def lost(self, event: ClusterLost) -> list[GlobalInstruction]:
        """Nothing new goes there; what ran there does what its owner chose."""
        state = self._state
        state.sites.lose(event.cluster)
        state.pools.cluster_lost(event.cluster)
        self._resized()
        rows = set(self._rows(event.cluster))
        for track in list(state.tracks.values()):
            if not track.active or track.workload.when_cut_off is WhenCutOff.WAIT:
                continue
            there = [attempt for attempt, place in track.places.items() if place.site in rows]
            for attempt in there:
                state.release(track, attempt)
                self._abandoned.setdefault(event.cluster, []).append((track.id, attempt))
            if there:
                place_again(state, track, fence=True)
        return []

    def closed(self, event: ClusterClosed) -> list[GlobalInstruction]:
        """Nothing new goes there; what is there stays."""
        self._state.sites.lose(event.cluster)
        self._resized()
        return []

    def summarised(self, event: ClusterSummarised) -> list[GlobalInstruction]:
        """Sites say what they have free."""
        state = self._state
        for summary in event.sites:
            row = state.sites.rows.get(summary.site, -1)
            before = state.sites.columns.nodes[row] if row >= 0 else summary.nodes
            state.sites.summarise(summary)
            if before != summary.nodes and state.pool_owners:
                state.resize_place(row)
        return []

    def series_extended(self, event: SeriesExtended) -> list[GlobalInstruction]:
        """More of a cluster's prices or carbon intensity is known."""
        sites = self._state.sites
        cluster = sites.clusters.get(event.cluster)
        if cluster is not None:
            carbon, power = event.carbon_g_per_kwh, event.electricity_per_mwh
            sites.clusters[event.cluster] = replace(
                cluster,
                carbon_g_per_kwh=cluster.carbon_g_per_kwh if carbon is None else carbon,
                electricity_per_mwh=cluster.electricity_per_mwh if power is None else power,
            )
            self._state.see_series(sites.clusters[event.cluster])
        return []

    def _divided_anew(self, cluster: Cluster) -> None:
        """Where devices are of another kind from now on, what was kept for instances beyond those
        that were ordered is counted in the old kind: it is found anew."""
        state = self._state
        kinds = {group.name: (group.profile, group.mode) for group in cluster.groups}
        for row in self._rows(cluster.id):
            group = state.sites.groups[row]
            if kinds.get(group.name, (group.profile, group.mode)) == (group.profile, group.mode):
                continue
            for track in state.tracks.values():
                for place in track.places.values():
                    if place.site == row:
                        state.set_extra(track, place, 0)
                        state.set_kept(track, place, 0)

    def _rows(self, cluster: ClusterId) -> list[int]:
        return list(self._state.sites.sites_of.get(cluster, ()))

    def _resized(self) -> None:
        state = self._state
        state.count_totals()
        state.adaptation.congestion.resize(len(state.sites))
        state.duals = None
