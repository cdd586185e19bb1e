/* Stream capture: what is submitted becomes a graph; what is not allowed meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static uint64_t next_capture = 1;

void nodes_copy(struct CUgraphNode_st ***to, uint32_t *count, struct CUgraphNode_st *const *from,
                uint32_t from_count)
{
    free(*to);
    *to = malloc((from_count + 1) * sizeof **to);
    if (from_count > 0)
        memcpy(*to, from, from_count * sizeof **to);
    *count = from_count;
}

void nodes_join(struct CUgraphNode_st ***to, uint32_t *count, struct CUgraphNode_st *const *from,
                uint32_t from_count)
{
    *to = realloc(*to, (*count + from_count + 1) * sizeof **to);
    for (uint32_t i = 0; i < from_count; i++) {
        bool there = false;
        for (uint32_t k = 0; k < *count; k++)
            there |= (*to)[k] == from[i];
        if (!there)
            (*to)[(*count)++] = from[i];
    }
}

/* Calls that touch a stream being captured from outside, as synchronisation does, end the
 * capture. */
CUresult capture_forbids(struct CUstream_st *stream)
{
    if (stream->capture == NULL)
        return CUDA_SUCCESS;
    stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Calls that are unsafe while anybody captures globally, or this thread captures for itself. */
CUresult capture_forbids_here(void)
{
    if (__atomic_load_n(&driver.captures, __ATOMIC_ACQUIRE) == NULL ||
        thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    lock_driver();
    for (struct capture *c = driver.captures; c != NULL; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        bool forbidden = (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                          (own || thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) ||
                         (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own);
        if (!forbidden)
            continue;
        c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    unlock_driver();
    return result;
}

/* Work in the legacy stream while a blocking stream is captured would have to be part of it. */
CUresult capture_implicit(struct CUstream_st *stream)
{
    if ((stream->flags & EMU_FLAG_LEGACY) == 0)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    for (struct capture *c = driver.captures; c != NULL; c = c->next) {
        if ((c->origin->flags & EMU_FLAG_BLOCKING) == 0 || c->origin->context != stream->context)
            continue;
        c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
}

CUresult capture_node(struct CUstream_st *stream, int type, struct CUgraphNode_st **node)
{
    struct capture *capture = stream->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *node = graph_add(capture->graph, type, stream->after, stream->after_count);
    (*node)->context = stream->context;
    nodes_copy(&stream->after, &stream->after_count, node, 1);
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream name, int mode, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((stream->flags & EMU_FLAG_LEGACY) != 0)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    lock_driver();
    if (stream->capture != NULL) {
        unlock_driver();
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    struct capture *capture = calloc(1, sizeof *capture);
    capture->id = next_capture++;
    capture->mode = mode;
    capture->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capture->thread = pthread_self();
    capture->graph = graph_make();
    capture->origin = stream;
    capture->next = driver.captures;
    __atomic_store_n(&driver.captures, capture, __ATOMIC_RELEASE);
    stream->capture = capture;
    stream->after_count = 0;
    unlock_driver();
    return CUDA_SUCCESS;
}

/* Whether everything captured leads back to the stream that began. */
static bool is_joined(const struct capture *capture)
{
    const struct CUgraph_st *graph = capture->graph;
    for (uint32_t i = 0; i < graph->count; i++) {
        bool followed = false;
        for (uint32_t k = i + 1; k < graph->count && !followed; k++)
            for (uint32_t d = 0; d < graph->nodes[k]->after_count; d++)
                followed |= graph->nodes[k]->after[d] == graph->nodes[i];
        for (uint32_t d = 0; d < capture->origin->after_count; d++)
            followed |= capture->origin->after[d] == graph->nodes[i];
        if (!followed)
            return false;
    }
    return true;
}

static void forget(struct capture *capture)
{
    for (struct CUstream_st *s = driver.streams; s != NULL; s = s->next) {
        if (s->capture == capture) {
            s->capture = NULL;
            s->after_count = 0;
        }
    }
    for (struct capture **at = &driver.captures; *at != NULL; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED; /* events may still point here */
    capture->next = NULL;
}

static CUresult end(CUstream name, CUgraph *graph, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    struct capture *capture = stream->capture;
    CUresult result = CUDA_SUCCESS;
    if (graph != NULL)
        *graph = NULL;
    if (capture == NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
             !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    bool over = capture != NULL && capture->origin == stream &&
                result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (over) {
        if (result == CUDA_SUCCESS && graph != NULL)
            *graph = capture->graph;
        else
            graph_free(capture->graph);
        forget(capture);
    }
    unlock_driver();
    return result;
}

static CUresult status(CUstream name, int *value, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((name == NULL && !per_thread) || name == CU_STREAM_LEGACY) {
        *value = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    *value = stream->capture != NULL ? stream->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    unlock_driver();
    return CUDA_SUCCESS;
}

/* What a program asks about a capture: which arguments are NULL depends on its version. */
struct info {
    int *status;
    uint64_t *id;
    CUgraph *graph;
    const CUgraphNode **after;
    size_t *after_count;
};

static CUresult get_info(CUstream name, const struct info *info, bool per_thread)
{
    struct CUstream_st *stream;
    TRY(status(name, info->status, per_thread));
    if (*info->status == CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_SUCCESS;
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    if (info->id != NULL)
        *info->id = stream->capture->id;
    if (info->graph != NULL)
        *info->graph = stream->capture->graph;
    if (info->after != NULL)
        *info->after = stream->after;
    if (info->after_count != NULL)
        *info->after_count = stream->after_count;
    unlock_driver();
    return CUDA_SUCCESS;
}

#define CAPTURE(suffix, per_thread)                                                               \
    API CUresult cuStreamBeginCapture_v2##suffix(CUstream stream, int mode)                       \
    {                                                                                             \
        return begin(stream, mode, per_thread);                                                   \
    }                                                                                             \
    API CUresult cuStreamEndCapture##suffix(CUstream stream, CUgraph *graph)                      \
    {                                                                                             \
        return end(stream, graph, per_thread);                                                    \
    }                                                                                             \
    API CUresult cuStreamIsCapturing##suffix(CUstream stream, int *value)                         \
    {                                                                                             \
        return status(stream, value, per_thread);                                                 \
    }                                                                                             \
    API CUresult cuStreamGetCaptureInfo##suffix(CUstream stream, int *value, uint64_t *id)        \
    {                                                                                             \
        return get_info(stream, &(struct info){value, id, NULL, NULL, NULL}, per_thread);         \
    }                                                                                             \
    API CUresult cuStreamGetCaptureInfo_v2##suffix(CUstream stream, int *value, uint64_t *id,     \
                                                   CUgraph *graph, const CUgraphNode **after,     \
                                                   size_t *count)                                 \
    {                                                                                             \
        return get_info(stream, &(struct info){value, id, graph, after, count}, per_thread);      \
    }                                                                                             \
    API CUresult cuStreamGetCaptureInfo_v3##suffix(CUstream stream, int *value, uint64_t *id,     \
                                                   CUgraph *graph, const CUgraphNode **after,     \
                                                   const void **edges, size_t *count)             \
    {                                                                                             \
        if (edges != NULL)                                                                        \
            *edges = NULL;                                                                        \
        return get_info(stream, &(struct info){value, id, graph, after, count}, per_thread);      \
    }
CAPTURE(, false)
CAPTURE(_ptsz, true)

API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER();
    if (mode == NULL || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
