/* The data plane of one GPU as one client process sees it: gate, rotation of squads, ledger.
 *
 * Plain C without CUDA. The shim asks before a launch, says what was launched and what ended; this
 * library reads the plan and the other clients' words and keeps this client's own. Every call may
 * be made from any thread. Nothing here blocks except `dure_hold`, and that never for longer than
 * DURE_LONGEST_HOLD_NS. On anything odd (stale heartbeat, unusable plan, scribbled turn) it passes.
 */
#ifndef DURE_PLANE_H
#define DURE_PLANE_H

#include <stdbool.h>

#include "../abi.h"

/* Visible in libdure_plane.so alone; the shim's own copy stays hidden inside it. */
#ifdef DURE_PLANE_EXPORTED
#pragma GCC visibility push(default)
#endif

/* One attached GPU. All-zero is "not attached": everything passes and nothing is counted. */
struct dure_plane {
    const struct dure_control *control;
    struct dure_rotation *rotation;
    struct dure_slot *slot;                              /* own */
    const struct dure_activity *clients[DURE_CLIENTS];   /* first pages of all, own included */
    uint32_t client;
    uint32_t tenant;
    uint64_t hold_began_ns; /* of the longest-held thread now; 0: none */
    uint64_t burst_gpu_ns;  /* device time of the burst going on */
    uint64_t burst_predicted_ns; /* the same, as predicted */
    uint64_t lost_ns;       /* by company, in the work without a pause going on */
    uint64_t alone_ppm;     /* time of bursts without company over their predicted device time */
    uint64_t copy_ready_ns; /* when the copies let through so far are paid for */
    uint32_t pid;           /* of the process that attached: a child has none of the mappings */
    uint32_t socket;        /* the descriptor plus 1; 0: none */
    uint64_t waited_for;    /* clients that work on the device may be waiting for */
    uint64_t moved_ns;      /* when own work last was known to go on, while it may wait */
    uint64_t masters_epoch; /* of the plan that the next is of, and its buffer */
    uint64_t masters;       /* tenants that nothing in that plan holds */
    bool keeps_rotation;    /* streams may wait for its words: it stays mapped for good */
};

/* What is about to be launched. */
struct dure_launch {
    uint32_t kernel_class; /* DURE_CLASS_* */
    uint64_t predicted_ns;
    bool graph;           /* a whole graph, not a kernel */
    bool waits_on_device; /* the device itself waits for those it yields to: see dure_waits_now */
};

/* Where a launch may run: `group_count` 0 means the whole device. */
struct dure_set {
    uint16_t group_first;
    uint16_t group_count;
};

uint64_t dure_now_ns(void);

/* Whether there is anything to ask: attached, agent alive, more than one tenant. The fast path of a
 * tenant alone on its GPU ends here. */
bool dure_gated(const struct dure_plane *plane, uint64_t now_ns);

/* Whether the launch passes now (DURE_PASS), or why not; `held_for` gets the tenant it is held for,
 * or DURE_TENANTS. Ends squads that are over on the way. */
uint32_t dure_ask(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns,
                  uint32_t *held_for);

/* Ask, and wait until it passes: a short spin, then sleeps on the bell with a bound. `drain`,
 * called between waits (not under any lock), lets the caller observe completions, as it may be held
 * by its own work in flight; it returns true when something ended. Returns nanoseconds held. */
typedef bool (*dure_drain)(void *context, uint64_t now_ns);
uint64_t dure_hold(struct dure_plane *plane, const struct dure_launch *launch, dure_drain drain,
                   void *context);

/* ---- waiting on the device ------------------------------------------------------------------- */

/* A thread that is held cannot run ahead, and the device runs dry when it goes on. Where kernels of
 * processes overlap, the stream can wait in its place: for 0 in `rotation->closed` of each client
 * of those it yields to. That serves where those are held for nobody themselves (else two could
 * wait for each other). A client closes its word when it begins to work; while its tenant is
 * patient, those who wait for it do so later. */
#define DURE_WAITS 4 /* clients one launch waits for at most */
#define DURE_RUN_AHEAD_NS 8000000ull /* most work in flight that waits on the device */
struct dure_waits {
    uint32_t count; /* 0: nothing to wait for */
    uint32_t present; /* clients of those it yields to, also where the classes go together */
    uint32_t clients[DURE_WAITS];
    uint64_t step_ns; /* predicted work that may follow one wait */
};
/* Whether the launch may wait on the device rather than be held, and for whom. */
bool dure_waits_now(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns,
                    struct dure_waits *waits);
/* Such waits were put into a stream. */
void dure_waits_placed(struct dure_plane *plane, const struct dure_waits *waits, uint64_t now_ns);
/* Close the words of those who lost their patience. Fail open: words waited for whose client is not
 * really busy are set to 0, as are all when the agent is gone or nothing went on for
 * DURE_LONGEST_HOLD_NS. Returns in how many nanoseconds to call it again; 0: nothing may wait. */
uint64_t dure_waits_check(struct dure_plane *plane, uint64_t now_ns);
/* Work took so much longer than predicted behind a wait for these clients (a mask): held, roughly,
 * as what runs beside others is slower too. */
void dure_waited_on_device(struct dure_plane *plane, uint64_t clients, uint64_t held_ns);

/* The set of compute units for a launch now: the plan's while a tenant it is beside has work. */
struct dure_set dure_set_now(const struct dure_plane *plane, uint64_t now_ns);

/* Tenants that have work now, own apart: the company of a sample. */
uint64_t dure_company(const struct dure_plane *plane, uint64_t now_ns);

/* The ledger. `launched`: work was submitted (starts a burst where there was none; so does asking).
 * `finished`: so much predicted work is known to be over, and took so long (0: unknown, then as
 * predicted). `drained`: nothing of this client is outstanding any more; ends the burst, unless a
 * thread of it is held, as then it goes on. */
void dure_launched(struct dure_plane *plane, const struct dure_launch *launch, uint64_t now_ns);
/* Launches that were submitted some time ago, and are entered together. */
void dure_launched_before(struct dure_plane *plane, uint64_t launches, uint64_t predicted_ns,
                          uint64_t now_ns);
void dure_finished(struct dure_plane *plane, uint64_t predicted_ns, uint64_t took_ns,
                   uint64_t now_ns);
void dure_drained(struct dure_plane *plane, uint64_t now_ns);

/* A timed launch: `sample->sequence` is filled in here. */
void dure_sampled(struct dure_plane *plane, const struct dure_sample *sample);

/* A request the program itself reported. */
void dure_reported(struct dure_plane *plane, uint64_t latency_ns);

/* Memory: whether so much more may be taken beside what this tenant has, within its limit and
 * outside the others' unused reserves; `free_bytes` is what the device has left (UINT64_MAX:
 * unknown). Counts a refusal. `took` and `gave` keep the books; threads that ask at the same moment
 * are not kept apart here. `dure_memory_info` narrows what cuMemGetInfo said. */
bool dure_memory_may_take(struct dure_plane *plane, uint64_t bytes, uint64_t free_bytes);
void dure_memory_took(struct dure_plane *plane, uint64_t bytes);
void dure_memory_gave(struct dure_plane *plane, uint64_t bytes);
void dure_memory_info(const struct dure_plane *plane, uint64_t *free_bytes, uint64_t *total_bytes);

/* Copies: how long to wait before so many bytes may be copied (0: now). They count from then on. */
uint64_t dure_copy_wait_ns(struct dure_plane *plane, uint64_t bytes, uint64_t now_ns);

/* ---- the client's side of registration ------------------------------------------------------- */

/* Say hello at the socket and map what comes back. 0, or a positive DURE_REFUSED_*, or -errno;
 * `reason` (of 128 bytes) says why, for a log. The socket stays open, close-on-exec. */
int dure_attach(struct dure_plane *plane, const char *socket_path, const struct dure_hello *hello,
                char *reason);
/* In a child after fork, or at the end: forget everything; a parent's own word is opened. A child
 * has none of the mappings: until it detached (or its planes were wiped to 0) it must not ask. */
void dure_detach(struct dure_plane *plane);

/* ---- the agent's side ------------------------------------------------------------------------ */

/* Copy `plan` into the buffer that is not published and publish it; it takes effect at the next
 * squad edge. A plan published before that is not yet in force is put in force first, so that the
 * buffer written is not the one in force. */
void dure_publish(struct dure_control *control, struct dure_rotation *rotation,
                  const struct dure_plan *plan);
/* End the squad in force if it is over: the agent does this so that an idle device adopts plans. */
void dure_turn_over(struct dure_control *control, struct dure_rotation *rotation,
                    const struct dure_activity *const *clients, uint64_t now_ns);
/* Wake everybody held, to look again: after a word that may let them pass was written. */
void dure_wake(struct dure_rotation *rotation);
/* Atomic store of one control word, and of the heartbeat. */
void dure_store(uint64_t *word, uint64_t value);
uint64_t dure_load(const uint64_t *word);
/* Copy new samples after `*tail` out of a slot, without those overwritten meanwhile; moves it. */
uint32_t dure_take_samples(const struct dure_slot *slot, uint64_t *tail, struct dure_sample *out,
                           uint32_t most);
/* The latency bucket, as dure.domain.latency.bucket_of. */
uint32_t dure_bucket(uint64_t latency_ns);

#ifdef DURE_PLANE_EXPORTED
#pragma GCC visibility pop
#endif

#endif
