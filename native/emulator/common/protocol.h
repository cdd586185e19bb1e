/* What the stand-in libraries and the broker share: messages, command ring, published state.
 *
 * The broker owns modelled time. A CUDA client gets from it, over a SOCK_SEQPACKET socket, a
 * *channel* (a command ring and the words that say what is finished), an *arena* (the bytes of its
 * device and pinned memory), a doorbell (an eventfd) and the published *state* of all GPUs. An
 * observer (the NVML stand-in) gets the state alone. All times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef EMU_PROTOCOL_H
#define EMU_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_VERSION 2u
#define EMU_GPUS 8
#define EMU_CLIENTS 128
#define EMU_STREAMS 4096
#define EMU_EVENTS 65536
#define EMU_RING 4096      /* commands; a power of two */
#define EMU_CALLBACKS 1024 /* host functions waiting to be run; a power of two */
#define EMU_SAMPLES 2048   /* utilisation samples kept per GPU; a power of two */
#define EMU_GROUP_SMS 8    /* the smallest set of SMs, as on Hopper */
#define EMU_ARGS 9

/* ---- commands -------------------------------------------------------------------------------- */

enum {
    EMU_OP_KERNEL,
    EMU_OP_COPY,      /* args: dst, src, bytes, direction */
    EMU_OP_SET,       /* args: dst, value, element bytes, count, row pitch, rows */
    EMU_OP_RECORD,    /* event, event_seq */
    EMU_OP_WAIT,      /* event, event_seq */
    EMU_OP_HOST,      /* args: token */
    EMU_OP_RELEASE,   /* args: address, bytes: give memory back in stream order */
    EMU_OP_MARK,      /* nothing: it only takes its place in the order */
    EMU_OP_WAIT_VALUE,  /* args: address of a 32-bit word, value, EMU_VALUE_* */
    EMU_OP_WRITE_VALUE, /* args: address, value */
    EMU_OP_HOST_DONE, /* not in a stream: args: stream, seq of the EMU_OP_HOST that returned */
};
/* How a word is compared with the value waited for, as the driver numbers it. */
enum { EMU_VALUE_GEQ, EMU_VALUE_EQ, EMU_VALUE_AND, EMU_VALUE_NOR };
enum { EMU_COPY_TO_DEVICE, EMU_COPY_TO_HOST, EMU_COPY_ON_DEVICE };

#define EMU_FLAG_BLOCKING 1u /* takes part in the order of the legacy default stream */
#define EMU_FLAG_LEGACY 2u   /* is the legacy default stream of its context */

/* Kernels the broker knows; others cost EMU_UNKNOWN_NS and compute nothing. */
enum {
    EMU_KERNEL_UNKNOWN,
    EMU_KERNEL_SPIN,  /* work_ns, bytes, iterations */
    EMU_KERNEL_FILL,  /* x, n, value, work_ns, iterations */
    EMU_KERNEL_ADD,   /* out, a, b, n, work_ns, iterations */
    EMU_KERNEL_AXPY,  /* y, x, n, a, work_ns, iterations */
    EMU_KERNEL_SUM,   /* out, x, n, work_ns, iterations */
    EMU_KERNEL_CHASE, /* x, n, addend, work_ns, iterations: x = x * 1664525 + addend */
    EMU_KERNEL_MATMUL, /* c, a, b, n, work_ns: float32; a sample of c is computed, see below */
};
#define EMU_MATMUL_SAMPLES 16u /* rows, and as many columns of each */
#define EMU_UNKNOWN_NS 10000.0

struct emu_command {
    uint8_t op;
    uint8_t flags;
    uint8_t device;
    int8_t priority; /* lower is more urgent, as the driver has it */
    uint32_t stream;
    uint64_t seq;      /* of this stream, from 1 */
    uint64_t stamp_ns; /* when it was submitted */
    uint32_t groups;   /* bit mask of SM groups; 0: the whole device */
    uint16_t context;
    uint16_t resident; /* blocks that one SM holds */
    uint32_t blocks;
    uint32_t function; /* EMU_KERNEL_* */
    uint64_t event_seq;
    uint32_t event;
    uint32_t spare;
    uint64_t args[EMU_ARGS];
};
_Static_assert(sizeof(struct emu_command) == 128, "commands have a fixed size");

/* ---- channel: one client's words ------------------------------------------------------------- */

struct emu_event_word {
    uint64_t seq; /* newest record that is finished */
    uint64_t ns;  /* when, in modelled time */
};

struct emu_channel {
    uint64_t head; /* commands ever written, by the client */
    uint64_t spare_client[7];
    uint64_t tail; /* commands ever taken, by the broker */
    uint32_t sleeping; /* the broker waits for the doorbell */
    uint32_t poison;   /* a CUresult that every call returns from now on */
    uint32_t locked;   /* calls block */
    uint32_t bell;     /* a futex: changes when something ended */
    uint64_t due_ns;   /* when something will have ended that the broker may not have seen yet */
    uint64_t spare_broker[4];
    uint32_t waiters; /* threads of the client that sleep on the bell */
    uint32_t eager;   /* of those, how many wait for less than the end of a stream */
    uint32_t spare_waiters[14];
    uint64_t callback_head; /* by the broker */
    uint64_t callback_tail; /* by the client */
    struct emu_command callbacks[EMU_CALLBACKS];
    uint64_t completed[EMU_STREAMS]; /* seq of the newest finished command of each stream */
    struct emu_event_word events[EMU_EVENTS];
    struct emu_command ring[EMU_RING];
};

/* ---- state: what NVML shows ------------------------------------------------------------------ */

struct emu_process {
    int32_t pid;
    uint32_t contexts;
    uint64_t used_bytes;
    uint64_t sm_ns; /* SMs times nanoseconds */
    uint64_t dram_bytes;
};

struct emu_sample {
    uint64_t stamp_us;
    int32_t pid;
    uint16_t sm_percent;
    uint16_t memory_percent;
};

struct emu_gpu {
    char name[64];
    uint8_t uuid[16];
    uint32_t sms;
    uint32_t cluster_groups;
    uint32_t processes;
    uint64_t total_bytes;
    uint64_t used_bytes;
    uint64_t bandwidth; /* bytes a second */
    uint64_t stamp_ns;  /* the sums below are of this time */
    uint64_t busy_ns;   /* a kernel ran */
    uint64_t sm_ns;
    uint64_t dram_bytes;
    uint64_t to_device_bytes;
    uint64_t to_host_bytes;
    uint64_t window_end_ns; /* the two figures below are of the window that ended then */
    uint32_t window_busy_percent;
    uint32_t window_memory_percent;
    uint64_t sample_head;
    struct emu_process process[EMU_CLIENTS];
    struct emu_sample samples[EMU_SAMPLES];
};

struct emu_state {
    uint32_t version;
    uint32_t gpus;
    int32_t broker_pid;
    uint32_t mps;
    struct emu_gpu gpu[EMU_GPUS];
};

/* ---- messages -------------------------------------------------------------------------------- */

enum {
    EMU_HELLO,   /* become a CUDA client; the answer carries channel, arena, doorbell, state */
    EMU_OBSERVE, /* the answer carries the state */
    EMU_ATTACH,  /* a context on device; the answer's bytes: nanoseconds that takes */
    EMU_DETACH,
    EMU_TAKE, /* bytes of device memory */
    EMU_GIVE,
    EMU_LOCK, /* pid */
    EMU_UNLOCK,
    EMU_CHECKPOINT,
    EMU_RESTORE,
    EMU_GET_STATE,
    EMU_TERMINATE, /* pid (0: own): end its work cleanly, as the MPS control daemon does */
    EMU_SET_MPS,   /* value */
    EMU_LIST,      /* the answer's pids; value: MPS or not; bytes: the broker's pid */
    EMU_QUIT,
};

struct emu_request {
    uint32_t kind;
    int32_t pid;
    uint32_t device;
    uint32_t value;
    uint64_t bytes;
    uint64_t base; /* EMU_HELLO is followed by where the arena lies in the client */
};

struct emu_answer {
    int32_t result; /* a CUresult */
    uint32_t value;
    uint64_t bytes; /* EMU_HELLO: size of the arena */
    uint32_t pids;
    int32_t pid[EMU_CLIENTS];
};

#define EMU_DESCRIPTORS 4

/* ---- helpers both sides use ------------------------------------------------------------------ */

uint64_t emu_now_ns(void);
/* The broker's folder: DURE_EMULATOR_DIR, else one per user under /tmp. */
const char *emu_directory(void);
/* Connect to the broker of that folder; `start` starts one where none runs. -1: errno says why. */
int emu_connect(bool start);
/* Send a request and take the answer; up to EMU_DESCRIPTORS descriptors where `fds` is not NULL. */
bool emu_ask(int socket, const struct emu_request *request, struct emu_answer *answer, int *fds);

void emu_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns);
void emu_futex_wake(uint32_t *word);

/* Every so many rows and columns the broker computes an element of a product. */
static inline uint64_t emu_matmul_step(uint64_t n)
{
    return n > EMU_MATMUL_SAMPLES ? n / EMU_MATMUL_SAMPLES : 1;
}

static inline uint32_t emu_groups(uint32_t sms)
{
    return (sms + EMU_GROUP_SMS - 1) / EMU_GROUP_SMS;
}

static inline uint32_t emu_group_size(uint32_t sms, uint32_t group)
{
    uint32_t left = sms - group * EMU_GROUP_SMS;
    return left < EMU_GROUP_SMS ? left : EMU_GROUP_SMS;
}

#endif
