/* The agent's side: publishing plans, and ending squads on an idle device. */
#include <string.h>

#include "words.h"

/* Put the published plan in force now, so that its forerunner's buffer can be written. */
static void put_in_force(struct dure_control *control, struct dure_rotation *rotation)
{
    uint32_t published = (uint32_t)load(&control->published) & 1u;
    uint64_t seen = load_first(&rotation->turn);
    uint64_t now_ns = dure_now_ns();
    uint64_t next;
    do {
        if (DURE_TURN_BUFFER(seen) == published)
            return;
        next = DURE_TURN(DURE_TURN_ROUND(seen) + 1, published, 0, (uint32_t)(now_ns / 1000));
    } while (!swap_word(&rotation->turn, &seen, next));
    add(&rotation->edges, 1);
    store(&rotation->adopted_ns, now_ns);
}

static void copy_words(void *to, const void *from, size_t bytes)
{
    uint64_t *target = to;
    const uint64_t *source = from;
    for (size_t word = 0; word < bytes / sizeof(uint64_t); word++)
        store(&target[word], source[word]);
}

static void fill_masks(struct dure_plan *plan, uint32_t squad)
{
    uint64_t members = 0;
    uint64_t budgeted = 0;
    for (uint32_t tenant = 0; tenant < DURE_TENANTS; tenant++) {
        const struct dure_order *order = &plan->orders[squad][tenant];
        if (order->member == 0)
            continue;
        members |= bit(tenant);
        if (order->budget_ns > 0)
            budgeted |= bit(tenant);
    }
    store(&plan->members[squad], members);
    store(&plan->budgeted[squad], budgeted);
}

void dure_publish(struct dure_control *control, struct dure_rotation *rotation,
                  const struct dure_plan *plan)
{
    put_in_force(control, rotation);
    uint64_t idle = 1u - (load(&control->published) & 1u);
    struct dure_plan *buffer = &control->plans[idle];
    uint32_t squads = plan->squads <= DURE_SQUADS ? plan->squads : 0;
    store(&buffer->epoch, 0);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    store(&buffer->promised, plan->promised);
    store(&buffer->squads, squads);
    copy_words(buffer->corun, plan->corun, sizeof(plan->corun));
    copy_words(buffer->duration_ns, plan->duration_ns, squads * sizeof(plan->duration_ns[0]));
    for (uint32_t squad = 0; squad < squads; squad++) {
        copy_words(buffer->orders[squad], plan->orders[squad], sizeof(plan->orders[squad]));
        fill_masks(buffer, squad);
    }
    store_last(&buffer->epoch, plan->epoch != 0 ? plan->epoch : 1);
    store_last(&control->published, idle);
    ring(rotation);
}

/* Sleepers that were killed are still counted: set right when nobody is held. */
static void forget_dead_sleepers(const struct view *view)
{
    uint64_t clients = load(&view->control->live_clients);
    while (clients != 0)
        if (load(&view->clients[pop(&clients)]->waiting) != 0)
            return;
    uint32_t seen = load(&view->rotation->sleepers);
    if (seen != 0)
        __atomic_compare_exchange_n(&view->rotation->sleepers, &seen, 0u, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

void dure_turn_over(struct dure_control *control, struct dure_rotation *rotation,
                    const struct dure_activity *const *clients, uint64_t now_ns)
{
    struct view view = {control, rotation, clients, now_ns, DURE_TENANTS};
    if (load(&control->gated) != 0)
        rotate(&view);
    forget_dead_sleepers(&view);
}

void dure_wake(struct dure_rotation *rotation)
{
    ring(rotation);
}

void dure_store(uint64_t *word, uint64_t value)
{
    store_last(word, value);
}

uint64_t dure_load(const uint64_t *word)
{
    return load_first(word);
}
