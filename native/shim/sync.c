/* Waits and questions of the program: when they return, work is known to be over.
 *
 * A program's own events tell where in a stream they were recorded, so that programs which poll or
 * wait for events end their bursts as those do that wait for streams.
 */
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define WINDOW 8

/* Events of the program and what had been launched when they were recorded. */
struct remembered {
    cu_event event; /* NULL: free */
    struct dure_device *device;
    cu_context context;
    cu_stream stream;
    uint64_t sum_ns;
    uint64_t age;
};
static struct remembered events[DURE_EVENTS];
static uint64_t events_age;
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;

static struct remembered *slot_of(cu_event event, bool make)
{
    uint64_t hash = (uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15ull >> 32;
    struct remembered *oldest = NULL;
    for (uint32_t step = 0; step < WINDOW; step++) {
        struct remembered *found = &events[(hash + step) % DURE_EVENTS];
        if (found->event == event)
            return found;
        if (oldest == NULL || found->age < oldest->age)
            oldest = found;
    }
    return make ? oldest : NULL;
}

void dure_events_forget(void)
{
    pthread_mutex_init(&events_lock, NULL);
    memset(events, 0, sizeof events);
}

static void remember(cu_event event, cu_stream stream, bool per_thread)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    if (device == NULL || __atomic_load_n(&device->link, __ATOMIC_RELAXED) == NULL)
        return;
    cu_stream named = dure_stream_named(stream, per_thread);
    uint64_t sum_ns = dure_sum_of(device, context, named);
    pthread_mutex_lock(&events_lock);
    struct remembered *slot = slot_of(event, sum_ns != 0);
    if (slot != NULL) {
        *slot = (struct remembered){event, device, context, named, sum_ns, ++events_age};
        if (sum_ns == 0)
            memset(slot, 0, sizeof *slot);
    }
    pthread_mutex_unlock(&events_lock);
}

static void forget(cu_event event)
{
    if (!dure_enabled)
        return;
    pthread_mutex_lock(&events_lock);
    struct remembered *slot = slot_of(event, false);
    if (slot != NULL)
        memset(slot, 0, sizeof *slot);
    pthread_mutex_unlock(&events_lock);
}

static void reached(const struct remembered *what)
{
    if (what->event != NULL)
        dure_passed(what->device, what->context, what->stream, what->sum_ns, true);
}

static struct remembered recall(cu_event event)
{
    struct remembered found = {0};
    if (!dure_enabled)
        return found;
    pthread_mutex_lock(&events_lock);
    struct remembered *slot = slot_of(event, false);
    if (slot != NULL)
        found = *slot;
    pthread_mutex_unlock(&events_lock);
    return found;
}

/* ---- streams --------------------------------------------------------------------------------- */

#define WAIT(symbol, per_thread)                                                        \
    cu_result hook_##symbol(cu_stream stream)                                           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        struct dure_snapshot snapshot;                                                  \
        dure_touch(stream, per_thread);                                                 \
        dure_snapshot(&snapshot, dure_stream_named(stream, per_thread), false);         \
        cu_result result = dure_real.symbol(stream);                                    \
        if (result == CU_OK)                                                            \
            dure_waited(&snapshot);                                                     \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

WAIT(cuStreamSynchronize, false)
WAIT(cuStreamSynchronize_ptsz, true)
WAIT(cuStreamQuery, false)
WAIT(cuStreamQuery_ptsz, true)

cu_result hook_cuCtxSynchronize(void)
{
    DURE_ENTER(cuCtxSynchronize);
    struct dure_snapshot snapshot;
    dure_touch_all();
    dure_snapshot(&snapshot, NULL, false);
    cu_result result = dure_real.cuCtxSynchronize();
    if (result == CU_OK)
        dure_waited(&snapshot);
    return result;
}
DURE_EXPORT(cuCtxSynchronize);

/* ---- events ---------------------------------------------------------------------------------- */

#define RECORD(symbol, per_thread)                                                      \
    cu_result hook_##symbol(cu_event event, cu_stream stream)                           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        cu_result result = dure_real.symbol(event, stream);                             \
        if (result == CU_OK)                                                            \
            remember(event, stream, per_thread);                                        \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define RECORD_FLAGS(symbol, per_thread)                                                \
    cu_result hook_##symbol(cu_event event, cu_stream stream, unsigned flags)           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        cu_result result = dure_real.symbol(event, stream, flags);                      \
        if (result == CU_OK)                                                            \
            remember(event, stream, per_thread);                                        \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

RECORD(cuEventRecord, false)
RECORD(cuEventRecord_ptsz, true)
RECORD_FLAGS(cuEventRecordWithFlags, false)
RECORD_FLAGS(cuEventRecordWithFlags_ptsz, true)

#define EVENT_WAIT(symbol)                                                              \
    cu_result hook_##symbol(cu_event event)                                             \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        struct remembered what = recall(event);                                         \
        cu_result result = dure_real.symbol(event);                                     \
        if (result == CU_OK)                                                            \
            reached(&what);                                                             \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

EVENT_WAIT(cuEventQuery)
EVENT_WAIT(cuEventSynchronize)

cu_result hook_cuEventDestroy_v2(cu_event event)
{
    DURE_ENTER(cuEventDestroy_v2);
    forget(event);
    return dure_real.cuEventDestroy_v2(event);
}
DURE_EXPORT(cuEventDestroy_v2);

#define WAIT_EVENT(symbol, per_thread)                                                  \
    cu_result hook_##symbol(cu_stream stream, cu_event event, unsigned flags)           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return dure_real.symbol(stream, event, flags);                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

WAIT_EVENT(cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, true)

/* ---- callbacks: programs that learn of completion by being called ---------------------------- */

struct told {
    void (*function)(void *);
    void (*callback)(cu_stream, cu_result, void *);
    void *data;
    struct dure_device *device;
    cu_context context;
    cu_stream stream;
    uint64_t sum_ns;
};

/* What to do when the stream gets there; NULL: nothing but what the program asked for. A captured
 * call is made at every replay, so it is left as it is. */
static struct told *tell(cu_stream stream, bool per_thread)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    cu_stream named = dure_stream_named(stream, per_thread);
    if (device == NULL || __atomic_load_n(&device->link, __ATOMIC_RELAXED) == NULL ||
        dure_capturing(named))
        return NULL;
    struct told *told = calloc(1, sizeof *told);
    if (told == NULL)
        return NULL;
    told->device = device;
    told->context = context;
    told->stream = named;
    told->sum_ns = dure_sum_of(device, context, named);
    return told;
}

/* The driver may not be called from here. */
static void call_function(void *data)
{
    struct told told = *(struct told *)data;
    free(data);
    dure_passed(told.device, told.context, told.stream, told.sum_ns, false);
    told.function(told.data);
}

static void call_callback(cu_stream stream, cu_result result, void *data)
{
    struct told told = *(struct told *)data;
    free(data);
    dure_passed(told.device, told.context, told.stream, told.sum_ns, false);
    told.callback(stream, result, told.data);
}

#define HOST_FUNCTION(symbol, per_thread)                                               \
    cu_result hook_##symbol(cu_stream stream, void (*function)(void *), void *data)     \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        struct told *told = function != NULL ? tell(stream, per_thread) : NULL;         \
        if (told == NULL)                                                               \
            return dure_real.symbol(stream, function, data);                            \
        told->function = function;                                                      \
        told->data = data;                                                              \
        cu_result result = dure_real.symbol(stream, call_function, told);               \
        if (result != CU_OK)                                                            \
            free(told);                                                                 \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

HOST_FUNCTION(cuLaunchHostFunc, false)
HOST_FUNCTION(cuLaunchHostFunc_ptsz, true)

#define CALLBACK(symbol, per_thread)                                                    \
    cu_result hook_##symbol(cu_stream stream,                                           \
                            void (*callback)(cu_stream, cu_result, void *), void *data, \
                            unsigned flags)                                             \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        struct told *told = callback != NULL ? tell(stream, per_thread) : NULL;         \
        if (told == NULL)                                                               \
            return dure_real.symbol(stream, callback, data, flags);                     \
        told->callback = callback;                                                      \
        told->data = data;                                                              \
        cu_result result = dure_real.symbol(stream, call_callback, told, flags);        \
        if (result != CU_OK)                                                            \
            free(told);                                                                 \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

CALLBACK(cuStreamAddCallback, false)
CALLBACK(cuStreamAddCallback_ptsz, true)

/* ---- ends ------------------------------------------------------------------------------------ */

cu_result hook_cuStreamDestroy_v2(cu_stream stream)
{
    DURE_ENTER(cuStreamDestroy_v2);
    dure_touch(stream, false);
    dure_stream_ends(stream);
    return dure_real.cuStreamDestroy_v2(stream);
}
DURE_EXPORT(cuStreamDestroy_v2);

cu_result hook_cuCtxDestroy_v2(cu_context context)
{
    DURE_ENTER(cuCtxDestroy_v2);
    dure_context_gone(context, true);
    return dure_real.cuCtxDestroy_v2(context);
}
DURE_EXPORT(cuCtxDestroy_v2);

/* ---- primary contexts: they end when reset, or with the last who retained them --------------- */

static cu_context primary[DURE_DEVICES];

static cu_context *primary_of(cu_device ordinal)
{
    static cu_context none;
    return ordinal >= 0 && ordinal < DURE_DEVICES ? &primary[ordinal] : &none;
}

cu_result hook_cuDevicePrimaryCtxRetain(cu_context *context, cu_device ordinal)
{
    DURE_ENTER(cuDevicePrimaryCtxRetain);
    cu_result result = dure_real.cuDevicePrimaryCtxRetain(context, ordinal);
    if (result == CU_OK && context != NULL)
        __atomic_store_n(primary_of(ordinal), *context, __ATOMIC_RELAXED);
    return result;
}
DURE_EXPORT(cuDevicePrimaryCtxRetain);

#define RESET(symbol)                                                                   \
    cu_result hook_##symbol(cu_device ordinal)                                          \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_context_gone(__atomic_load_n(primary_of(ordinal), __ATOMIC_RELAXED), true); \
        return dure_real.symbol(ordinal);                                               \
    }                                                                                   \
    DURE_EXPORT(symbol);

RESET(cuDevicePrimaryCtxReset)
RESET(cuDevicePrimaryCtxReset_v2)

static void released(cu_device ordinal)
{
    unsigned flags;
    int active = 1;
    if (dure_real.cuDevicePrimaryCtxGetState != NULL &&
        dure_real.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CU_OK && active == 0)
        dure_context_gone(__atomic_load_n(primary_of(ordinal), __ATOMIC_RELAXED), false);
}

#define RELEASE(symbol)                                                                 \
    cu_result hook_##symbol(cu_device ordinal)                                          \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        cu_result result = dure_real.symbol(ordinal);                                   \
        if (result == CU_OK && dure_enabled)                                            \
            released(ordinal);                                                          \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)
