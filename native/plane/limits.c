/* Memory limits and reserves, and the limit on copies. */
#include "words.h"

/* Copies may run ahead of their rate by this much, so that small ones are not chopped. */
#define COPY_AHEAD_NS 10000000ull
#define NS_PER_S 1000000000ull

/* What is kept free for other tenants that have not taken it yet. */
static uint64_t kept_for_others(const struct view *view, uint32_t own)
{
    uint64_t sum = 0;
    for (uint32_t tenant = 0; tenant < DURE_TENANTS; tenant++) {
        uint64_t reserve = load(&view->control->tenants[tenant].memory_reserve_bytes);
        if (reserve == 0 || tenant == own)
            continue;
        uint64_t taken = memory_of(view, tenant);
        sum += reserve > taken ? reserve - taken : 0;
    }
    return sum;
}

/* What the device has left by the books, for a caller that does not know. */
static uint64_t free_by_books(const struct view *view)
{
    uint64_t left = load(&view->control->memory_bytes);
    if (left == 0)
        return UINT64_MAX;
    uint64_t clients = load(&view->control->live_clients);
    while (clients != 0) {
        uint64_t taken = load(&view->clients[pop(&clients)]->memory_bytes);
        left = left > taken ? left - taken : 0;
    }
    return left;
}

static uint64_t limit_left(const struct view *view, uint32_t tenant)
{
    uint64_t limit = load(&view->control->tenants[tenant].memory_limit_bytes);
    uint64_t taken = memory_of(view, tenant);
    if (limit == 0)
        return UINT64_MAX;
    return limit > taken ? limit - taken : 0;
}

bool dure_memory_may_take(struct dure_plane *plane, uint64_t bytes, uint64_t free_bytes)
{
    if (plane->control == NULL)
        return true;
    uint64_t now_ns = dure_now_ns();
    if (!agent_alive(plane->control, now_ns))
        return true;
    struct view view = view_of(plane, now_ns);
    uint64_t left = free_bytes == UINT64_MAX ? free_by_books(&view) : free_bytes;
    uint64_t kept = kept_for_others(&view, plane->tenant);
    /* Without a reserve to keep, a device that is full is the driver's to report. */
    bool outside = kept == 0 || (left > kept && bytes <= left - kept);
    if (outside && bytes <= limit_left(&view, plane->tenant))
        return true;
    add(&plane->slot->counters.memory_refused, 1);
    return false;
}

void dure_memory_took(struct dure_plane *plane, uint64_t bytes)
{
    if (plane->control == NULL)
        return;
    uint64_t before = add(&plane->slot->activity.memory_bytes, bytes);
    raise_to(&plane->slot->counters.memory_peak_bytes, before + bytes);
}

void dure_memory_gave(struct dure_plane *plane, uint64_t bytes)
{
    if (plane->control != NULL)
        take_from(&plane->slot->activity.memory_bytes, bytes);
}

void dure_memory_info(const struct dure_plane *plane, uint64_t *free_bytes, uint64_t *total_bytes)
{
    if (plane->control == NULL)
        return;
    uint64_t now_ns = dure_now_ns();
    if (!agent_alive(plane->control, now_ns))
        return;
    struct view view = view_of(plane, now_ns);
    uint64_t limit = load(&view.control->tenants[plane->tenant].memory_limit_bytes);
    if (limit != 0 && limit < *total_bytes)
        *total_bytes = limit;
    uint64_t kept = kept_for_others(&view, plane->tenant);
    uint64_t left = *free_bytes > kept ? *free_bytes - kept : 0;
    uint64_t allowed = limit_left(&view, plane->tenant);
    *free_bytes = left < allowed ? left : allowed;
}

/* A bucket of tokens kept as one time: when what was let through is paid for at the rate. Clients
 * of a tenant share its rate evenly. */
uint64_t dure_copy_wait_ns(struct dure_plane *plane, uint64_t bytes, uint64_t now_ns)
{
    if (plane->control == NULL)
        return 0;
    const struct dure_tenant *tenant = &plane->control->tenants[plane->tenant];
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t rate = load(&tenant->copy_bytes_per_s);
    uint64_t sharers = (uint64_t)__builtin_popcountll(load(&tenant->clients));
    add(&counters->copied_bytes, bytes);
    if (rate == 0 || !agent_alive(plane->control, now_ns))
        return 0;
    rate = sharers > 1 ? rate / sharers : rate;
    unsigned __int128 cost = (unsigned __int128)bytes * NS_PER_S / (rate ? rate : 1);
    uint64_t cost_ns = cost < UINT64_MAX / 4 ? (uint64_t)cost : UINT64_MAX / 4;
    uint64_t ready = load(&plane->copy_ready_ns);
    uint64_t starts;
    do {
        starts = ready > now_ns ? ready : now_ns;
    } while (!swap_word(&plane->copy_ready_ns, &ready, starts + cost_ns));
    uint64_t ahead = starts - now_ns;
    uint64_t wait_ns = ahead > COPY_AHEAD_NS ? ahead - COPY_AHEAD_NS : 0;
    add(&counters->copy_held_ns, wait_ns);
    return wait_ns;
}
