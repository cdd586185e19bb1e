/* The protocol between the agent and the programs it shares a GPU between.
 *
 * One agent looks after one GPU with three kinds of shared memory, all sealed memfds that it makes
 * and hands over its socket, so that nobody can truncate them under another:
 *
 *   plan      written by the agent, read-only to clients: control words and two plan buffers
 *   rotation  one page that everybody writes: whose turn it is
 *   slot      one per client process: its first page is read by all clients, the rest by the agent;
 *             only the client itself writes it
 *
 * A *tenant* is who shares the GPU; a *client* is one process of a tenant. Tenants and clients have
 * an index each, below DURE_TENANTS and DURE_CLIENTS. Nothing here can be left locked by a killed
 * process: words are single 64-bit values, advanced by compare-and-swap or written by one owner.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds. A change of layout or meaning changes DURE_ABI_VERSION.
 */
#ifndef DURE_ABI_H
#define DURE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define DURE_ABI_MAGIC 0x6475726561626921ull /* "dureabi!" */
#define DURE_ABI_VERSION 4u

#define DURE_TENANTS 64
#define DURE_CLIENTS 64
#define DURE_SQUADS 128
#define DURE_CLASSES 4
#define DURE_BUCKETS 216 /* of latency; see dure.domain.latency */
#define DURE_SAMPLES 512 /* a ring; a power of two */
#define DURE_NAME_BYTES 64
#define DURE_UUID_BYTES 16
#define DURE_PAGE_BYTES 4096

/* A gap between bursts shorter than this is no pause. */
#define DURE_PAUSE_NS 200000ull
/* A heartbeat older than this: the agent is gone, and everything passes. */
#define DURE_STALE_NS 250000000ull
/* No launch is ever held longer than this at a stretch without passing. */
#define DURE_LONGEST_HOLD_NS 2000000000ull

/* Classes of kernels, as dure.domain.kernel.KernelClass. */
enum { DURE_CLASS_COMPUTE, DURE_CLASS_MEMORY, DURE_CLASS_SMALL, DURE_CLASS_LONG };

/* ---- plan: the agent's words ----------------------------------------------------------------- */

/* What one tenant may do while one squad is in force. */
struct dure_order {
    uint32_t member;      /* 0: no part in this squad */
    uint16_t group_first; /* compute units it keeps to beside others, in groups of group_sms */
    uint16_t group_count; /* 0: all of them */
    uint64_t beside;      /* tenants whose work confines it to that set */
    uint64_t yields;      /* tenants it is held for */
    uint64_t budget_ns;   /* 0: none */
    uint64_t inflight_ns; /* most work submitted and not finished, predicted; 0: no bound */
    uint64_t patience_ns; /* how long it may have work before others yield to it */
    uint64_t linger_ns;   /* how long others go on yielding after its work ended */
    uint64_t spare;
};

struct dure_plan {
    uint64_t epoch;    /* 0 while the agent writes this buffer */
    uint64_t promised; /* tenants others are held for because of a promise */
    uint32_t squads;   /* 0: everything passes */
    uint32_t spare;
    uint8_t corun[DURE_CLASSES][DURE_CLASSES]; /* [asks][runs]: 1: passes beside */
    uint64_t duration_ns[DURE_SQUADS];
    uint64_t members[DURE_SQUADS];  /* of each squad; these two follow from the orders, and are */
    uint64_t budgeted[DURE_SQUADS]; /* filled in by dure_publish: members with a budget in it */
    struct dure_order orders[DURE_SQUADS][DURE_TENANTS];
};

/* Slow-moving words of one tenant; each stands alone. */
struct dure_tenant {
    uint64_t clients;            /* which client slots are its */
    uint64_t memory_limit_bytes; /* 0: none */
    uint64_t memory_reserve_bytes;
    uint64_t copy_bytes_per_s; /* 0: no limit */
    uint64_t target_ns;        /* latency target, to count late bursts; 0: none */
    uint64_t flags;            /* DURE_TENANT_* */
    uint64_t spare[2];
};
#define DURE_TENANT_FREE 1ull /* never held: for programs that wait for one another (collectives) */

struct dure_control {
    uint64_t magic; /* published last */
    uint32_t version;
    uint32_t plan_bytes; /* sizes the agent was built with: another build does not match */
    uint32_t slot_bytes;
    uint32_t sms;          /* of the device */
    uint32_t group_sms;    /* compute units come in groups of so many */
    uint32_t side_by_side; /* 1: kernels of different processes overlap (MPS) */
    uint64_t memory_bytes;
    uint8_t uuid[DURE_UUID_BYTES];
    uint64_t heartbeat_ns; /* the agent was alive then */
    uint64_t gated;        /* 0: everything passes (one tenant, or the agent says so) */
    uint64_t published;    /* index of the newest plan buffer, 0 or 1 */
    uint64_t sample_every; /* launches between two that are timed; 0: none */
    uint64_t live_clients; /* slots in use; others' pages mean nothing */
    uint64_t tick;         /* how many times the agent read all counters */
    uint64_t spare[6];
    struct dure_tenant tenants[DURE_TENANTS];
    struct dure_plan plans[2];
};

/* ---- rotation: whose turn it is -------------------------------------------------------------- */

/* `turn` in one word: round 23 bits, plan buffer 1, dormant 1, squad 7, start 32 (microseconds,
 * wraps). The round counts cycles and plans: what was spent in an older round is forgotten.
 * Dormant: nobody had work when the squad ended; the next to have some begins another. */
#define DURE_TURN(round, buffer, squad, start_us)                                       \
    (((uint64_t)((round) & 0x7fffffu) << 41) | ((uint64_t)((buffer) & 1u) << 40) |      \
     ((uint64_t)((squad) & 0x7fu) << 32) | (uint64_t)(uint32_t)(start_us))
#define DURE_TURN_DORMANT (1ull << 39)
#define DURE_TURN_ROUND(turn) ((uint32_t)((turn) >> 41))
#define DURE_TURN_BUFFER(turn) ((uint32_t)((turn) >> 40) & 1u)
#define DURE_TURN_SQUAD(turn) ((uint32_t)((turn) >> 32) & 0x7fu)
#define DURE_TURN_START_US(turn) ((uint32_t)(turn))

struct dure_rotation {
    uint64_t turn;
    uint64_t edges;    /* how many squads began */
    uint32_t bell;     /* a futex: changes when somebody held may find that it passes */
    uint32_t sleepers; /* how many wait on it; a hint, may be too high after a kill */
    uint64_t adopted_ns; /* when the plan in force took effect */
    uint64_t spare[4];
    /* Not 0 while a client's work goes on. Where kernels of processes overlap, streams of those
     * that yield to it wait for 0 here on the device itself. The client writes its own word; who
     * waits for one that is not really busy any more sets it to 0, and so does the agent when the
     * client is gone. Every burst has another number, so that nobody ends one he did not see. */
    uint32_t closed[DURE_CLIENTS];
};

/* ---- slot: one client's words ---------------------------------------------------------------- */

/* What other clients need to know; they read it without asking. */
struct dure_activity {
    uint64_t pid;
    uint64_t tenant;        /* index, for a check */
    uint64_t busy_since_ns; /* start of its work, pauses under DURE_PAUSE_NS apart; 0: has none */
    uint64_t idle_since_ns; /* end of its last work; 0: never had any */
    uint64_t expires_ns;    /* its work should have ended long before; then it counts as idle */
    uint64_t running;       /* class of its last launch */
    uint64_t spent;         /* round 24 bits, nanoseconds 40: device time since the round began */
    uint64_t inflight_ns;   /* submitted and not known to be finished, predicted */
    uint64_t memory_bytes;
    uint64_t waiting;       /* how many threads of it are held now */
    uint64_t began_ns;      /* as busy_since_ns, and kept after its work ended, while it lingers */
    uint64_t burst_since_ns; /* start of the burst going on; 0: none */
    uint64_t spare[4];
};
#define DURE_SPENT(round, ns) \
    (((uint64_t)((round) & 0xffffffu) << 40) | ((uint64_t)(ns) & 0xffffffffffull))
#define DURE_SPENT_ROUND(word) ((uint32_t)((word) >> 40))
#define DURE_SPENT_NS(word) ((uint64_t)(word) & 0xffffffffffull)

/* Why a launch was held. */
enum {
    DURE_PASS,
    DURE_HELD_BY_BUDGET,
    DURE_HELD_IN_ORDER,   /* for a tenant before it */
    DURE_HELD_FOR_PROMISE, /* for a tenant with a promise */
    DURE_HELD_IN_FLIGHT,
    DURE_REASONS
};

/* Sums since the client began, of which the agent takes differences. "Since the last tick": the
 * client forgets the three of them when `tick` differs from `mark` and sets `mark`; the agent takes
 * them for 0 where `mark` is older than its tick. */
struct dure_counters {
    uint64_t launches;
    uint64_t graph_launches;
    uint64_t gpu_ns;      /* device time of finished work, predicted and corrected */
    uint64_t busy_ns;     /* in bursts, held or not */
    uint64_t gated_ns;    /* threads held */
    uint64_t gated_by_ns[DURE_REASONS];
    uint64_t held_for[DURE_TENANTS]; /* ns held for each tenant */
    uint64_t mark;             /* the agent's tick that the next three belong to */
    uint64_t longest_hold_ns;  /* since the last tick */
    uint64_t longest_kernel_ns;
    uint64_t gap_ns;           /* shortest between two bursts; 0: none */
    uint64_t bursts;
    uint64_t late;
    uint64_t burst_gpu_ns;
    uint64_t memory_peak_bytes;
    uint64_t memory_refused;   /* allocations refused by a limit or another's reserve */
    uint64_t copied_bytes;
    uint64_t copy_held_ns;
    uint64_t moved_launches;   /* on a set of compute units */
    uint64_t fallbacks;        /* that could not be moved */
    uint64_t passes_open;      /* launches that passed as the agent is gone, or held for too long */
    uint64_t flags;            /* DURE_FLAG_* */
    uint64_t prediction_error_ppm; /* smoothed |predicted - timed| / timed of timed launches */
    uint64_t reported;         /* requests the program reported itself */
    uint64_t reported_late;
    uint64_t progress_done;    /* as the program reported, in millionths of its unit */
    uint64_t progress_total;
    uint64_t green_contexts;   /* open now */
    uint64_t events;           /* of the shim's own, open now */
    uint64_t burst_alone_ns;   /* what bursts would have taken without company */
    uint64_t spare[7];
};
#define DURE_FLAG_CAPTURING 1ull      /* a stream is being captured */
#define DURE_FLAG_OPEN 2ull           /* passing everything through: see passes_open */
#define DURE_FLAG_NO_GREEN 4ull       /* compute-unit sets do not work here */
#define DURE_FLAG_COLLECTIVE 8ull     /* uses collectives: left ungated */
#define DURE_FLAG_GRAPH_UNMOVED 16ull /* a graph could not be given variants */

/* One timed launch. */
struct dure_sample {
    uint64_t function; /* stable within the client */
    uint32_t blocks;
    uint32_t threads;
    uint32_t resident; /* blocks that one compute unit holds */
    uint32_t sms;      /* compute units it was allowed to use */
    uint64_t company;  /* tenants that had work meanwhile, its own apart */
    uint32_t duration_ns;
    uint32_t predicted_ns; /* 0: none yet */
    uint8_t memory_bound;  /* guessed from its name */
    uint8_t graph;         /* a whole graph */
    uint8_t spare[6];
    uint64_t spare_word;
    uint64_t sequence;     /* its number plus 1, published last; another number: being written */
};

struct dure_slot {
    /* first page: read by all clients */
    struct dure_activity activity;
    uint8_t first_page_rest[DURE_PAGE_BYTES - sizeof(struct dure_activity)];
    /* from here on read by the agent alone */
    uint64_t magic; /* published last */
    uint64_t version;
    struct dure_counters counters;
    uint64_t latency[DURE_BUCKETS];          /* of bursts */
    uint64_t lost[DURE_BUCKETS];             /* at their ends: by company, in work without a pause */
    uint64_t reported_latency[DURE_BUCKETS]; /* as the program reported */
    uint64_t sample_head;                    /* samples ever written */
    struct dure_sample samples[DURE_SAMPLES];
};

/* ---- registration: fixed messages over a SOCK_SEQPACKET socket ------------------------------- */

/* The client's first message. The agent takes pid and uid from the socket, not from here. */
struct dure_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t plan_bytes; /* sizeof(struct dure_control), so that two builds notice */
    uint32_t slot_bytes;
    uint32_t spare;
    uint8_t uuid[DURE_UUID_BYTES]; /* of the GPU it uses */
    char tenant[DURE_NAME_BYTES];
    char program[DURE_NAME_BYTES]; /* for people */
};

enum {
    DURE_WELCOME,
    DURE_REFUSED_VERSION,
    DURE_REFUSED_TENANT, /* no such tenant, or not this user's */
    DURE_REFUSED_FULL,
    DURE_REFUSED_DEVICE, /* not one of the agent's GPUs */
};

/* The answer. With DURE_WELCOME come 3 + DURE_CLIENTS descriptors: plan (read-only), rotation, own
 * slot, then the slots of all clients by index (read-only). The socket stays open for as long as
 * the client lives; the agent learns of its end by pidfd, as children inherit sockets. */
struct dure_welcome {
    uint64_t magic;
    uint32_t version;
    uint32_t status;
    uint32_t client;
    uint32_t tenant;
    char reason[128]; /* for people, where it was refused */
};

/* ---- the sizes both sides rely on ------------------------------------------------------------ */

#define DURE_SAME(what, is) _Static_assert((what) == (is), #what)
DURE_SAME(sizeof(struct dure_order), 64);
DURE_SAME(sizeof(struct dure_tenant), 64);
DURE_SAME(sizeof(struct dure_activity), 128);
DURE_SAME(sizeof(struct dure_sample), 64);
DURE_SAME(sizeof(struct dure_rotation), 64 + 4 * DURE_CLIENTS);
DURE_SAME(sizeof(struct dure_rotation) <= DURE_PAGE_BYTES, 1);
DURE_SAME(offsetof(struct dure_slot, magic), DURE_PAGE_BYTES);
DURE_SAME(sizeof(struct dure_control) % 8, 0);
/* What a gate reads of another client is one cache line. */
DURE_SAME(offsetof(struct dure_activity, inflight_ns), 56);

#endif
