/* Whose turn it is: squads end when they are over, and the next that has something to do begins.
 *
 * Anybody may end a squad, by one compare-and-swap on `turn`; who loses the race looks again. The
 * rule is that of dure.sim.kernel.gate, with a tenant's clients in place of the tenant. */
#include "words.h"

/* A start that lies ahead by more than clocks read in another order explain was scribbled. */
#define AHEAD_US 1000000
#define ATTEMPTS 4

struct turn read_turn(const struct view *view)
{
    uint64_t word = load_first(&view->rotation->turn);
    const struct dure_plan *plan = &view->control->plans[DURE_TURN_BUFFER(word)];
    uint64_t epoch = load_first(&plan->epoch);
    uint32_t squads = load(&plan->squads);
    uint32_t squad = DURE_TURN_SQUAD(word);
    bool usable = epoch != 0 && squads > 0 && squads <= DURE_SQUADS;
    return (struct turn){word, usable ? plan : NULL, epoch, squad, DURE_TURN_ROUND(word)};
}

/* How long the squad has been in force; UINT64_MAX where its start makes no sense. */
static uint64_t in_force_ns(uint64_t word, uint64_t now_ns)
{
    uint32_t now_us = (uint32_t)(now_ns / 1000);
    int32_t elapsed_us = (int32_t)(now_us - DURE_TURN_START_US(word));
    if (elapsed_us < 0)
        return elapsed_us > -AHEAD_US ? 0 : UINT64_MAX;
    return (uint64_t)elapsed_us * 1000;
}

uint64_t squad_ends_ns(const struct turn *turn, uint64_t now_ns)
{
    uint64_t duration = load(&turn->plan->duration_ns[turn->squad]);
    uint64_t passed = in_force_ns(turn->word, now_ns);
    if (duration == 0 || turn->word & DURE_TURN_DORMANT)
        return UINT64_MAX;
    return passed >= duration ? now_ns : now_ns + (duration - passed);
}

/* Whether a squad has something to do: for those with a budget in it, else for anybody. `fresh`:
 * what was spent so far does not count. */
static bool squad_is_live(const struct view *view, const struct turn *turn, uint32_t squad,
                          bool fresh)
{
    const struct dure_order *orders = turn->plan->orders[squad];
    uint64_t budgeted = load(&turn->plan->budgeted[squad]);
    uint64_t work_of = budgeted != 0 ? budgeted : load(&turn->plan->members[squad]);
    if (view->asks < DURE_TENANTS && work_of & bit(view->asks)) {
        uint64_t budget = load(&orders[view->asks].budget_ns);
        if (budget == 0 || fresh || spent_by(view, view->asks, turn->round) < budget)
            return true;
        work_of &= ~bit(view->asks);
    }
    while (work_of != 0) {
        uint32_t tenant = pop(&work_of);
        const struct dure_order *order = &orders[tenant];
        if (!standing_of(view, tenant, load(&order->linger_ns)).has_work)
            continue;
        uint64_t budget = load(&order->budget_ns);
        if (budget == 0 || fresh || spent_by(view, tenant, turn->round) < budget)
            return true;
    }
    return false;
}

static bool in_force(const struct view *view, const struct turn *turn)
{
    if (turn->plan == NULL || turn->word & DURE_TURN_DORMANT)
        return false;
    if (turn->squad >= load(&turn->plan->squads))
        return false;
    uint64_t duration = load(&turn->plan->duration_ns[turn->squad]);
    if (duration != 0 && in_force_ns(turn->word, view->now_ns) >= duration)
        return false;
    return squad_is_live(view, turn, turn->squad, false);
}

/* The turn after this one. `adopts`: with the first squad of a plan just adopted. */
static uint64_t next_turn(const struct view *view, const struct turn *turn, bool adopts)
{
    uint32_t squads = load(&turn->plan->squads);
    uint32_t buffer = DURE_TURN_BUFFER(turn->word);
    uint32_t start_us = (uint32_t)(view->now_ns / 1000);
    uint32_t start = adopts || turn->squad >= squads ? 0 : turn->squad + 1;
    /* What was spent while no squad was in force is nobody's budget. */
    bool fresh = adopts || turn->word & DURE_TURN_DORMANT;
    for (uint32_t step = 0; step < squads; step++) {
        uint32_t squad = (start + step) % squads;
        fresh = fresh || squad < start || squad == 0;
        if (squad_is_live(view, turn, squad, fresh))
            return DURE_TURN(turn->round + (fresh ? 1 : 0), buffer, squad, start_us);
    }
    for (uint32_t squad = 0; squad < squads; squad++)
        if (squad_is_live(view, turn, squad, true))
            return DURE_TURN(turn->round + 1, buffer, squad, start_us);
    if (!adopts && turn->word & DURE_TURN_DORMANT)
        return turn->word;
    uint32_t squad = adopts || turn->squad >= squads ? 0 : turn->squad;
    return DURE_TURN(turn->round + 1, buffer, squad, start_us) | DURE_TURN_DORMANT;
}

/* The same turn with the plan that waits, if one does. */
static bool adopt(const struct view *view, struct turn *turn)
{
    uint32_t published = (uint32_t)load_first(&view->control->published) & 1u;
    if (published == DURE_TURN_BUFFER(turn->word))
        return false;
    const struct dure_plan *plan = &view->control->plans[published];
    uint64_t epoch = load_first(&plan->epoch);
    uint32_t squads = load(&plan->squads);
    if (epoch == 0 || squads > DURE_SQUADS)
        return false;
    turn->plan = plan;
    turn->epoch = epoch;
    turn->word ^= 1ull << 40;
    return true;
}

/* End the squad in force if it is over; the turn that then is. */
struct turn rotate(const struct view *view)
{
    struct turn turn = read_turn(view);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (in_force(view, &turn))
            return turn;
        uint64_t seen = turn.word;
        bool adopts = adopt(view, &turn);
        if (turn.plan == NULL)
            return turn;
        uint64_t next;
        if (load(&turn.plan->squads) > 0)
            next = next_turn(view, &turn, adopts);
        else
            next = DURE_TURN(turn.round + 1, DURE_TURN_BUFFER(turn.word), 0, 0);
        if (next == seen)
            return turn;
        if (swap_word(&view->rotation->turn, &seen, next)) {
            if (adopts || !(next & DURE_TURN_DORMANT))
                add(&view->rotation->edges, 1);
            if (adopts)
                store(&view->rotation->adopted_ns, view->now_ns);
            ring(view->rotation);
            return read_turn(view);
        }
        turn = read_turn(view);
    }
    return turn;
}
