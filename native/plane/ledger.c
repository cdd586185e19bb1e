/* The ledger: what this client launched, what ended, its bursts and their latency.
 *
 * Several threads of a client write it at once: every word is added to or swapped, never locked. */
#include "words.h"

#define QUICKER_STEP 8 /* a part of the difference */
#define SLOWER_STEP 256

/* The three figures of the counters that are "since the last tick" begin anew with each. */
void keep_tick(struct dure_plane *plane)
{
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t tick = load(&plane->control->tick);
    uint64_t mark = load(&counters->mark);
    if (mark == tick || !swap_word(&counters->mark, &mark, tick))
        return;
    store(&counters->longest_hold_ns, 0);
    store(&counters->longest_kernel_ns, 0);
    store(&counters->gap_ns, 0);
}

/* Claim to have work for some time more. */
void renew(struct dure_plane *plane, uint64_t now_ns)
{
    struct dure_activity *activity = &plane->slot->activity;
    uint64_t inflight = load(&activity->inflight_ns);
    uint64_t most = (DURE_LONGEST_CLAIM_NS - DURE_EXPIRY_NS) / DURE_EXPIRY_OF_INFLIGHT;
    uint64_t lasts = (inflight < most ? inflight : most) * DURE_EXPIRY_OF_INFLIGHT;
    raise_to(&activity->expires_ns, now_ns + DURE_EXPIRY_NS + lasts);
}

static void count_gap(struct dure_plane *plane, uint64_t gap_ns)
{
    uint64_t *word = &plane->slot->counters.gap_ns;
    keep_tick(plane);
    uint64_t gap = gap_ns > 0 ? gap_ns : 1;
    uint64_t seen = load(word);
    while ((seen == 0 || gap < seen) && !swap_word(word, &seen, gap)) {
    }
}

/* From idle to having work; a pause not worth the name does not start the clock of patience. */
void begin_burst(struct dure_plane *plane, uint64_t now_ns)
{
    struct dure_activity *activity = &plane->slot->activity;
    if (load(&activity->busy_since_ns) != 0)
        return;
    renew(plane, now_ns);
    uint64_t ended = load(&activity->idle_since_ns);
    bool paused = ended == 0 || since(ended, now_ns) > DURE_PAUSE_NS;
    uint64_t began = paused ? now_ns : load(&activity->began_ns);
    uint64_t idle = 0;
    store(&activity->began_ns, began);
    if (!swap_word(&activity->busy_since_ns, &idle, began))
        return;
    close_word(plane, now_ns);
    store(&plane->burst_gpu_ns, 0);
    store(&plane->burst_predicted_ns, 0);
    if (paused)
        store(&plane->lost_ns, 0);
    store(&activity->burst_since_ns, now_ns);
    if (ended != 0)
        count_gap(plane, since(ended, now_ns));
}

/* Where the last of a tenant's budget goes, the squad may be over: those held look again. */
static void ring_if_spent(struct dure_plane *plane, uint64_t predicted_ns, uint64_t now_ns)
{
    struct view view = view_of(plane, now_ns);
    struct turn turn = read_turn(&view);
    if (turn.plan == NULL)
        return;
    uint64_t budget = load(&turn.plan->orders[turn.squad][plane->tenant].budget_ns);
    uint64_t spent = spent_by(&view, plane->tenant, turn.round);
    if (budget != 0 && spent >= budget && spent - predicted_ns < budget)
        ring(plane->rotation);
}

static void spend(struct dure_plane *plane, uint64_t predicted_ns)
{
    uint64_t *word = &plane->slot->activity.spent;
    uint32_t round = DURE_TURN_ROUND(load(&plane->rotation->turn));
    uint64_t most = DURE_SPENT_NS(UINT64_MAX);
    uint64_t seen = load(word);
    uint64_t next;
    do {
        uint64_t before = DURE_SPENT_ROUND(seen) == round ? DURE_SPENT_NS(seen) : 0;
        next = DURE_SPENT(round, predicted_ns < most - before ? before + predicted_ns : most);
    } while (!swap_word(word, &seen, next));
}

void dure_launched(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns)
{
    if (plane->control == NULL)
        return;
    struct dure_activity *activity = &plane->slot->activity;
    struct dure_counters *counters = &plane->slot->counters;
    bool gated = load(&plane->control->gated) != 0;
    /* First, so that a thread that ends the burst just now sees that it goes on. */
    __atomic_fetch_add(&activity->inflight_ns, launch->predicted_ns, __ATOMIC_SEQ_CST);
    begin_burst(plane, now_ns);
    close_word(plane, now_ns); /* somebody may have taken this burst for over */
    add(&counters->launches, 1);
    store(&activity->running, launch->kernel_class);
    renew(plane, now_ns);
    if (gated) {
        spend(plane, launch->predicted_ns);
        if (load(&plane->rotation->sleepers) != 0)
            ring_if_spent(plane, launch->predicted_ns, now_ns);
    }
    if (launch->graph) {
        add(&counters->graph_launches, 1);
    } else {
        keep_tick(plane);
        raise_to(&counters->longest_kernel_ns, launch->predicted_ns);
    }
    bool open = gated && !agent_alive(plane->control, now_ns);
    if (open)
        add(&counters->passes_open, 1);
    if (open != ((load(&counters->flags) & DURE_FLAG_OPEN) != 0))
        __atomic_fetch_xor(&counters->flags, DURE_FLAG_OPEN, __ATOMIC_RELAXED);
}

void dure_launched_before(struct dure_plane *plane, uint64_t launches, uint64_t predicted_ns,
                          uint64_t now_ns)
{
    if (plane->control == NULL)
        return;
    __atomic_fetch_add(&plane->slot->activity.inflight_ns, predicted_ns, __ATOMIC_SEQ_CST);
    begin_burst(plane, now_ns);
    add(&plane->slot->counters.launches, launches);
    renew(plane, now_ns);
}

/* Whether a thread of this tenant is held, perhaps for its own work in flight. */
static bool own_waits(const struct dure_plane *plane)
{
    uint64_t clients = load(&plane->control->tenants[plane->tenant].clients);
    while (clients != 0)
        if (load(&plane->clients[pop(&clients)]->waiting) != 0)
            return true;
    return false;
}

/* What work took by its prediction alone: no more than is left of the time its burst has lasted. */
static uint64_t within_burst(struct dure_plane *plane, uint64_t predicted_ns, uint64_t now_ns)
{
    uint64_t began = load(&plane->slot->activity.burst_since_ns);
    if (began == 0)
        return predicted_ns;
    uint64_t lasted = since(began, now_ns);
    uint64_t counted = load(&plane->burst_gpu_ns);
    uint64_t left = lasted > counted ? lasted - counted : 0;
    return predicted_ns < left ? predicted_ns : left;
}

void dure_finished(struct dure_plane *plane, uint64_t predicted_ns, uint64_t took_ns,
                   uint64_t now_ns)
{
    if (plane->control == NULL)
        return;
    uint64_t ran_ns = took_ns != 0 ? took_ns : within_burst(plane, predicted_ns, now_ns);
    take_from(&plane->slot->activity.inflight_ns, predicted_ns);
    add(&plane->slot->counters.gpu_ns, ran_ns);
    add(&plane->burst_gpu_ns, ran_ns);
    add(&plane->burst_predicted_ns, predicted_ns);
    renew(plane, now_ns);
    if (load(&plane->waited_for) != 0)
        store(&plane->moved_ns, now_ns);
    if (own_waits(plane))
        ring(plane->rotation);
}

/* What a burst would have taken without company: in proportion to its predicted device time, as the
 * quicker ones show. Those that company slowed down are believed little, unless all are slow. */
static uint64_t alone_ns(struct dure_plane *plane, uint64_t took_ns)
{
    uint64_t predicted = __atomic_exchange_n(&plane->burst_predicted_ns, 0, __ATOMIC_RELAXED);
    if (predicted == 0)
        return took_ns;
    int64_t seen = (int64_t)((double)took_ns / (double)predicted * 1e6);
    int64_t known = (int64_t)load(&plane->alone_ppm);
    if (known == 0)
        known = seen;
    known += (seen - known) / (seen < known ? QUICKER_STEP : SLOWER_STEP);
    store(&plane->alone_ppm, known > 0 ? (uint64_t)known : 1);
    uint64_t alone = (uint64_t)((double)predicted * (double)known * 1e-6);
    return alone < took_ns ? alone : took_ns;
}

static void end_burst(struct dure_plane *plane, uint64_t began_ns, uint64_t now_ns)
{
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t latency_ns = since(began_ns, now_ns);
    uint64_t target_ns = load(&plane->control->tenants[plane->tenant].target_ns);
    add(&counters->bursts, 1);
    add(&counters->busy_ns, latency_ns);
    add(&counters->burst_gpu_ns, __atomic_exchange_n(&plane->burst_gpu_ns, 0, __ATOMIC_RELAXED));
    add(&plane->slot->latency[dure_bucket(latency_ns)], 1);
    uint64_t alone = alone_ns(plane, latency_ns);
    add(&counters->burst_alone_ns, alone);
    add(&plane->lost_ns, latency_ns - alone);
    add(&plane->slot->lost[dure_bucket(load(&plane->lost_ns))], 1);
    if (target_ns != 0 && latency_ns > target_ns)
        add(&counters->late, 1);
}

void dure_drained(struct dure_plane *plane, uint64_t now_ns)
{
    if (plane->control == NULL)
        return;
    struct dure_activity *activity = &plane->slot->activity;
    store(&activity->inflight_ns, 0);
    /* A held thread is about to launch: its work goes on. */
    if (load(&activity->waiting) == 0) {
        uint32_t closed = closed_word(plane);
        uint64_t began = __atomic_exchange_n(&activity->burst_since_ns, 0, __ATOMIC_ACQ_REL);
        if (began != 0) {
            end_burst(plane, began, now_ns);
            store(&activity->idle_since_ns, now_ns);
            __atomic_exchange_n(&activity->busy_since_ns, 0, __ATOMIC_SEQ_CST);
            open_word(plane, closed);
            forget_waits(plane);
            if (load(&activity->inflight_ns) != 0)
                begin_burst(plane, now_ns);
        }
    }
    ring(plane->rotation);
}

void dure_reported(struct dure_plane *plane, uint64_t latency_ns)
{
    if (plane->control == NULL)
        return;
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t target_ns = load(&plane->control->tenants[plane->tenant].target_ns);
    add(&plane->slot->reported_latency[dure_bucket(latency_ns)], 1);
    if (target_ns != 0 && latency_ns > target_ns)
        add(&counters->reported_late, 1);
    add(&counters->reported, 1);
}
