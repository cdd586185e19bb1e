/* What the files of the shim share: one device, its streams, its signatures. */
#ifndef DURE_SHIM_H
#define DURE_SHIM_H

#include <pthread.h>
#include <stdbool.h>

#include "../plane/plane.h"
#include "driver.h"

#define DURE_DEVICES 16        /* of one process that are looked after; others pass */
#define DURE_STREAMS 256       /* per device; a power of two */
#define DURE_MARKERS 16        /* per stream, on their way */
#define DURE_BATCH 16          /* launches of one batch whose predictions are corrected */
#define DURE_SIGNATURES 8192   /* per device; a power of two */
#define DURE_EVENTS 4096       /* of the program, remembered; a power of two */
#define DURE_POOL 512          /* own events per device */
#define DURE_LINKS 8           /* attachments of one device, old ones included */
#define DURE_SNAPSHOT 32       /* streams one wait is looked at for */
#define DURE_SETS 8            /* green contexts per device */
#define DURE_CREDIT 1024       /* samples of unknown launches a device may take at first */
#define DURE_LIGHTS 8          /* streams that pass lightly; a power of two, 32 at most */

/* ---- log.c ---- */
void dure_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void dure_log_unhooked(const char *symbol);
bool dure_tracing(void);
/* resolve.c */
void dure_each_hook(void (*show)(const char *symbol, uint64_t hits));

/* ---- attach.c: devices of this process and their attachment to an agent ---- */

struct dure_link {
    struct dure_plane plane;
    uint32_t users;   /* threads that use it now */
    bool in_use;
    uint32_t waits_state; /* whether streams can wait for its words: see waits.c */
    cu_pointer words_at;  /* the rotation's page as the device sees it */
    cu_context words_context;
};

/* A launch signature: what is known of one (function, grid, block, shared memory), or of one
 * graph. */
struct dure_signature {
    uint64_t key; /* 0: free */
    uint64_t function;
    uint32_t blocks;
    uint32_t threads;
    uint32_t resident; /* blocks one compute unit holds; 0: unknown */
    uint32_t timed;    /* how often */
    double ns;         /* smoothed; 0: unknown */
    uint64_t seen;
    bool memory_bound;
    bool collective;
    bool graph;
    bool unmovable; /* failed on a set of compute units */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct dure_signature) == 64, "a launch reads one line of the table");

struct dure_marker {
    cu_event event;
    cu_context context; /* of the event */
    uint64_t sum_ns; /* of its stream, when it was recorded */
    uint64_t batch_ns;
    uint32_t batch_launches;
    bool chained; /* the marker before was not reached when this was recorded */
    bool timed;   /* the batch is one launch, and sampled */
    bool guarded; /* a wait on the device lies within the batch */
    uint64_t began_ns; /* when that was put there */
    bool partly;  /* some of the batch was launched lightly: nobody knows what it was */
    uint32_t sms;
    uint64_t company;
    uint32_t predicted_ns;
    uint64_t host_ns; /* that the host took to launch it */
    uint32_t batch_count;
    uint32_t batch[DURE_BATCH]; /* signature indices */
    uint32_t batch_guess_ns[DURE_BATCH];
    uint64_t batch_keys[DURE_BATCH];
};

/* One stream of the program. Sums are of predicted nanoseconds since it was first seen. */
struct dure_stream {
    cu_context context; /* NULL: free */
    cu_stream handle;
    uint64_t thread; /* for the per-thread default stream */
    uint64_t sum_ns;
    uint64_t done_ns;
    uint64_t marked_ns;   /* sum at the newest marker */
    uint64_t used_ns;     /* clock at the last launch */
    uint32_t head, tail;  /* tail: the oldest on its way */
    bool busy;            /* a thread records or queries its markers now, outside the lock */
    bool active;          /* has work that is not known to be over */
    bool blocking_known;
    bool blocking;        /* ordered with the legacy stream */
    uint32_t moved_set;   /* 1 + index of the set its last work is on; 0: on itself */
    uint64_t waited_for;  /* clients of the last wait on the device */
    uint64_t behind_ns;   /* predicted work that follows it */
    struct dure_marker open; /* collects the batch */
    struct dure_marker markers[DURE_MARKERS]; /* a ring */
    cu_event base;        /* the last marker reached, to measure from */
    cu_context base_context;
    /* a move to a set of compute units */
    cu_stream moved[DURE_SETS];
    cu_event hop_away, hop_back;
};

struct dure_set_context {
    uint16_t group_first, group_count;
    cu_context of;      /* the context it was made beside */
    cu_green green;
    cu_context context;
    cu_stream stream;   /* on which kernels of graphs are captured */
    uint32_t sms;
    bool failed;
    uint32_t tries;
    uint64_t retry_ns; /* where it failed: when it may be tried again */
};

struct dure_device {
    /* what a launch uses, side by side */
    pthread_mutex_t lock;
    struct dure_link *link; /* now in force; NULL: pass */
    struct dure_signature *signatures; /* DURE_SIGNATURES */
    uint64_t launching; /* calls under way */
    uint64_t launches; /* numbered, to see what was used last */
    uint64_t since_sample;
    double mean_ns; /* of this device's timed launches */
    double usual_ns; /* of its launches, as predicted */
    uint32_t outstanding; /* streams with work: so many of `active` */
    uint32_t sms;
    uint32_t steady;  /* launches of known duration in a row */
    uint32_t lit;     /* which lights are its */
    uint32_t credit;  /* samples of the unknown it may take */
    uint32_t dice;
    bool collective;
    /* the rest */
    bool attaching;
    bool announced; /* a failure was logged */
    cu_device ordinal;
    uint64_t next_attach_ns;
    uint32_t slow_attaches; /* in a row; by whoever is attaching */
    uint16_t active[DURE_STREAMS];
    uint64_t memory_bytes;
    struct dure_link links[DURE_LINKS];
    struct dure_stream streams[DURE_STREAMS];
    struct { cu_context context; cu_event event; } pool[DURE_POOL];
    uint32_t pooled;
    uint32_t events_open;
    struct dure_set_context sets[DURE_SETS];
    uint32_t green_open;
    bool making_set;
    bool own_events_there; /* markers on sets need events of the set's context */
    uint32_t groups;  /* 0: not asked, UINT32_MAX: sets do not work */
    struct cu_resource *split;
};

/* The device of the current context, or NULL: nothing to do with Dure. */
struct dure_device *dure_here(cu_context *context);
struct dure_device *dure_device_at(cu_device ordinal);
struct dure_device *dure_device_known(cu_device ordinal); /* NULL: not used so far */
/* Take its attachment for use, attaching where that is due; NULL: none. `dure_link_drop` when
 * done. */
struct dure_link *dure_link_take(struct dure_device *device, uint64_t now_ns);
struct dure_link *dure_link_peek(struct dure_device *device);
struct dure_link *dure_link_any(void); /* of any device of this process */
void dure_link_drop(struct dure_link *link);
/* A context ends, or (not `alive`) has ended: forget all that was of it. */
void dure_context_gone(cu_context context, bool alive);
/* A stream is about to end; programs may do that from any context. */
void dure_stream_ends(cu_stream stream);
void dure_flag(struct dure_link *link, uint64_t flag, bool on);
extern bool dure_enabled;

/* ---- predict.c ---- */
struct dure_shape {
    cu_function function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    uint64_t graph; /* id of an executable graph; 0: a kernel */
    uint32_t set_sms; /* compute units it will be confined to; 0: all */
};
struct dure_guess {
    uint32_t index; /* of its signature */
    uint64_t key;
    uint32_t kernel_class;
    uint64_t ns;
    uint32_t timed;
    bool known;
    bool collective;
    bool unmovable;
};
/* Under the device's lock, which it lets go for a kernel never seen before. */
void dure_predict(struct dure_device *device, const struct dure_shape *shape,
                  struct dure_guess *guess);
/* Under the device's lock. */
void dure_learn(struct dure_device *device, uint32_t index, uint64_t key, uint64_t took_ns,
                bool alone);
void dure_correct(struct dure_device *device, const struct dure_marker *marker, double ratio);
void dure_unmovable(struct dure_device *device, const struct dure_guess *guess);

/* One launch on its way. */
struct dure_work {
    cu_context context;
    cu_stream stream;
    struct dure_guess guess;
    struct dure_launch launch;
    uint32_t sms;
    uint64_t before_ns; /* when the marker before it was recorded */
    struct dure_set set; /* of compute units the plan asks for */
    uint32_t hook;       /* HOOK_* by which it came */
    struct dure_waits waits; /* on the device, for whom */
    bool prepare_waits;      /* the words are not registered yet */
    bool wait_due;
    bool sample;
};

/* ---- streams.c: outstanding work ---- */
cu_stream dure_stream_named(cu_stream stream, bool per_thread);
struct dure_stream *dure_stream_of(struct dure_device *device, cu_context context, cu_stream stream,
                                   bool make); /* under the lock */
void dure_begin(struct dure_device *device, struct dure_link *link,
                const struct dure_launch *launch, uint64_t now_ns); /* under the lock */
/* After the call: counts the launch, or takes it back. */
void dure_end(struct dure_device *device, struct dure_link *link, const struct dure_work *work,
              bool launched);
/* A marker before a launch that is to be timed; whether it worked. */
bool dure_mark_before(struct dure_device *device, struct dure_link *link, struct dure_work *work);
/* Query markers; true when something ended. */
bool dure_observe(struct dure_device *device, struct dure_link *link, bool mark_first);
/* Where a wait begins: the work it will have waited for. `stream` NULL: all streams of the
 * context, or those ordered with the legacy stream. */
struct dure_snapshot {
    struct dure_device *device;
    uint32_t count;
    struct {
        uint16_t index;
        uint64_t sum_ns;
    } streams[DURE_SNAPSHOT];
};
void dure_snapshot(struct dure_snapshot *snapshot, cu_stream stream, bool blocking_only);
/* The wait returned: all of that is over. */
void dure_waited(const struct dure_snapshot *snapshot);
/* Work of one stream up to `sum_ns` is over: an event or a callback of the program says so; from a
 * callback the driver may not be called. */
void dure_passed(struct dure_device *device, cu_context context, cu_stream stream, uint64_t sum_ns,
                 bool may_call);
uint64_t dure_sum_of(struct dure_device *device, cu_context context, cu_stream stream);
void dure_stream_gone(struct dure_device *device, cu_stream stream);
void dure_streams_forget(struct dure_device *device, cu_context context, bool alive);
void dure_streams_reset(struct dure_device *device); /* as if all had ended */

void dure_reach(struct dure_device *device, struct dure_link *link, struct dure_stream *stream,
                uint64_t sum_ns, uint64_t took_ns);

/* So many launches were added to a stream by the light path; under the lock. */
void dure_stream_took(struct dure_device *device, struct dure_stream *stream, uint64_t sum_ns,
                      uint32_t launches);

/* ---- light.c: launches that are only counted ---- */
struct dure_light {
    int64_t left; /* launches that may pass; 0 or less: none */
    struct dure_device *device;
    cu_context context;
    cu_stream stream;
    uint32_t granted; /* of which `left` are left; under the device's lock */
    uint32_t hook;    /* by which the launch came that it was granted after */
} __attribute__((aligned(64)));
extern struct dure_light dure_lights[DURE_LIGHTS];
#define DURE_LOOK_EVERY 16 /* launches that pass lightly between two looks at the agent's words */

static inline uint32_t dure_light_of(cu_context context, cu_stream stream)
{
    uint64_t word = (uint64_t)(uintptr_t)stream;
    if (stream == CU_STREAM_OF_LEGACY)
        word = (uint64_t)(uintptr_t)context;
    return (uint32_t)(word * 0x9e3779b97f4a7c15ull >> 40) & (DURE_LIGHTS - 1);
}

bool dure_light_goes_on(struct dure_light *light);
/* All under the device's lock. */
void dure_lights_enter(struct dure_device *device, struct dure_link *link);
void dure_lights_close(struct dure_device *device, struct dure_link *link);
void dure_light_saw(struct dure_device *device, uint64_t predicted_ns, bool known);
void dure_light_grant(struct dure_device *device, struct dure_link *link,
                      const struct dure_work *work);
/* Not under it. */
void dure_lights_out(void);
void dure_lights_forget(void);

/* ---- waits.c: streams that wait on the device in place of held threads ---- */
bool dure_waits_serve(struct dure_link *link, struct dure_work *work, uint64_t now_ns);
bool dure_waits_due(struct dure_device *device, struct dure_work *work, uint64_t now_ns);
void dure_waits_place(struct dure_link *link, const struct dure_work *work, cu_stream stream);
void dure_waits_prepare(struct dure_link *link, cu_context context);
void dure_waits_leave(struct dure_link *link); /* another one took its place */
void dure_waits_reset(struct dure_link *link); /* the attachment is given up */
void dure_waits_context_gone(struct dure_device *device, cu_context context);
void dure_waits_forget(void);

/* ---- markers.c: all under the device's lock, which some let go meanwhile ---- */
void dure_give_event(struct dure_device *device, cu_context context, cu_event event);
void dure_drop_event(struct dure_device *device, cu_event event);
/* Close the open batch of a stream with a marker; `timed`: it is one launch, to be sampled. */
bool dure_mark(struct dure_device *device, struct dure_link *link, struct dure_stream *stream,
               bool timed);
/* Query the oldest markers; true when something ended. */
bool dure_look(struct dure_device *device, struct dure_link *link, struct dure_stream *stream);
/* Retire markers that a wait of the program has shown to be reached. */
void dure_retire_reached(struct dure_device *device, struct dure_link *link,
                         struct dure_stream *stream);
bool dure_same_context(const struct dure_stream *stream);

/* Own calls while another thread captures must not spoil that capture. */
int dure_quiet_begin(void);
void dure_quiet_end(int before);

/* ---- capture.c ---- */
extern uint32_t dure_captures; /* under way in this process */
bool dure_capturing(cu_stream stream);

/* ---- sync.c ---- */
void dure_events_forget(void);

/* ---- memory.c ---- */
/* Give back what ends with a context. */
void dure_memory_context_gone(struct dure_device *device, cu_context context);

/* ---- books.c --------------------------------------------------------------------------------- */

struct dure_allocation {
    uint64_t key; /* address or handle */
    uint64_t bytes;
    struct dure_device *device; /* NULL: no allocation */
    cu_context context;         /* it ends with; NULL: with none */
    uint64_t maps;              /* the handle that is mapped at this address */
    uint32_t holds;             /* who keeps it: its maker, mappings, further handles */
};

/* An allocation was made; gives the one that was known under that key before. */
struct dure_allocation dure_books_enter(uint64_t key, uint64_t bytes, struct dure_device *device,
                                        cu_context context);
/* One that holds it lets go; gives the allocation where it was the last. */
struct dure_allocation dure_books_leave(uint64_t key);
void dure_books_hold(uint64_t handle);
void dure_books_map(uint64_t address, uint64_t bytes, uint64_t handle);
/* Unmap from `*address` on, until an allocation ends by it or the end is reached. */
struct dure_allocation dure_books_unmap(uint64_t *address, uint64_t end);
/* All of a context ends; the bytes they had. */
uint64_t dure_books_end(cu_context context, struct dure_device *device);
/* After a fork, as all that are named so. */
void dure_books_forget(void);

/* ---- graphs.c ---- */
void dure_graphs_forget(void);
/* A number for an executable graph that no other ever had. */
uint64_t dure_graph_id(cu_exec exec);
/* The graph to launch in its place on the set of compute units the plan asks for; itself if
 * none. */
cu_exec dure_variant(struct dure_device *device, struct dure_link *link, struct dure_work *work,
                     cu_exec exec);

/* ---- green.c ---- */
/* The stream to launch on: itself, or one on the set of compute units the plan asks for. */
cu_stream dure_place(struct dure_device *device, struct dure_link *link, struct dure_work *work);
void dure_stand_ins_gone(struct dure_stream *stream, bool alive);
void dure_variants_gone(const struct dure_set_context *set, bool alive); /* graphs.c */

/* ---- nodes.c ---- */
bool dure_can_move_nodes(void);
/* All kernels of a graph to a set; false where it cannot be done, which may leave it half done. */
bool dure_move_nodes(cu_graph graph, const struct dure_set_context *set);
void dure_kernels_forget(void); /* after a fork */
void dure_green_forget(struct dure_device *device, cu_context context, bool alive);
struct dure_set_context *dure_set_context_for(struct dure_device *device, struct dure_link *link,
                                              cu_context context, struct dure_set set);
extern uint32_t dure_moved_streams; /* how many streams have work elsewhere */
void dure_touch_moved(cu_stream stream, bool per_thread);
void dure_touch_all_moved(void);

/* Before anything else of the program touches a stream: put it behind what was moved away from
 * it. */
static inline void dure_touch(cu_stream stream, bool per_thread)
{
    if (__builtin_expect(__atomic_load_n(&dure_moved_streams, __ATOMIC_RELAXED) != 0, 0))
        dure_touch_moved(stream, per_thread);
}

static inline void dure_touch_all(void)
{
    if (__builtin_expect(__atomic_load_n(&dure_moved_streams, __ATOMIC_RELAXED) != 0, 0))
        dure_touch_all_moved();
}

/* Where a stream's newest work is. */
static inline cu_stream dure_where(const struct dure_stream *stream)
{
    return stream->moved_set != 0 ? stream->moved[stream->moved_set - 1] : stream->handle;
}

#endif
