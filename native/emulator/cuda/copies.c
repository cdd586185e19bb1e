/* Copies and fills, with the link's modelled time.
 *
 * Pinned memory lies in the arena, where the broker reads and writes it when the copy ends. Other
 * host memory is staged: taken at the call on the way in, and on the way out the call waits. */
#include <string.h>

#include "driver.h"

struct copy {
    uint64_t to;
    uint64_t from;
    uint64_t bytes;
    int direction;
};

static CUresult submit_copy(struct CUstream_st *stream, const struct copy *copy, uint64_t *seq)
{
    struct emu_command command = {.op = EMU_OP_COPY};
    command.args[0] = copy->to;
    command.args[1] = copy->from;
    command.args[2] = copy->bytes;
    command.args[3] = (uint64_t)copy->direction;
    if (stream->capture != NULL) {
        struct CUgraphNode_st *node;
        TRY(capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node));
        node->command = command;
        return CUDA_SUCCESS;
    }
    TRY(capture_implicit(stream));
    *seq = submit(stream, &command);
    return CUDA_SUCCESS;
}

/* From host memory the broker cannot see: a staged copy of it that is freed in stream order. */
static CUresult copy_staged_in(struct CUstream_st *stream, struct copy *copy, uint64_t *seq)
{
    if (stream->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    uint64_t staged = arena_take(copy->bytes);
    if (staged == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy((void *)staged, (const void *)copy->from, copy->bytes);
    copy->from = staged;
    CUresult result = submit_copy(stream, copy, seq);
    if (result == CUDA_SUCCESS) {
        struct emu_command command = {.op = EMU_OP_MARK};
        arena_give_later(staged, stream, submit(stream, &command));
    } else {
        arena_give(staged);
    }
    return result;
}

static CUresult copy_staged_out(struct CUstream_st *stream, struct copy *copy)
{
    if (stream->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    uint64_t staged = arena_take(copy->bytes);
    uint64_t seq = 0;
    if (staged == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct copy inner = {staged, copy->from, copy->bytes, copy->direction};
    CUresult result = submit_copy(stream, &inner, &seq);
    if (result == CUDA_SUCCESS) {
        unlock_driver();
        wait_stream(stream, seq);
        lock_driver();
        result = enter_without_lock();
        if (result == CUDA_SUCCESS)
            memcpy((void *)copy->to, (const void *)staged, copy->bytes);
    }
    arena_give(staged);
    return result;
}

static CUresult copy(struct copy c, CUstream name, bool per_thread, bool wait)
{
    struct CUstream_st *stream;
    uint64_t seq = 0;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (c.bytes == 0)
        return CUDA_SUCCESS;
    if (c.to == 0 || c.from == 0)
        return CUDA_ERROR_INVALID_VALUE;
    bool in = c.direction == EMU_COPY_TO_DEVICE && !arena_holds(c.from);
    bool out = c.direction == EMU_COPY_TO_HOST && !arena_holds(c.to);
    if ((c.direction != EMU_COPY_TO_HOST && !arena_holds(c.to)) ||
        (c.direction != EMU_COPY_TO_DEVICE && !arena_holds(c.from)))
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    CUresult result = wait ? capture_forbids(stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        ;
    else if (in)
        result = copy_staged_in(stream, &c, &seq);
    else if (out)
        result = copy_staged_out(stream, &c);
    else
        result = submit_copy(stream, &c, &seq);
    unlock_driver();
    if (result != CUDA_SUCCESS || !wait)
        return result;
    wait_stream(stream, seq);
    return enter_without_lock();
}

#define COPY(call, to_type, from_type, direction)                                                 \
    API CUresult call##_v2(to_type to, from_type from, size_t bytes)                              \
    {                                                                                             \
        struct copy c = {(uint64_t)to, (uint64_t)from, bytes, direction};                         \
        return copy(c, NULL, false, true);                                                        \
    }                                                                                             \
    API CUresult call##_v2_ptds(to_type to, from_type from, size_t bytes)                         \
    {                                                                                             \
        struct copy c = {(uint64_t)to, (uint64_t)from, bytes, direction};                         \
        return copy(c, NULL, true, true);                                                         \
    }                                                                                             \
    API CUresult call##Async_v2(to_type to, from_type from, size_t bytes, CUstream stream)        \
    {                                                                                             \
        struct copy c = {(uint64_t)to, (uint64_t)from, bytes, direction};                         \
        return copy(c, stream, false, false);                                                     \
    }                                                                                             \
    API CUresult call##Async_v2_ptsz(to_type to, from_type from, size_t bytes, CUstream stream)   \
    {                                                                                             \
        struct copy c = {(uint64_t)to, (uint64_t)from, bytes, direction};                         \
        return copy(c, stream, true, false);                                                      \
    }
COPY(cuMemcpyHtoD, CUdeviceptr, const void *, EMU_COPY_TO_DEVICE)
COPY(cuMemcpyDtoH, void *, CUdeviceptr, EMU_COPY_TO_HOST)
COPY(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr, EMU_COPY_ON_DEVICE)

/* Unified addresses: what lies in the arena and is no pinned memory is on the device. */
static int direction_of(CUdeviceptr to, CUdeviceptr from)
{
    int device;
    uint64_t size;
    uint64_t accounted;
    int kind = ARENA_OTHER;
    lock_driver();
    uint64_t start = arena_holds(to) ? arena_find(to, &size) : 0;
    bool to_host = start == 0 || (arena_told(start, &kind, &device, &accounted)
                                  && kind == ARENA_HOST);
    start = arena_holds(from) ? arena_find(from, &size) : 0;
    bool from_host = start == 0 || (arena_told(start, &kind, &device, &accounted)
                                    && kind == ARENA_HOST);
    unlock_driver();
    if (to_host)
        return EMU_COPY_TO_HOST;
    return from_host ? EMU_COPY_TO_DEVICE : EMU_COPY_ON_DEVICE;
}

static CUresult copy_any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                         bool per_thread, bool wait)
{
    ENTER();
    struct copy c = {to, from, bytes, direction_of(to, from)};
    return copy(c, stream, per_thread, wait);
}

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_any(to, from, bytes, NULL, false, true);
}

API CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_any(to, from, bytes, NULL, true, true);
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_any(to, from, bytes, stream, false, false);
}

API CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_any(to, from, bytes, stream, true, false);
}

/* ---- fills ----------------------------------------------------------------------------------- */

struct fill {
    uint64_t to;
    uint64_t value;
    uint64_t element;
    uint64_t count;
    uint64_t pitch;
    uint64_t rows;
};

static CUresult fill(const struct fill *f, CUstream name, bool per_thread, bool wait)
{
    struct CUstream_st *stream;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (f->count == 0)
        return CUDA_SUCCESS;
    if (!arena_holds(f->to))
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_command command = {.op = EMU_OP_SET};
    uint64_t args[6] = {f->to, f->value, f->element, f->count, f->pitch, f->rows};
    memcpy(command.args, args, sizeof args);
    uint64_t seq = 0;
    lock_driver();
    CUresult result = wait ? capture_forbids(stream) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        struct CUgraphNode_st *node;
        result = capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET, &node);
        if (result == CUDA_SUCCESS)
            node->command = command;
    } else if (result == CUDA_SUCCESS) {
        result = capture_implicit(stream);
        command.groups = stream->context->groups;
        if (result == CUDA_SUCCESS)
            seq = submit(stream, &command);
    }
    unlock_driver();
    if (result == CUDA_SUCCESS && wait)
        wait_stream(stream, seq);
    return result == CUDA_SUCCESS ? enter_without_lock() : result;
}

#define FILL(bits, type)                                                                          \
    API CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count)                   \
    {                                                                                             \
        return fill(&(struct fill){to, value, bits / 8, count, 0, 1}, NULL, false, true);         \
    }                                                                                             \
    API CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, size_t count)              \
    {                                                                                             \
        return fill(&(struct fill){to, value, bits / 8, count, 0, 1}, NULL, true, true);          \
    }                                                                                             \
    API CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) \
    {                                                                                             \
        return fill(&(struct fill){to, value, bits / 8, count, 0, 1}, stream, false, false);      \
    }                                                                                             \
    API CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count,            \
                                             CUstream stream)                                     \
    {                                                                                             \
        return fill(&(struct fill){to, value, bits / 8, count, 0, 1}, stream, true, false);       \
    }                                                                                             \
    API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,   \
                                        size_t height)                                            \
    {                                                                                             \
        return fill(&(struct fill){to, value, bits / 8, width, pitch, height}, NULL, false, true); \
    }                                                                                             \
    API CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                          size_t height, CUstream stream)                         \
    {                                                                                             \
        struct fill f = {to, value, bits / 8, width, pitch, height};                              \
        return fill(&f, stream, false, false);                                                    \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
