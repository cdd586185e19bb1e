/* Waits on the device: for whom, and that none is for ever. */
#include "words.h"

#define STEP_NS 100000ull
#define OPEN_FOR_NS 30000000ull
#define LOOK_NS 10000000ull    /* how often words are checked that nobody is about to change */
#define LOOK_SOON_NS 100000ull /* after one was closed for another, who may have ended just then */
#define ATTEMPTS 4

/* ---- the client's own word ------------------------------------------------------------------- */

static uint32_t new_number(void)
{
    return (uint32_t)(dure_now_ns() >> 8) | 1u;
}

/* For how long a tenant with work since then still lets others run beside it. A patience shorter
 * than a pause is none: nobody could look in time. */
static uint64_t patience_left(const struct view *view, uint32_t tenant, uint64_t busy_since_ns)
{
    struct turn turn = read_turn(view);
    if (turn.plan == NULL || turn.squad >= load(&turn.plan->squads))
        return 0;
    uint64_t patience = load(&turn.plan->orders[turn.squad][tenant].patience_ns);
    uint64_t spent = since(busy_since_ns, view->now_ns);
    return patience > DURE_PAUSE_NS && spent < patience ? patience - spent : 0;
}

/* While it is patient its word stays open; who waits for it closes it in time. Where the agent is
 * gone those who wait open it, and are not to meet it closed again. */
void close_word(struct dure_plane *plane, uint64_t now_ns)
{
    uint32_t *word = &plane->rotation->closed[plane->client];
    if (load(&plane->control->side_by_side) == 0 || load(word) != 0 || !dure_gated(plane, now_ns))
        return;
    struct view view = view_of(plane, now_ns);
    if (patience_left(&view, plane->tenant, load(&plane->slot->activity.busy_since_ns)) == 0)
        __atomic_store_n(word, new_number(), __ATOMIC_SEQ_CST);
}

uint32_t closed_word(const struct dure_plane *plane)
{
    return load(&plane->rotation->closed[plane->client]);
}

/* Open it, unless another burst began meanwhile. */
void open_word(struct dure_plane *plane, uint32_t seen)
{
    if (seen != 0)
        __atomic_compare_exchange_n(&plane->rotation->closed[plane->client], &seen, 0u, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* ---- for whom -------------------------------------------------------------------------------- */

/* Tenants that no squad of a plan holds: for others, or by a budget. */
static uint64_t masters_of(const struct turn *turn)
{
    uint32_t squads = load(&turn->plan->squads);
    uint64_t masters = ~0ull;
    for (uint32_t squad = 0; squad < squads && squad < DURE_SQUADS; squad++) {
        uint64_t members = load(&turn->plan->members[squad]);
        masters &= members;
        while (members != 0) {
            uint32_t tenant = pop(&members);
            const struct dure_order *order = &turn->plan->orders[squad][tenant];
            if (load(&order->yields) != 0 || load(&order->budget_ns) != 0)
                masters &= ~bit(tenant);
        }
    }
    return masters;
}

static uint64_t known_masters(struct dure_plane *plane, const struct turn *turn)
{
    uint64_t mark = turn->epoch << 1 | DURE_TURN_BUFFER(turn->word);
    if (load_first(&plane->masters_epoch) == mark)
        return load(&plane->masters);
    uint64_t masters = masters_of(turn);
    store_last(&plane->masters_epoch, 0);
    store(&plane->masters, masters);
    store_last(&plane->masters_epoch, mark);
    return masters;
}

static bool goes_beside(const struct turn *turn, uint32_t kernel_class, uint64_t running)
{
    if (running < DURE_CLASSES)
        return load(&turn->plan->corun[kernel_class][running]) != 0;
    return false;
}

/* The clients of one tenant; false where there are too many. */
static bool add_clients(const struct view *view, const struct turn *turn, uint32_t tenant,
                        uint32_t kernel_class, struct dure_waits *waits)
{
    uint64_t clients = load(&view->control->tenants[tenant].clients) &
                       load(&view->control->live_clients);
    while (clients != 0) {
        uint32_t client = pop(&clients);
        waits->present++;
        if (goes_beside(turn, kernel_class, load(&view->clients[client]->running)))
            continue;
        if (waits->count == DURE_WAITS)
            return false;
        waits->clients[waits->count++] = client;
    }
    return true;
}

static bool waits_for(const struct view *view, const struct turn *turn, struct dure_plane *plane,
                      uint32_t kernel_class, struct dure_waits *waits)
{
    const struct dure_order *order = &turn->plan->orders[turn->squad][plane->tenant];
    uint64_t yields = load(&order->yields) & ~bit(plane->tenant);
    uint64_t bound = load(&order->inflight_ns);
    waits->count = waits->present = 0;
    waits->step_ns = bound != 0 && bound < STEP_NS ? bound : STEP_NS;
    if (yields == 0 || load(&order->member) == 0 || (yields & ~known_masters(plane, turn)) != 0)
        return false;
    while (yields != 0)
        if (!add_clients(view, turn, pop(&yields), kernel_class, waits))
            return false;
    return true;
}

bool dure_waits_now(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns,
                    struct dure_waits *waits)
{
    if (!dure_gated(plane, now_ns) || load(&plane->control->side_by_side) == 0 ||
        load(&plane->control->tenants[plane->tenant].flags) & DURE_TENANT_FREE)
        return false;
    struct view view = view_of(plane, now_ns);
    uint32_t kernel_class = launch->kernel_class < DURE_CLASSES ? launch->kernel_class
                                                                : DURE_CLASS_LONG;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct turn turn = read_turn(&view);
        if (turn.plan == NULL || turn.squad >= load(&turn.plan->squads))
            return false;
        bool serves = waits_for(&view, &turn, plane, kernel_class, waits);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load(&turn.plan->epoch) == turn.epoch)
            return serves;
    }
    return false;
}

/* ---- and not for ever ------------------------------------------------------------------------ */

void dure_waits_placed(struct dure_plane *plane, const struct dure_waits *waits, uint64_t now_ns)
{
    uint64_t clients = 0;
    for (uint32_t index = 0; index < waits->count; index++)
        clients |= bit(waits->clients[index]);
    if ((load(&plane->waited_for) & clients) == clients)
        return;
    if (load(&plane->waited_for) == 0)
        store(&plane->moved_ns, now_ns);
    __atomic_fetch_or(&plane->waited_for, clients, __ATOMIC_SEQ_CST);
}

static bool really_busy(const struct dure_plane *plane, uint32_t client, uint64_t now_ns)
{
    const struct dure_activity *words = plane->clients[client];
    return (load(&plane->control->live_clients) & bit(client)) != 0 && is_busy(words, now_ns);
}

static uint32_t tenant_of(const struct dure_plane *plane, uint32_t client)
{
    for (uint32_t tenant = 0; tenant < DURE_TENANTS; tenant++)
        if (load(&plane->control->tenants[tenant].clients) & bit(client))
            return tenant;
    return DURE_TENANTS;
}

/* The word of a client that has lost patience, closed in its place; what it may have ended
 * meanwhile is seen when this is called again. When to look again. */
static uint64_t close_in_time(struct dure_plane *plane, uint32_t client, bool busy,
                              uint64_t now_ns)
{
    uint32_t tenant = tenant_of(plane, client);
    if (tenant == DURE_TENANTS)
        return LOOK_NS;
    struct view view = view_of(plane, now_ns);
    uint64_t began_ns = busy ? load(&plane->clients[client]->busy_since_ns) : now_ns;
    uint64_t left = patience_left(&view, tenant, began_ns);
    if (!busy || left != 0)
        return left != 0 && left < LOOK_NS ? left : LOOK_NS;
    uint32_t open = 0;
    __atomic_compare_exchange_n(&plane->rotation->closed[client], &open, new_number(), false,
                                __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    return LOOK_SOON_NS;
}

uint64_t dure_waits_check(struct dure_plane *plane, uint64_t now_ns)
{
    uint64_t clients = load(&plane->waited_for);
    if (plane->control == NULL || clients == 0)
        return 0;
    bool alive = agent_alive(plane->control, now_ns) && load(&plane->control->gated) != 0;
    uint64_t held_ns = since(load(&plane->moved_ns), now_ns);
    bool stuck = held_ns >= DURE_LONGEST_HOLD_NS;
    uint64_t again_ns = LOOK_NS;
    while (clients != 0) {
        uint32_t client = pop(&clients);
        uint32_t *word = &plane->rotation->closed[client];
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        bool busy = really_busy(plane, client, now_ns);
        if (seen == 0 && alive && !stuck) {
            uint64_t left = close_in_time(plane, client, busy, now_ns);
            again_ns = left < again_ns ? left : again_ns;
        }
        if (seen == 0 || (alive && !stuck && busy))
            continue;
        if (__atomic_compare_exchange_n(word, &seen, 0u, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED) && (stuck || !alive))
            add(&plane->slot->counters.passes_open, 1);
    }
    /* a client that goes on closes its word again: leave the device some time to see it open */
    if (held_ns >= DURE_LONGEST_HOLD_NS + OPEN_FOR_NS)
        store(&plane->moved_ns, now_ns);
    return again_ns;
}

/* Nothing of this client is on the device: nothing waits there. */
void forget_waits(struct dure_plane *plane)
{
    if (load(&plane->waited_for) != 0)
        store(&plane->waited_for, 0);
}

void dure_waited_on_device(struct dure_plane *plane, uint64_t clients, uint64_t held_ns)
{
    if (plane->control == NULL || clients == 0 || held_ns == 0)
        return;
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t turn = load(&plane->rotation->turn);
    uint64_t promised = load(&plane->control->plans[DURE_TURN_BUFFER(turn)].promised);
    uint32_t tenant = tenant_of(plane, pop(&clients)); /* of several, the first answers for all */
    bool promise = tenant < DURE_TENANTS && (promised & bit(tenant)) != 0;
    add(&counters->gated_ns, held_ns);
    add(&counters->gated_by_ns[promise ? DURE_HELD_FOR_PROMISE : DURE_HELD_IN_ORDER], held_ns);
    if (tenant < DURE_TENANTS)
        add(&counters->held_for[tenant], held_ns);
    keep_tick(plane);
    raise_to(&counters->longest_hold_ns, held_ns);
}
