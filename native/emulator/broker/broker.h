/* The broker's own structures: settings, clients, streams, work that runs. */
#ifndef EMU_BROKER_H
#define EMU_BROKER_H

#include "../common/protocol.h"

/* CUresult values the broker hands out. */
enum {
    EMU_OK = 0,
    EMU_INVALID_VALUE = 1,
    EMU_OUT_OF_MEMORY = 2,
    EMU_DEVICE_UNAVAILABLE = 46,
    EMU_NOT_FOUND = 500,
    EMU_ILLEGAL_STATE = 401,
    EMU_NOT_READY = 600,
    EMU_ILLEGAL_ADDRESS = 700,
    EMU_CLIENT_TERMINATED = 810,
    EMU_UNKNOWN = 999,
};

/* What a checkpoint made of a process, as the driver numbers it. */
enum { EMU_RUNNING, EMU_LOCKED, EMU_CHECKPOINTED };

struct config {
    uint32_t gpus;
    uint32_t sms;
    uint32_t cluster_groups; /* groups of compute units that can be had with clusters intact */
    uint32_t mps;
    uint32_t shared_fate;    /* a client killed in mid-kernel harms the others (MPS) */
    uint64_t memory_bytes;   /* of each GPU */
    uint64_t context_bytes;  /* what a context itself takes */
    uint64_t context_ns;     /* how long a process takes for its first one */
    double speed;            /* kernels take 1/speed of the time they state */
    double bandwidth;        /* of device memory, bytes a second */
    double link_bandwidth;   /* host to device, each way */
    uint64_t slice_ns;       /* of a process, in time-slice mode */
    uint64_t switch_ns;      /* between two processes */
    uint64_t launch_ns;      /* shortest kernel */
    uint64_t unavailable_ns; /* no new context for so long after a shared fault */
    uint64_t idle_exit_ns;   /* the broker ends so long after its last client */
};

struct client;

struct dependency {
    uint32_t stream;
    uint64_t seq;
};

/* One command that was taken from a ring and is not finished. */
struct op {
    struct emu_command command;
    struct op *next;  /* in its stream */
    struct op *beside; /* among those that run on its GPU */
    struct client *client;
    struct dependency *after; /* of other streams */
    uint32_t after_count;
    bool started;
    double solo_ns;   /* alone at full speed */
    double remaining; /* kernels: SMs times ns; others: ns */
    double rate;      /* of `remaining` a nanosecond, now */
    double width;     /* SMs it can use */
    double density;   /* of those it may use, the share it uses */
    double bandwidth; /* share of the device's, at full speed */
    double speed;     /* rate / width: 1 is alone */
};

struct stream {
    struct op *first;
    struct op *last;
    uint64_t arrived;   /* seq of the newest command */
    uint64_t completed;
    uint32_t id;
    uint16_t context;
    bool blocking;
    bool legacy;
    struct stream *next_active; /* streams of the client that have work */
    bool active;
};

struct client {
    int socket;
    int pidfd;
    int32_t pid;
    bool cuda; /* said hello: has a channel */
    bool dead;
    bool terminated;
    uint32_t lock; /* EMU_RUNNING, ... */
    uint64_t checkpointed_bytes[EMU_GPUS];
    struct emu_channel *channel;
    uint8_t *arena;
    int arena_fd;
    uint64_t base; /* of the arena in the client */
    uint64_t taken; /* commands */
    struct stream *streams[EMU_STREAMS];
    struct stream *active;
    bool notify; /* something ended since its bell last rang */
    uint64_t used_bytes[EMU_GPUS];
    uint32_t contexts[EMU_GPUS];
    double sm_ns[EMU_GPUS];
    double dram_bytes[EMU_GPUS];
    double sampled_sm_ns[EMU_GPUS];
    double sampled_dram_bytes[EMU_GPUS];
};

struct gpu {
    struct op *running; /* kernels and copies, also those whose process has no slice now */
    bool dirty;         /* rates must be found again */
    struct client *owner;
    uint64_t slice_end_ns;
    uint64_t switch_until_ns;
    bool contended; /* another process has kernels too */
    uint64_t unavailable_until_ns;
    double busy_ns;
    double sm_ns;
    double dram_bytes;
    double to_device_bytes;
    double to_host_bytes;
    double window_busy_ns;
    double window_dram_bytes;
};

struct broker {
    struct config config;
    struct emu_state *state;
    int state_fd;
    int doorbell;
    int listener;
    struct client *clients[EMU_CLIENTS];
    struct gpu gpu[EMU_GPUS];
    uint64_t sim_ns;    /* modelled time has come so far */
    uint64_t window_ns; /* start of the utilisation window */
    uint64_t last_client_ns;
    bool quit;
    bool polls; /* a stream waits for a word in memory: nobody tells when it changes */
};
extern struct broker broker;

/* config.c */
void config_load(struct config *config);
void config_reload_mode(struct config *config); /* where somebody changed it meanwhile */
void config_remember_mps(bool mps); /* for brokers of this folder to come */
/* engine.c: bring modelled time up to now. */
void engine_advance(uint64_t now_ns);
uint64_t engine_next_ns(void); /* when something ends next; UINT64_MAX: nothing runs */
bool engine_has_commands(void);
void engine_resume(struct client *client); /* after an unlock */
void engine_drop(struct client *client, uint32_t poison); /* forget all its work */
bool engine_in_kernel(const struct client *client, uint32_t device);
void engine_ring_bells(void);
uint64_t engine_waited_ns(uint64_t next_ns); /* earliest end that somebody may wait for */
/* share.c: how fast everything on a GPU runs now. */
void share_find_rates(struct gpu *gpu);
/* compute.c: what an operation does to memory when it ends; false: illegal address. */
bool compute_finish(const struct op *op);
void compute_cost(struct op *op);
/* values.c */
bool values_reached(const struct client *client, const struct emu_command *c);
void values_write(const struct client *client, const struct emu_command *c);
/* clients.c */
void clients_accept(void);
void clients_serve(struct client *client);
void clients_bury(struct client *client);
/* books.c */
void books_open(void);
void books_update(void);
void books_sample(void);
#define BOOKS_WINDOW_NS 100000000ull
/* control.c: the stand-in for the MPS control program. */
int control_main(int argc, char **argv);

#endif
