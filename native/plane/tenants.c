/* What the clients of a tenant say, taken together. */
#include "words.h"

static uint64_t clients_of(const struct view *view, uint32_t tenant)
{
    return load(&view->control->tenants[tenant].clients);
}

/* Whether a client's work is going on: begun, not ended, and renewed lately enough. */
bool is_busy(const struct dure_activity *words, uint64_t now_ns)
{
    if (load_first(&words->busy_since_ns) == 0)
        return false;
    uint64_t expires = load(&words->expires_ns);
    return now_ns < expires && expires - now_ns <= DURE_LONGEST_CLAIM_NS;
}

/* When a client whose work ended stops to linger; 0: it does not. */
static uint64_t lingers_until(const struct dure_activity *words, uint64_t linger_ns,
                              uint64_t now_ns)
{
    uint64_t idle_since = load(&words->idle_since_ns);
    if (load(&words->busy_since_ns) != 0 || idle_since == 0)
        return 0;
    if (idle_since > now_ns + DURE_LONGEST_CLAIM_NS || since(idle_since, now_ns) >= linger_ns)
        return 0;
    return idle_since + linger_ns;
}

static uint32_t class_of(const struct dure_activity *words)
{
    uint64_t running = load(&words->running);
    return running < DURE_CLASSES ? (uint32_t)running : DURE_CLASS_LONG;
}

struct standing standing_of(const struct view *view, uint32_t tenant, uint64_t linger_ns)
{
    struct standing found = {tenant == view->asks, UINT64_MAX, 0, DURE_CLASS_LONG};
    bool works = false;
    uint64_t clients = clients_of(view, tenant);
    while (clients != 0) {
        const struct dure_activity *words = view->clients[pop(&clients)];
        bool busy = is_busy(words, view->now_ns);
        uint64_t until = busy ? 0 : lingers_until(words, linger_ns, view->now_ns);
        if (!busy && until == 0)
            continue;
        if (!works) {
            found.running = class_of(words);
            if (until > found.lingers_until_ns)
                found.lingers_until_ns = until;
        }
        works = works || busy;
        found.has_work = true;
        uint64_t began = load(&words->began_ns);
        found.busy_since_ns = began < found.busy_since_ns ? began : found.busy_since_ns;
    }
    if (works)
        found.lingers_until_ns = 0;
    return found;
}

uint64_t spent_by(const struct view *view, uint32_t tenant, uint32_t round)
{
    uint64_t sum = 0;
    uint64_t clients = clients_of(view, tenant);
    while (clients != 0) {
        uint64_t word = load(&view->clients[pop(&clients)]->spent);
        if (DURE_SPENT_ROUND(word) == round)
            sum += DURE_SPENT_NS(word);
    }
    return sum;
}

uint64_t inflight_of(const struct view *view, uint32_t tenant)
{
    uint64_t sum = 0;
    uint64_t clients = clients_of(view, tenant);
    while (clients != 0) {
        const struct dure_activity *words = view->clients[pop(&clients)];
        if (is_busy(words, view->now_ns)) {
            uint64_t inflight = load(&words->inflight_ns);
            sum = inflight < UINT64_MAX - sum ? sum + inflight : UINT64_MAX;
        }
    }
    return sum;
}

uint64_t memory_of(const struct view *view, uint32_t tenant)
{
    uint64_t sum = 0;
    uint64_t clients = clients_of(view, tenant);
    while (clients != 0) {
        uint64_t taken = load(&view->clients[pop(&clients)]->memory_bytes);
        sum = taken < UINT64_MAX - sum ? sum + taken : UINT64_MAX;
    }
    return sum;
}

/* Whether a tenant has work that is on the device or may get there: one whose every client is held
 * with nothing submitted leaves its compute units to others. */
bool may_run(const struct view *view, uint32_t tenant, uint64_t linger_ns)
{
    uint64_t clients = clients_of(view, tenant);
    while (clients != 0) {
        const struct dure_activity *words = view->clients[pop(&clients)];
        if (is_busy(words, view->now_ns)) {
            if (load(&words->inflight_ns) > 0 || load(&words->waiting) == 0)
                return true;
        } else if (lingers_until(words, linger_ns, view->now_ns) != 0) {
            return true;
        }
    }
    return false;
}
