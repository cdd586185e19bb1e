/* Streams: made, named, waited for; host functions in them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

static uint8_t used[EMU_STREAMS];
static __thread struct CUstream_st *per_thread_stream[EMU_GPUS];

static struct CUstream_st *resting; /* freed, perhaps not done */

/* Give back the numbers of freed streams whose work is done. */
static void reap(void)
{
    for (struct CUstream_st **at = &resting; *at != NULL;) {
        struct CUstream_st *old = *at;
        if (!stream_is_done(old)) {
            at = &old->next;
            continue;
        }
        used[old->id] = 0;
        *at = old->next;
        free(old->after);
        free(old);
    }
}

/* With the driver locked. A number is used again only when its stream has come to rest. */
struct CUstream_st *stream_make(struct CUctx_st *context, uint32_t flags, int priority)
{
    reap();
    for (uint32_t id = 0; id < EMU_STREAMS; id++) {
        if (used[id])
            continue;
        struct CUstream_st *stream = calloc(1, sizeof *stream);
        used[id] = 1;
        stream->kind = IS_STREAM;
        stream->id = id;
        stream->context = context;
        stream->flags = flags;
        stream->priority = priority;
        stream->submitted = __atomic_load_n(&driver.channel->completed[id], __ATOMIC_ACQUIRE);
        stream->next = driver.streams;
        driver.streams = stream;
        return stream;
    }
    return NULL;
}

/* With the driver locked. Work in it goes on; its number is given back when that is done. */
void stream_free(struct CUstream_st *stream)
{
    for (struct CUstream_st **at = &driver.streams; *at != NULL; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    stream->kind = 0;
    stream->next = resting;
    resting = stream;
}

CUresult resolve_stream(CUstream name, bool per_thread, struct CUstream_st **stream)
{
    if (name != NULL && name != CU_STREAM_LEGACY && name != CU_STREAM_PER_THREAD) {
        *stream = name;
        return name->kind == IS_STREAM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    struct CUctx_st *context;
    TRY(current_context_or_error(&context));
    if (name == CU_STREAM_LEGACY || (name == NULL && !per_thread)) {
        *stream = context->legacy;
        return CUDA_SUCCESS;
    }
    struct CUstream_st **own = &per_thread_stream[context->ordinal];
    if (*own == NULL || (*own)->context != context) {
        lock_driver();
        *own = stream_make(context, EMU_FLAG_BLOCKING, 0);
        unlock_driver();
    }
    *stream = *own;
    return *own != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    struct CUctx_st *context;
    ENTER();
    TRY(current_context_or_error(&context));
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    lock_driver();
    *stream = stream_make(context, flags & CU_STREAM_NON_BLOCKING ? 0 : EMU_FLAG_BLOCKING,
                          priority);
    unlock_driver();
    return *stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

API CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER();
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        stream->kind != IS_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    lock_driver();
    stream_free(stream);
    unlock_driver();
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    CUresult result = capture_forbids(stream);
    if (result == CUDA_SUCCESS)
        result = capture_implicit(stream);
    uint64_t seq = stream->submitted;
    if (result == CUDA_SUCCESS && (stream->flags & EMU_FLAG_LEGACY) != 0) {
        struct emu_command mark = {.op = EMU_OP_MARK}; /* it stands behind the blocking streams */
        seq = submit(stream, &mark);
    }
    unlock_driver();
    if (result != CUDA_SUCCESS)
        return result;
    wait_stream(stream, seq);
    return enter_without_lock();
}

static CUresult query(CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    CUresult result = capture_forbids(stream);
    bool done = stream_is_done(stream);
    unlock_driver();
    if (result != CUDA_SUCCESS || done)
        return result;
    poke_if_due();
    return CUDA_ERROR_NOT_READY;
}

/* One call for streams of programs that choose the per-thread default, one for the others. */
#define BOTH(call, implementation)                                                                \
    API CUresult call(CUstream stream)                                                            \
    {                                                                                             \
        return implementation(stream, false);                                                     \
    }                                                                                             \
    API CUresult call##_ptsz(CUstream stream)                                                     \
    {                                                                                             \
        return implementation(stream, true);                                                      \
    }
BOTH(cuStreamSynchronize, synchronize)
BOTH(cuStreamQuery, query)

static CUresult get_priority(CUstream name, int *priority, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

static CUresult get_flags(CUstream name, unsigned int *flags, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    *flags = stream->flags == 0 ? CU_STREAM_NON_BLOCKING : 0;
    return CUDA_SUCCESS;
}

static CUresult get_context(CUstream name, CUcontext *context, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    *context = stream->context;
    return CUDA_SUCCESS;
}

static CUresult get_id(CUstream name, unsigned long long *id, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    *id = stream->id + 1ull;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUstream name, CUdevice *device, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    *device = stream->context->ordinal;
    return CUDA_SUCCESS;
}

#define GETTER(call, type, implementation)                                                        \
    API CUresult call(CUstream stream, type *value)                                               \
    {                                                                                             \
        return implementation(stream, value, false);                                              \
    }                                                                                             \
    API CUresult call##_ptsz(CUstream stream, type *value)                                        \
    {                                                                                             \
        return implementation(stream, value, true);                                               \
    }
GETTER(cuStreamGetPriority, int, get_priority)
GETTER(cuStreamGetFlags, unsigned int, get_flags)
GETTER(cuStreamGetCtx, CUcontext, get_context)
GETTER(cuStreamGetId, unsigned long long, get_id)
GETTER(cuStreamGetDevice, CUdevice, get_device)

API CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    struct CUstream_st *of;
    ENTER();
    TRY(resolve_stream(stream, false, &of));
    *green = of->context->green;
    return CUDA_SUCCESS;
}

API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    struct CUstream_st *of;
    ENTER();
    TRY(resolve_stream(stream, false, &of));
    *context = of->context->green == NULL ? of->context : NULL;
    *green = of->context->green;
    return CUDA_SUCCESS;
}

/* ---- host functions -------------------------------------------------------------------------- */

struct host_call {
    CUhostFn function;
    void *data;
    bool once; /* not part of a graph: freed when it has run */
};

static pthread_t runner;
static pid_t runner_pid;

static void run_host_call(const struct emu_command *posted)
{
    struct host_call *call = (struct host_call *)posted->args[0];
    call->function(call->data);
    lock_driver();
    struct emu_command done = {.op = EMU_OP_HOST_DONE, .stamp_ns = emu_now_ns()};
    done.args[0] = posted->stream;
    done.args[1] = posted->seq;
    struct emu_channel *channel = driver.channel;
    while (channel->head - __atomic_load_n(&channel->tail, __ATOMIC_ACQUIRE) >= EMU_RING)
        usleep(20);
    channel->ring[channel->head % EMU_RING] = done;
    __atomic_store_n(&channel->head, channel->head + 1, __ATOMIC_SEQ_CST);
    ring_doorbell();
    unlock_driver();
    if (call->once)
        free(call);
}

/* The thread that runs host functions, as the driver has one. */
static void *run_host_calls(void *unused)
{
    struct emu_channel *channel = driver.channel;
    (void)unused;
    for (;;) {
        uint32_t bell = __atomic_load_n(&channel->bell, __ATOMIC_SEQ_CST);
        uint64_t head = __atomic_load_n(&channel->callback_head, __ATOMIC_SEQ_CST);
        if (channel->callback_tail < head) {
            struct emu_command posted = channel->callbacks[channel->callback_tail % EMU_CALLBACKS];
            __atomic_store_n(&channel->callback_tail, channel->callback_tail + 1, __ATOMIC_RELEASE);
            run_host_call(&posted);
            continue;
        }
        __atomic_add_fetch(&channel->waiters, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&channel->callback_head, __ATOMIC_SEQ_CST) == head)
            emu_futex_wait(&channel->bell, bell, 100000000ull);
        __atomic_sub_fetch(&channel->waiters, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* With the driver locked. */
CUresult host_submit(struct CUstream_st *stream, CUhostFn function, void *data)
{
    struct host_call *call = malloc(sizeof *call);
    *call = (struct host_call){function, data, true};
    if (runner_pid != driver.pid) {
        if (pthread_create(&runner, NULL, run_host_calls, NULL) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pthread_detach(runner);
        runner_pid = driver.pid;
    }
    struct emu_command command = {.op = EMU_OP_HOST};
    command.args[0] = (uint64_t)call;
    submit(stream, &command);
    return CUDA_SUCCESS;
}

static CUresult launch_host(CUstream name, CUhostFn function, void *data, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    CUresult result;
    if (stream->capture != NULL) {
        struct CUgraphNode_st *node;
        result = capture_node(stream, CU_GRAPH_NODE_TYPE_HOST, &node);
        if (result == CUDA_SUCCESS) {
            node->host = function;
            node->host_data = data;
        }
    } else {
        result = host_submit(stream, function, data);
    }
    unlock_driver();
    return result;
}

API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return launch_host(stream, function, data, false);
}

API CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
    return launch_host(stream, function, data, true);
}

struct callback {
    void (*function)(CUstream, CUresult, void *);
    CUstream stream;
    void *data;
};

static void run_callback(void *data)
{
    struct callback *callback = data;
    callback->function(callback->stream, CUDA_SUCCESS, callback->data);
    free(callback);
}

static CUresult add_callback(CUstream stream, void (*function)(CUstream, CUresult, void *),
                             void *data,
                             bool per_thread)
{
    struct CUstream_st *resolved;
    ENTER();
    TRY(resolve_stream(stream, per_thread, &resolved));
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (resolved->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct callback *callback = malloc(sizeof *callback);
    *callback = (struct callback){function, stream, data};
    return launch_host(stream, run_callback, callback, per_thread);
}

API CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *),
                                 void *data, unsigned int flags)
{
    (void)flags;
    return add_callback(stream, function, data, false);
}

API CUresult cuStreamAddCallback_ptsz(CUstream stream, void (*function)(CUstream, CUresult, void *),
                                      void *data, unsigned int flags)
{
    (void)flags;
    return add_callback(stream, function, data, true);
}
