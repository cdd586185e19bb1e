"""What the global stage knows, in plain values, and whether its books agree with each other."""

from typing import Any

import numpy as np

from dure.domain.errors import InvariantError
from dure.fleet.global_state import GlobalState
from dure.fleet.sites import DIMENSIONS
from dure.fleet.tracks import Phase, Track


def snapshot(state: GlobalState) -> dict[str, Any]:
    """Sites, workloads, prices and budgets; JSON can hold it."""
    columns, names = state.sites.columns, state.sites.names
    return {
        "now_ns": state.now_ns,
        "sites": {
            str(name): {
                "up": bool(columns.up[row]),
                "free": dict(zip(DIMENSIONS, columns.free[row].tolist(), strict=True)),
                "total": dict(zip(DIMENSIONS, columns.total[row].tolist(), strict=True)),
                "price": float(state.adaptation.congestion.now[row]),
            }
            for row, name in enumerate(names)
        },
        "workloads": {
            str(track.id): {
                "phase": track.phase.value,
                "attempt": track.attempt,
                "places": {
                    str(attempt): str(names[place.site]) for attempt, place in track.places.items()
                },
                "saved_share": track.saved_share,
                "why": track.why,
                "until_ns": track.until_ns,
            }
            for track in state.tracks.values()
        },
        "tenants": {
            str(tenant.id): {
                "money": float(state.budgets.money[row]),
                "g_co2": float(state.budgets.grams[row]),
                "share": state.shares.share(tenant.id),
            }
            for row, tenant in enumerate(state.budgets.tenants)
        },
        "carbon_price_per_tonne": state.adaptation.pacer.price_per_tonne,
    }


def check(state: GlobalState) -> None:
    """Raise `InvariantError` where the books contradict each other."""
    placed = 0
    for track in state.tracks.values():
        placed += len(track.places)
        problem = _problem(state, track)
        if problem:
            raise InvariantError(f"workload '{track.id}' {problem}", "report this with its journal")
    if placed != state.running.count or placed != int(state.running.used.sum()):
        raise InvariantError(
            f"{state.running.count} rows for {placed} places", "report this with its journal"
        )
    prices = state.adaptation.congestion.now
    if not np.isfinite(prices).all() or (prices < 0).any():
        raise InvariantError("a congestion price is no price", "report this with its journal")


def _problem(state: GlobalState, track: Track) -> str:
    """What is impossible about a workload, in words; empty: nothing."""
    most = 2 if track.phase is Phase.MOVING else 1
    if track.is_job and len(track.places) > most:
        return f"has {len(track.places)} places"
    if track.is_job and bool(track.places) != track.active:
        return f"is {track.phase.value} with {len(track.places)} places"
    if track.places and max(track.places) > track.attempt:
        return "has a place from an attempt that was never made"
    if track.places and track.plan >= 0 and track.is_job:
        return "has a place and a plan for another"
    for place in track.places.values():
        if (
            state.running.owner[place.row] != track.id
            or state.running.site[place.row] != place.site
        ):
            return "is not where the columns say"
    return ""
