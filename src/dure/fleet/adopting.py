"""Takes over what was ordered before this centre began: the books as if it had done so itself."""

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import OrderFound
from dure.domain.fleet.instructions import GlobalInstruction, PreemptWorkload
from dure.fleet.costs import PAID_TERMS
from dure.fleet.global_state import GlobalState, Grant, Leaving
from dure.fleet.tracks import HOUR_NS, Phase, Track


def order_found(state: GlobalState, event: OrderFound) -> list[GlobalInstruction]:
    """Enter an order that still holds its place; one that cannot be entered is to be stopped."""
    order = event.order
    track = state.tracks.get(order.workload.id)
    if track is None:
        track = state.track(order.workload)
    if order.attempt in track.places:
        return []
    newest = order.attempt >= track.attempt
    track.attempt = max(track.attempt, order.attempt)
    track.saved_share = max(track.saved_share, event.saved_share)
    track.done_share = max(track.done_share, event.done_share)
    site = state.sites.rows.get(order.site, -1)
    if site < 0 or not track.needs.fits[state.sites.columns.kind[site]]:
        if not track.places:
            state.waiting.admit(track)
        return [_stop(order, f"there is no place for it in '{order.site}' any more")]
    phase = track.phase
    state.unplan(track)
    state.occupy(track, order.attempt, _grant(state, track, event, site))
    _enter(state, track, event)
    if not newest and phase is not Phase.PENDING:
        track.phase = phase
    return _settle(state, track)


def _grant(state: GlobalState, track: Track, event: OrderFound, site: int) -> Grant:
    """What was granted when it was placed, as far as its explanation tells."""
    order = event.order
    paid = sum(value for name, value in order.explanation.terms if name in PAID_TERMS)
    weight = state.policy.of(order.workload.kind).cost_weight
    kind = state.sites.columns.kind[site]
    run_h = (1.0 - track.done_share) * float(track.runtime_h[kind]) if track.is_job else 0.0
    return Grant(
        site=site,
        instances=order.instances,
        delay_h=max(0, order.start_ns - state.now_ns) / HOUR_NS,
        run_h=run_h,
        money=paid / weight if weight else 0.0,
        grams=order.explanation.g_co2,
        explanation=order.explanation,
        makes_room=order.makes_room,
    )


def _enter(state: GlobalState, track: Track, event: OrderFound) -> None:
    """What has become of the order since."""
    order, place = event.order, track.places[event.order.attempt]
    place.ordered_ns = min(order.start_ns, state.now_ns)
    place.start_share = order.resume_share
    if event.started:
        place.started_ns = event.now_ns
        track.phase = Phase.RUNNING
        if track.is_job:
            state.running.start_ns[place.row] = event.now_ns
        state.see_replicas(track)
    if event.leaving:
        usage = state.running.usage[place.row].copy()
        state.running.preemptible[place.row] = False
        state.leaving[track.id, order.attempt] = Leaving(track.workload.tenant, place.site, usage)


def _settle(state: GlobalState, track: Track) -> list[GlobalInstruction]:
    """A job with two places is on its way from one to the other; with more, the oldest are over."""
    if not track.is_job or len(track.places) == 1:
        return []
    *over, _, newest = sorted(track.places)
    stops: list[GlobalInstruction] = []
    for attempt in over:
        cluster = state.sites.names[track.places[attempt].site].cluster
        stops.append(
            PreemptWorkload(
                workload=track.id,
                cluster=cluster,
                attempt=attempt,
                wanted_by=track.id,
                cost=0.0,
                why=f"attempt {newest} has replaced it",
            )
        )
        state.release(track, attempt)
    track.phase = Phase.MOVING
    track.moved_ns = track.places[newest].ordered_ns
    state.moving.add(track.id)
    return stops


def _stop(order: Order, why: str) -> GlobalInstruction:
    name = order.workload.id
    return PreemptWorkload(name, order.site.cluster, order.attempt, name, 0.0, why)
