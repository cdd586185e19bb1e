/* Stream capture: while a stream is captured, nothing on it is gated, marked or counted. */
#include "hooks.h"
#include "shim.h"

uint32_t dure_captures;

/* Streams join a capture through events, so each is asked while there is any. An error is a legacy
 * stream that must not be touched now, which comes to the same. */
bool dure_capturing(cu_stream stream)
{
    int status = CU_CAPTURE_STATUS_NONE;
    if (__builtin_expect(__atomic_load_n(&dure_captures, __ATOMIC_RELAXED) == 0, 1))
        return false;
    if (dure_real.cuStreamIsCapturing == NULL)
        return true;
    return dure_real.cuStreamIsCapturing(stream, &status) != CU_OK ||
           status != CU_CAPTURE_STATUS_NONE;
}

int dure_quiet_begin(void)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    if (__atomic_load_n(&dure_captures, __ATOMIC_RELAXED) == 0 ||
        dure_real.cuThreadExchangeStreamCaptureMode == NULL ||
        dure_real.cuThreadExchangeStreamCaptureMode(&mode) != CU_OK)
        return -1;
    return mode;
}

void dure_quiet_end(int before)
{
    if (before >= 0)
        dure_real.cuThreadExchangeStreamCaptureMode(&before);
}

static void show_capturing(void)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    struct dure_link *link = device != NULL ? dure_link_peek(device) : NULL;
    if (link == NULL)
        return;
    dure_flag(link, DURE_FLAG_CAPTURING, __atomic_load_n(&dure_captures, __ATOMIC_RELAXED) != 0);
    dure_link_drop(link);
}

static cu_result began(cu_result result)
{
    if (result == CU_OK) {
        __atomic_add_fetch(&dure_captures, 1, __ATOMIC_SEQ_CST);
        dure_lights_out();
        show_capturing();
    }
    return result;
}

/* A capture that went wrong is ended like any other, only with an error. */
static void ended(cu_stream stream)
{
    int status = CU_CAPTURE_STATUS_NONE;
    uint32_t now = __atomic_load_n(&dure_captures, __ATOMIC_RELAXED);
    if (dure_real.cuStreamIsCapturing != NULL &&
        dure_real.cuStreamIsCapturing(stream, &status) == CU_OK && status != CU_CAPTURE_STATUS_NONE)
        return; /* it goes on: the call was refused */
    while (now != 0 && !__atomic_compare_exchange_n(&dure_captures, &now, now - 1, false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    show_capturing();
}

#define BEGIN(symbol, per_thread)                                                       \
    cu_result hook_##symbol(cu_stream stream)                                           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return began(dure_real.symbol(stream));                                         \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define BEGIN_MODE(symbol, per_thread)                                                  \
    cu_result hook_##symbol(cu_stream stream, int mode)                                 \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return began(dure_real.symbol(stream, mode));                                   \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define BEGIN_TO(symbol, per_thread)                                                    \
    cu_result hook_##symbol(cu_stream stream, cu_graph graph, const cu_node *nodes,     \
                            const void *edges, size_t count, int mode)                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return began(dure_real.symbol(stream, graph, nodes, edges, count, mode));       \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define END(symbol, per_thread)                                                         \
    cu_result hook_##symbol(cu_stream stream, cu_graph *graph)                          \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        cu_result result = dure_real.symbol(stream, graph);                             \
        ended(dure_stream_named(stream, per_thread));                                   \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

BEGIN(cuStreamBeginCapture, false)
BEGIN(cuStreamBeginCapture_ptsz, true)
BEGIN_MODE(cuStreamBeginCapture_v2, false)
BEGIN_MODE(cuStreamBeginCapture_v2_ptsz, true)
BEGIN_TO(cuStreamBeginCaptureToGraph, false)
BEGIN_TO(cuStreamBeginCaptureToGraph_ptsz, true)
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)
