/* Copies and fills: the limit on copy bandwidth, and their place in a stream's order.
 *
 * Only copies between host and device count for the limit; where the driver alone knows the kind,
 * all bytes do. A copy to the host that returns has waited for the work before it.
 */
#include <errno.h>
#include <time.h>

#include "hooks.h"
#include "shim.h"

#define SLICE_NS 10000000ull

/* Wait until the tenant may copy so much, in slices, and not longer than any launch is held. */
static void pace(uint64_t bytes, cu_stream stream)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    if (device == NULL || dure_capturing(stream))
        return;
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    int error_before = errno;
    uint64_t wait_ns = dure_copy_wait_ns(&link->plane, bytes, dure_now_ns());
    wait_ns = wait_ns < DURE_LONGEST_HOLD_NS ? wait_ns : DURE_LONGEST_HOLD_NS;
    while (wait_ns > 0) {
        uint64_t slice_ns = wait_ns < SLICE_NS ? wait_ns : SLICE_NS;
        struct timespec slice = {0, (long)slice_ns};
        nanosleep(&slice, NULL);
        wait_ns -= slice_ns;
    }
    errno = error_before;
    dure_link_drop(link);
}

static cu_stream own(bool per_thread)
{
    return per_thread ? CU_STREAM_OF_THREAD : CU_STREAM_OF_LEGACY;
}

/* Memory types: 1 is the host's, 2 the device's, 4 unified. */
static uint64_t host_bytes(int source, int target, uint64_t bytes)
{
    return source == 2 && target == 2 ? 0 : bytes;
}

static uint64_t bytes_2d(const struct cu_copy_2d *copy)
{
    if (copy == NULL)
        return 0;
    return host_bytes(copy->source_type, copy->target_type, copy->width_bytes * copy->height);
}

static uint64_t bytes_3d(const struct cu_copy_3d *copy)
{
    if (copy == NULL)
        return 0;
    return host_bytes(copy->source_type, copy->target_type,
                      copy->width_bytes * copy->height * copy->depth);
}

/* A copy on the default stream, from which the call returns when it is done or under way. */
#define COPY(symbol, parameters, arguments, bytes, per_thread, waits)                   \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        struct dure_snapshot snapshot = {.count = 0};                                   \
        dure_touch(NULL, per_thread);                                                   \
        if ((bytes) != 0)                                                               \
            pace(bytes, own(per_thread));                                               \
        if (waits)                                                                      \
            dure_snapshot(&snapshot, (per_thread) ? CU_STREAM_OF_THREAD : NULL, !(per_thread));   \
        cu_result result = dure_real.symbol arguments;                                  \
        if ((waits) && result == CU_OK)                                                 \
            dure_waited(&snapshot);                                                     \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define COPY_ON(symbol, parameters, arguments, bytes, per_thread)                       \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        if ((bytes) != 0)                                                               \
            pace(bytes, dure_stream_named(stream, per_thread));                         \
        return dure_real.symbol arguments;                                              \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define ANY (cu_pointer target, cu_pointer source, size_t bytes)
#define ANY_ON (cu_pointer target, cu_pointer source, size_t bytes, cu_stream stream)
#define IN (cu_pointer target, const void *source, size_t bytes)
#define IN_ON (cu_pointer target, const void *source, size_t bytes, cu_stream stream)
#define OUT (void *target, cu_pointer source, size_t bytes)
#define OUT_ON (void *target, cu_pointer source, size_t bytes, cu_stream stream)

COPY(cuMemcpy, ANY, (target, source, bytes), bytes, false, false)
COPY(cuMemcpy_ptds, ANY, (target, source, bytes), bytes, true, false)
COPY(cuMemcpyHtoD_v2, IN, (target, source, bytes), bytes, false, false)
COPY(cuMemcpyHtoD_v2_ptds, IN, (target, source, bytes), bytes, true, false)
COPY(cuMemcpyDtoH_v2, OUT, (target, source, bytes), bytes, false, true)
COPY(cuMemcpyDtoH_v2_ptds, OUT, (target, source, bytes), bytes, true, true)
COPY(cuMemcpyDtoD_v2, ANY, (target, source, bytes), 0, false, false)
COPY(cuMemcpyDtoD_v2_ptds, ANY, (target, source, bytes), 0, true, false)
COPY(cuMemcpy2D_v2, (const struct cu_copy_2d *copy), (copy), bytes_2d(copy), false, false)
COPY(cuMemcpy2D_v2_ptds, (const struct cu_copy_2d *copy), (copy), bytes_2d(copy), true, false)
COPY(cuMemcpy2DUnaligned_v2, (const struct cu_copy_2d *copy), (copy), bytes_2d(copy), false, false)
COPY(cuMemcpy2DUnaligned_v2_ptds, (const struct cu_copy_2d *copy), (copy), bytes_2d(copy), true,
     false)
COPY(cuMemcpy3D_v2, (const struct cu_copy_3d *copy), (copy), bytes_3d(copy), false, false)
COPY(cuMemcpy3D_v2_ptds, (const struct cu_copy_3d *copy), (copy), bytes_3d(copy), true, false)
COPY_ON(cuMemcpyAsync, ANY_ON, (target, source, bytes, stream), bytes, false)
COPY_ON(cuMemcpyAsync_ptsz, ANY_ON, (target, source, bytes, stream), bytes, true)
COPY_ON(cuMemcpyHtoDAsync_v2, IN_ON, (target, source, bytes, stream), bytes, false)
COPY_ON(cuMemcpyHtoDAsync_v2_ptsz, IN_ON, (target, source, bytes, stream), bytes, true)
COPY_ON(cuMemcpyDtoHAsync_v2, OUT_ON, (target, source, bytes, stream), bytes, false)
COPY_ON(cuMemcpyDtoHAsync_v2_ptsz, OUT_ON, (target, source, bytes, stream), bytes, true)
COPY_ON(cuMemcpyDtoDAsync_v2, ANY_ON, (target, source, bytes, stream), 0, false)
COPY_ON(cuMemcpyDtoDAsync_v2_ptsz, ANY_ON, (target, source, bytes, stream), 0, true)
COPY_ON(cuMemcpy2DAsync_v2, (const struct cu_copy_2d *copy, cu_stream stream), (copy, stream),
        bytes_2d(copy), false)
COPY_ON(cuMemcpy2DAsync_v2_ptsz, (const struct cu_copy_2d *copy, cu_stream stream), (copy, stream),
        bytes_2d(copy), true)
COPY_ON(cuMemcpy3DAsync_v2, (const struct cu_copy_3d *copy, cu_stream stream), (copy, stream),
        bytes_3d(copy), false)
COPY_ON(cuMemcpy3DAsync_v2_ptsz, (const struct cu_copy_3d *copy, cu_stream stream), (copy, stream),
        bytes_3d(copy), true)
