/* Inside the plane: how shared words are read and changed, and what the parts say to each other.
 *
 * Every word that another thread or process may change is touched through these alone. What comes
 * from another process is only believed after a check.
 */
#ifndef DURE_PLANE_WORDS_H
#define DURE_PLANE_WORDS_H

#include "plane.h"

/* Work not renewed for this long beside a multiple of its prediction is taken for over: a stopped
 * or crashed program must not hold up others. */
#define DURE_EXPIRY_NS 100000000ull
#define DURE_EXPIRY_OF_INFLIGHT 4
/* A claim to have work for longer than this from now on was scribbled. */
#define DURE_LONGEST_CLAIM_NS 60000000000ull

#define load(word) __atomic_load_n((word), __ATOMIC_RELAXED)
#define load_first(word) __atomic_load_n((word), __ATOMIC_ACQUIRE)
#define store(word, value) __atomic_store_n((word), (value), __ATOMIC_RELAXED)
#define store_last(word, value) __atomic_store_n((word), (value), __ATOMIC_RELEASE)
#define add(word, value) __atomic_fetch_add((word), (value), __ATOMIC_RELAXED)

static inline bool swap_word(uint64_t *word, uint64_t *expected, uint64_t value)
{
    return __atomic_compare_exchange_n(word, expected, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* Raise a word to a value. */
static inline void raise_to(uint64_t *word, uint64_t value)
{
    uint64_t seen = load(word);
    while (seen < value && !swap_word(word, &seen, value)) {
    }
}

/* Take from a word, but not below zero. */
static inline void take_from(uint64_t *word, uint64_t value)
{
    uint64_t seen = load(word);
    while (!swap_word(word, &seen, seen > value ? seen - value : 0)) {
    }
}

static inline uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

static inline uint64_t bit(uint32_t index)
{
    return 1ull << index;
}

/* The first of a mask, which is taken out of it. */
static inline uint32_t pop(uint64_t *mask)
{
    uint32_t index = (uint32_t)__builtin_ctzll(*mask);
    *mask &= *mask - 1;
    return index;
}

/* The words of everybody, as a client or the agent looks at them. */
struct view {
    const struct dure_control *control;
    struct dure_rotation *rotation;
    const struct dure_activity *const *clients;
    uint64_t now_ns;
    uint32_t asks; /* the tenant that asks has work, whatever its words say; DURE_TENANTS: nobody */
};

/* What the rotation says now. */
struct turn {
    uint64_t word;
    const struct dure_plan *plan; /* NULL: nothing usable is in force, everything passes */
    uint64_t epoch;
    uint32_t squad;
    uint32_t round;
};

/* tenants.c: what a tenant's clients say, taken together. */
struct standing {
    bool has_work;           /* lingering included */
    uint64_t busy_since_ns;  /* the earliest of its clients */
    uint64_t lingers_until_ns; /* where only lingering keeps it */
    uint32_t running;        /* class of the last launch, of the first client that has work */
};
struct standing standing_of(const struct view *view, uint32_t tenant, uint64_t linger_ns);
uint64_t spent_by(const struct view *view, uint32_t tenant, uint32_t round);
uint64_t inflight_of(const struct view *view, uint32_t tenant);
uint64_t memory_of(const struct view *view, uint32_t tenant);
bool may_run(const struct view *view, uint32_t tenant, uint64_t linger_ns);
bool is_busy(const struct dure_activity *words, uint64_t now_ns);

/* rotation.c */
struct turn read_turn(const struct view *view);
struct turn rotate(const struct view *view);
uint64_t squad_ends_ns(const struct turn *turn, uint64_t now_ns);

/* gate.c: the verdict on a launch, and until when it stands if nobody rings. */
struct verdict {
    uint32_t why;
    uint32_t held_for;
    uint64_t until_ns;
};
struct verdict judge(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns);
static inline struct view view_of(const struct dure_plane *plane, uint64_t now_ns)
{
    return (struct view){plane->control, plane->rotation, plane->clients, now_ns, plane->tenant};
}
bool agent_alive(const struct dure_control *control, uint64_t now_ns);

/* waits.c: the own word that others' streams wait for */
void close_word(struct dure_plane *plane, uint64_t now_ns);
uint32_t closed_word(const struct dure_plane *plane);
void open_word(struct dure_plane *plane, uint32_t seen);
void forget_waits(struct dure_plane *plane);

/* ledger.c */
void begin_burst(struct dure_plane *plane, uint64_t now_ns);
void renew(struct dure_plane *plane, uint64_t now_ns);
void keep_tick(struct dure_plane *plane);

/* bell.c */
void ring(struct dure_rotation *rotation);
void sleep_on(struct dure_rotation *rotation, uint32_t bell, uint64_t most_ns);

#endif
