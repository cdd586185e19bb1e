/* The emulated driver's own structures: what lies behind the handles it gives out. */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include <pthread.h>

#include "../common/cuda_api.h"
#include "../common/protocol.h"

/* Protected: a preloaded library may define the same names, and ours must still find their own. */
#define API __attribute__((visibility("protected")))

/* Handles start with a word that tells what they are; freed ones lose it. */
enum {
    IS_CONTEXT = 0x43545831,
    IS_STREAM = 0x53545231,
    IS_EVENT = 0x45565431,
    IS_MODULE = 0x4d4f4431,
    IS_FUNCTION = 0x464e4331,
    IS_GRAPH = 0x47524131,
    IS_NODE = 0x4e4f4431,
    IS_EXEC = 0x45584531,
    IS_GREEN = 0x47524e31,
    IS_POOL = 0x504f4f31,
    IS_DESC = 0x44534331,
};

#define PARAMS 32
#define PARAM_BYTES 512

struct CUctx_st {
    uint32_t kind;
    uint32_t id;
    int device; /* of the broker */
    int ordinal; /* as the program numbers it */
    uint32_t groups; /* SMs of a green context; 0: all */
    uint32_t sms;
    int holds;  /* of a primary context */
    bool primary;
    struct CUgreenCtx_st *green;
    struct CUstream_st *legacy;
};

struct capture;

struct CUstream_st {
    uint32_t kind;
    uint32_t id;
    struct CUctx_st *context;
    uint32_t flags; /* EMU_FLAG_* */
    int priority;
    uint64_t submitted;
    struct capture *capture;
    struct CUgraphNode_st **after; /* while capturing: what the next node depends on */
    uint32_t after_count;
    struct CUstream_st *next; /* of all streams */
};

struct CUevent_st {
    uint32_t kind;
    uint32_t id;
    uint32_t flags;
    int device;
    uint64_t recorded; /* seq of its newest record; 0: never */
    struct capture *capture; /* recorded while capturing */
    struct CUgraphNode_st **after;
    uint32_t after_count;
    uint64_t capture_id;
};

struct CUfunc_st {
    uint32_t kind;
    uint32_t kernel; /* EMU_KERNEL_* */
    char name[128];
    uint32_t params;
    uint32_t size[PARAMS];
    uint32_t offset[PARAMS];
    uint32_t dynamic_shared;
    struct CUmod_st *module;
    struct CUfunc_st *next;
};

struct CUmod_st {
    uint32_t kind;
    struct CUfunc_st *functions;
};

/* A kernel launch with its arguments, as a graph node keeps it. */
struct launch {
    struct CUfunc_st *function;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared;
    unsigned char bytes[PARAM_BYTES];
};

struct CUgraphNode_st {
    uint32_t kind;
    int type; /* CU_GRAPH_NODE_TYPE_* */
    struct CUgraph_st *graph;
    struct CUgraphNode_st **after;
    uint32_t after_count;
    uint32_t index;
    struct emu_command command;
    struct launch launch;
    void *pointers[PARAMS]; /* to its arguments, for those who ask */
    struct CUctx_st *context;
    CUhostFn host;
    void *host_data;
};

struct CUgraph_st {
    uint32_t kind;
    struct CUgraphNode_st **nodes;
    uint32_t count;
    uint32_t room;
};

struct capture {
    uint64_t id;
    int mode;
    int status;
    pthread_t thread;
    struct CUgraph_st *graph;
    struct CUstream_st *origin;
    struct capture *next;
};

struct CUgreenCtx_st {
    uint32_t kind;
    struct CUctx_st context;
};

struct driver {
    bool started;
    bool forked;
    pid_t pid;
    int socket;
    int doorbell;
    struct emu_channel *channel;
    const struct emu_state *state;
    uint8_t *arena;
    uint64_t arena_bytes;
    uint32_t devices;
    int device[EMU_GPUS]; /* of the broker, as CUDA_VISIBLE_DEVICES has them */
    struct CUctx_st primary[EMU_GPUS];
    struct CUstream_st *streams;
    struct capture *captures;
    int priority; /* CUDA_MPS_CLIENT_PRIORITY */
    double sm_share; /* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE */
    pthread_mutex_t lock;      /* handles, ring, arena */
    pthread_mutex_t ask_lock;  /* the socket */
};
extern struct driver driver;

#define ENTER()                                                                                   \
    do {                                                                                          \
        CUresult entered_ = enter();                                                              \
        if (entered_ != CUDA_SUCCESS)                                                             \
            return entered_;                                                                      \
    } while (0)
#define TRY(call)                                                                                 \
    do {                                                                                          \
        CUresult tried_ = (call);                                                                 \
        if (tried_ != CUDA_SUCCESS)                                                               \
            return tried_;                                                                        \
    } while (0)

/* core.c */
CUresult enter(void); /* the checks at the start of each call: initialised, not locked, no error */
CUresult enter_without_lock(void);
CUresult ask(struct emu_request request, struct emu_answer *answer);
struct CUctx_st *current_context(void);
CUresult current_context_or_error(struct CUctx_st **context);
/* A stream as a program names it: its own, NULL, or one of the two special values. */
CUresult resolve_stream(CUstream name, bool per_thread, struct CUstream_st **stream);
void lock_driver(void);
void unlock_driver(void);

/* ring.c; all with the driver locked */
uint64_t submit(struct CUstream_st *stream, struct emu_command *command);
void wait_stream(struct CUstream_st *stream, uint64_t seq); /* unlocked */
bool stream_is_done(const struct CUstream_st *stream);
void wait_event_seq(uint32_t event, uint64_t seq); /* unlocked */
void poke_if_due(void);
void ring_doorbell(void);

/* streams.c */
struct CUstream_st *stream_make(struct CUctx_st *context, uint32_t flags, int priority);
void stream_free(struct CUstream_st *stream);
CUresult stream_submit(struct CUstream_st *stream, struct emu_command *command);
CUresult host_submit(struct CUstream_st *stream, CUhostFn function, void *data);

/* arena.c */
uint64_t arena_take(uint64_t bytes);
void arena_give(uint64_t address);
void arena_give_later(uint64_t address, struct CUstream_st *stream, uint64_t seq);
uint64_t arena_size(uint64_t address); /* of the allocation that starts there; 0: none */
uint64_t arena_find(uint64_t address, uint64_t *bytes); /* start of the one it lies in; 0: none */
void arena_note(uint64_t address, int kind, int device, uint64_t accounted);
bool arena_told(uint64_t address, int *kind, int *device, uint64_t *accounted);
bool arena_holds(uint64_t address);
enum { ARENA_OTHER, ARENA_DEVICE, ARENA_HOST, ARENA_MANAGED, ARENA_RESERVED };

/* capture.c */
CUresult capture_forbids(struct CUstream_st *stream);
CUresult capture_forbids_here(void); /* calls that are not allowed while this thread captures */
CUresult capture_node(struct CUstream_st *stream, int type, struct CUgraphNode_st **node);
CUresult capture_implicit(struct CUstream_st *stream);
void nodes_copy(struct CUgraphNode_st ***to, uint32_t *count, struct CUgraphNode_st *const *from,
                uint32_t from_count);
void nodes_join(struct CUgraphNode_st ***to, uint32_t *count, struct CUgraphNode_st *const *from,
                uint32_t from_count);

/* graphs.c */
struct CUgraph_st *graph_make(void);
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, int type,
                                 struct CUgraphNode_st *const *after,
                                 uint32_t after_count);
void graph_free(struct CUgraph_st *graph);
void node_copy(struct CUgraphNode_st *to, const struct CUgraphNode_st *from);

/* launch.c */
void launch_fill(const struct launch *launch, const struct CUctx_st *context,
                 struct emu_command *c);
void launch_arguments(struct launch *launch, void **params, void **extra);
uint32_t blocks_resident(unsigned int threads, unsigned int shared);

/* contexts.c */
CUresult context_open(struct CUctx_st *context, int ordinal);
void context_close(struct CUctx_st *context);

#endif
