/* The launch rule: whether a launch passes now, and where it may run.
 *
 * The rule is that of dure.sim.kernel.gate: a part in the squad in force and budget left; nobody it
 * yields to has work and lost patience, unless the classes go together; room in flight. */
#include "words.h"

#define ATTEMPTS 4

bool agent_alive(const struct dure_control *control, uint64_t now_ns)
{
    return since(load(&control->heartbeat_ns), now_ns) < DURE_STALE_NS;
}

bool dure_gated(const struct dure_plane *plane, uint64_t now_ns)
{
    const struct dure_control *control = plane->control;
    return control != NULL && load(&control->gated) != 0 && agent_alive(control, now_ns);
}

/* Whether a tenant that this one yields to has work and lost its patience. */
static struct verdict held_for(const struct view *view, const struct turn *turn, uint64_t yields,
                               uint32_t kernel_class)
{
    struct verdict verdict = {DURE_PASS, DURE_TENANTS, UINT64_MAX};
    uint64_t promised = load(&turn->plan->promised);
    while (yields != 0) {
        uint32_t other = pop(&yields);
        const struct dure_order *order = &turn->plan->orders[turn->squad][other];
        struct standing standing = standing_of(view, other, load(&order->linger_ns));
        if (!standing.has_work)
            continue;
        if (since(standing.busy_since_ns, view->now_ns) < load(&order->patience_ns))
            continue;
        if (load(&turn->plan->corun[kernel_class][standing.running]) != 0)
            continue;
        bool promise = (promised & bit(other)) != 0;
        if (verdict.why == DURE_PASS || promise) {
            uint64_t until = standing.lingers_until_ns ? standing.lingers_until_ns : UINT64_MAX;
            verdict = (struct verdict){promise ? DURE_HELD_FOR_PROMISE : DURE_HELD_IN_ORDER, other,
                                       until};
        }
        if (promise)
            break;
    }
    return verdict;
}

static struct verdict by_orders(const struct view *view, const struct turn *turn, uint32_t tenant,
                                const struct dure_launch *launch)
{
    const struct dure_order *order = &turn->plan->orders[turn->squad][tenant];
    struct verdict verdict = {DURE_HELD_BY_BUDGET, DURE_TENANTS, UINT64_MAX};
    uint64_t budget = load(&order->budget_ns);
    if (load(&order->member) == 0 || (budget > 0 && spent_by(view, tenant, turn->round) >= budget))
        return verdict;
    uint32_t kernel_class = launch->kernel_class < DURE_CLASSES ? launch->kernel_class
                                                                : DURE_CLASS_LONG;
    verdict = (struct verdict){DURE_PASS, DURE_TENANTS, UINT64_MAX};
    if (!launch->waits_on_device)
        verdict = held_for(view, turn, load(&order->yields) & ~bit(tenant), kernel_class);
    uint64_t bound = launch->waits_on_device ? DURE_RUN_AHEAD_NS : load(&order->inflight_ns);
    if (verdict.why != DURE_PASS || bound == 0)
        return verdict;
    uint64_t inflight = inflight_of(view, tenant);
    if (inflight > 0 && (inflight > bound || launch->predicted_ns > bound - inflight))
        verdict.why = DURE_HELD_IN_FLIGHT;
    return verdict;
}

struct verdict judge(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns)
{
    struct verdict passes = {DURE_PASS, DURE_TENANTS, UINT64_MAX};
    if (!dure_gated(plane, now_ns))
        return passes;
    begin_burst(plane, now_ns);
    if (load(&plane->control->tenants[plane->tenant].flags) & DURE_TENANT_FREE)
        return passes;
    struct view view = view_of(plane, now_ns);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct turn turn = rotate(&view);
        if (turn.plan == NULL || turn.squad >= load(&turn.plan->squads))
            return passes;
        struct verdict verdict = by_orders(&view, &turn, plane->tenant, launch);
        uint64_t ends = squad_ends_ns(&turn, now_ns);
        verdict.until_ns = ends < verdict.until_ns ? ends : verdict.until_ns;
        /* A plan that was replaced meanwhile may have been read in halves. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load(&turn.plan->epoch) == turn.epoch)
            return verdict;
    }
    return passes;
}

uint32_t dure_ask(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns,
                  uint32_t *held_for_tenant)
{
    struct verdict verdict = judge(plane, launch, now_ns);
    *held_for_tenant = verdict.held_for;
    return verdict.why;
}

struct dure_set dure_set_now(const struct dure_plane *plane, uint64_t now_ns)
{
    struct dure_set everything = {0, 0};
    if (!dure_gated(plane, now_ns))
        return everything;
    struct view view = view_of(plane, now_ns);
    struct turn turn = read_turn(&view);
    if (turn.plan == NULL || turn.squad >= load(&turn.plan->squads))
        return everything;
    const struct dure_order *orders = turn.plan->orders[turn.squad];
    const struct dure_order *order = &orders[plane->tenant];
    struct dure_set set = {load(&order->group_first), load(&order->group_count)};
    uint32_t group_sms = load(&view.control->group_sms);
    uint32_t groups = group_sms ? load(&view.control->sms) / group_sms : 0;
    if (set.group_count == 0 || (uint32_t)set.group_first + set.group_count > groups)
        return everything;
    uint64_t beside = load(&order->beside) & ~bit(plane->tenant);
    while (beside != 0) {
        uint32_t other = pop(&beside);
        if (may_run(&view, other, load(&orders[other].linger_ns)))
            return set;
    }
    return everything;
}

uint64_t dure_company(const struct dure_plane *plane, uint64_t now_ns)
{
    if (plane->control == NULL)
        return 0;
    struct view view = view_of(plane, now_ns);
    uint64_t company = 0;
    uint64_t clients = load(&view.control->live_clients);
    while (clients != 0) {
        uint32_t client = pop(&clients);
        uint64_t tenant = load(&view.clients[client]->tenant);
        /* The client's own word, so believed only where the agent says the same. */
        if (tenant >= DURE_TENANTS || tenant == plane->tenant || company & bit((uint32_t)tenant))
            continue;
        if (!(load(&view.control->tenants[tenant].clients) & bit(client)))
            continue;
        if (may_run(&view, (uint32_t)tenant, 0))
            company |= bit((uint32_t)tenant);
    }
    return company;
}
