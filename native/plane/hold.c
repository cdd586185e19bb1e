/* Holding a launch: a short spin, then sleeps on the bell, each with a bound.
 *
 * A held thread goes on counting, renews its claim to have work, notices when the agent is gone,
 * and passes at the latest after DURE_LONGEST_HOLD_NS. */
#include <errno.h>
#include <sched.h>

#include "words.h"

/* What a wake-up from the bell costs: below this, spinning is cheaper. */
#define SPIN_NS 20000ull
/* Own work in flight ends soon, nobody rings for it, and the device runs dry if that is noticed
 * late: a sleep takes twice what is commonly in flight. Others may have the core meanwhile. */
#define SPIN_OWN_WORK_NS 1000000ull
#define PAUSES_PER_LOOK 16
/* Sleeps end at these at the latest, in case a bell was missed: a killed process rings none. */
#define SLEEP_NEAR_NS 500000ull
#define SLEEP_FAR_NS 2000000ull
/* With own work on the device its end must be looked for, as nobody rings for that. */
#define SLEEP_OWN_WORK_NS 50000ull
/* Where much lies ahead of the device, being late by this much does not matter. */
#define SLEEP_AHEAD_NS 250000ull

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

struct hold {
    uint64_t began_ns;
    uint64_t counted_ns; /* up to then it is in the books */
    uint64_t reason_ns;  /* since when it is held for the present reason */
    uint32_t why;
    bool ahead;          /* it waits on the device, with much in flight */
    bool sleeps;         /* counted among the sleepers */
};

static void count_hold(struct dure_plane *plane, struct hold *hold, const struct verdict *verdict,
                       uint64_t now_ns)
{
    struct dure_counters *counters = &plane->slot->counters;
    uint64_t held_ns = since(hold->counted_ns, now_ns);
    hold->counted_ns = now_ns;
    add(&counters->gated_ns, held_ns);
    add(&counters->gated_by_ns[verdict->why], held_ns);
    if (verdict->held_for < DURE_TENANTS)
        add(&counters->held_for[verdict->held_for], held_ns);
    keep_tick(plane);
    raise_to(&counters->longest_hold_ns, since(hold->began_ns, now_ns));
}

static uint64_t sleep_ns(const struct dure_plane *plane, const struct hold *hold,
                         const struct verdict *verdict, uint64_t now_ns)
{
    uint64_t due = since(now_ns, verdict->until_ns);
    uint64_t most = due < SLEEP_FAR_NS ? SLEEP_NEAR_NS : SLEEP_FAR_NS;
    if (load(&plane->slot->activity.inflight_ns) > 0)
        most = hold->ahead ? SLEEP_AHEAD_NS : SLEEP_OWN_WORK_NS;
    return due < most ? due : most;
}

static void begin_hold(struct dure_plane *plane, const struct hold *hold)
{
    uint64_t none = 0;
    add(&plane->slot->activity.waiting, 1);
    swap_word(&plane->hold_began_ns, &none, hold->began_ns);
}

static void end_hold(struct dure_plane *plane, const struct hold *hold)
{
    uint64_t began = hold->began_ns;
    if (hold->sleeps)
        __atomic_fetch_sub(&plane->rotation->sleepers, 1u, __ATOMIC_RELAXED);
    take_from(&plane->slot->activity.waiting, 1);
    swap_word(&plane->hold_began_ns, &began, 0);
}

/* Wait for a moment; `bell` was read before the verdict. */
static void pause_hold(struct dure_plane *plane, const struct hold *hold,
                       const struct verdict *verdict, uint32_t bell, uint64_t now_ns)
{
    uint64_t most_ns = sleep_ns(plane, hold, verdict, now_ns);
    bool own_work = verdict->why == DURE_HELD_IN_FLIGHT && !hold->ahead &&
                    since(hold->reason_ns, now_ns) < SPIN_OWN_WORK_NS;
    if (hold->sleeps && own_work) {
        sched_yield();
        return;
    }
    if (hold->sleeps && most_ns > SPIN_NS) {
        sleep_on(plane->rotation, bell, most_ns);
        return;
    }
    for (int pause = 0; pause < PAUSES_PER_LOOK; pause++)
        relax();
}

uint64_t dure_hold(struct dure_plane *plane, const struct dure_launch *launch, dure_drain drain,
                   void *context)
{
    uint64_t now_ns = dure_now_ns();
    struct verdict verdict = judge(plane, launch, now_ns);
    if (verdict.why == DURE_PASS)
        return 0;
    int error_before = errno;
    struct hold hold = {now_ns, now_ns, now_ns, verdict.why, launch->waits_on_device, false};
    begin_hold(plane, &hold);
    uint32_t bell = load(&plane->rotation->bell);
    while (verdict.why != DURE_PASS) {
        pause_hold(plane, &hold, &verdict, bell, now_ns);
        if (drain != NULL)
            drain(context, dure_now_ns());
        now_ns = dure_now_ns();
        count_hold(plane, &hold, &verdict, now_ns);
        if (since(hold.began_ns, now_ns) >= DURE_LONGEST_HOLD_NS) {
            add(&plane->slot->counters.passes_open, 1);
            break;
        }
        if (!hold.sleeps && since(hold.began_ns, now_ns) >= SPIN_NS) {
            hold.sleeps = true;
            __atomic_fetch_add(&plane->rotation->sleepers, 1u, __ATOMIC_SEQ_CST);
        }
        renew(plane, now_ns);
        bell = load_first(&plane->rotation->bell);
        verdict = judge(plane, launch, now_ns);
        if (verdict.why != hold.why) {
            hold.why = verdict.why;
            hold.reason_ns = now_ns;
        }
    }
    end_hold(plane, &hold);
    errno = error_before;
    return since(hold.began_ns, now_ns);
}
