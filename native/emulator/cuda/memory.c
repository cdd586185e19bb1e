/* Memory: device, managed, pinned and stream-ordered allocations, and what is left of it. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define GRAIN 512ull

struct CUmemPoolHandle_st {
    uint32_t kind;
    int device;
    uint64_t threshold;
};

static uint64_t rounded(uint64_t bytes, uint64_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

static CUresult take(int device, int kind, uint64_t bytes, uint64_t *address)
{
    uint64_t accounted = kind == ARENA_HOST ? 0 : rounded(bytes, GRAIN);
    struct emu_request request = {.kind = EMU_TAKE, .device = (uint32_t)device, .bytes = accounted};
    if (accounted > 0)
        TRY(ask(request, NULL));
    lock_driver();
    *address = arena_take(bytes);
    if (*address != 0)
        arena_note(*address, kind, device, accounted);
    unlock_driver();
    if (*address != 0)
        return CUDA_SUCCESS;
    request.kind = EMU_GIVE;
    if (accounted > 0)
        ask(request, NULL);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, int kind)
{
    struct CUctx_st *context;
    uint64_t address;
    ENTER();
    TRY(current_context_or_error(&context));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_here());
    TRY(take(context->device, kind, bytes, &address));
    *pointer = address;
    return CUDA_SUCCESS;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    return allocate(pointer, bytes, ARENA_DEVICE);
}

API CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    if (flags != 1 && flags != 2)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(pointer, bytes, ARENA_MANAGED);
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                unsigned int element)
{
    if (pitch == NULL || width == 0 || height == 0 || (element != 4 && element != 8
                                                       && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = rounded(width, 512);
    return allocate(pointer, *pitch * height, ARENA_DEVICE);
}

static CUresult release(uint64_t address, bool host)
{
    int kind;
    int device;
    uint64_t accounted;
    lock_driver();
    bool known = arena_told(address, &kind, &device, &accounted) && host == (kind == ARENA_HOST) &&
                 kind != ARENA_RESERVED;
    unlock_driver();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void give(uint64_t address)
{
    int kind;
    int device;
    uint64_t accounted;
    lock_driver();
    bool known = arena_told(address, &kind, &device, &accounted);
    if (known)
        arena_give(address);
    unlock_driver();
    if (known && accounted > 0)
        ask((struct emu_request){.kind = EMU_GIVE, .device = (uint32_t)device, .bytes = accounted},
            NULL);
}

extern CUresult cuCtxSynchronize(void);

/* As with the real driver a free waits for all work of the device. */
API CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    ENTER();
    if (pointer == 0)
        return CUDA_SUCCESS;
    TRY(release(pointer, false));
    TRY(capture_forbids_here());
    if (current_context() != NULL)
        TRY(cuCtxSynchronize());
    give(pointer);
    return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    (void)flags;
    return allocate((CUdeviceptr *)pointer, bytes, ARENA_HOST);
}

API CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

API CUresult cuMemFreeHost(void *pointer)
{
    ENTER();
    TRY(release((uint64_t)pointer, true));
    if (current_context() != NULL)
        TRY(cuCtxSynchronize());
    give((uint64_t)pointer);
    return CUDA_SUCCESS;
}

API CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    ENTER();
    *flags = 0;
    return arena_holds((uint64_t)host) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct CUctx_st *context;
    ENTER();
    TRY(current_context_or_error(&context));
    const struct emu_gpu *gpu = &driver.state->gpu[context->device];
    uint64_t taken = gpu->used_bytes;
    if (free_bytes != NULL)
        *free_bytes = gpu->total_bytes > taken ? gpu->total_bytes - taken : 0;
    if (total != NULL)
        *total = gpu->total_bytes;
    return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr pointer)
{
    uint64_t bytes = 0;
    ENTER();
    lock_driver();
    uint64_t found = arena_find(pointer, &bytes);
    unlock_driver();
    if (start != NULL)
        *start = found;
    if (size != NULL)
        *size = bytes;
    return found != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* 1 context, 2 memory type, 3 device pointer, 4 host pointer, 8 managed, 9 device ordinal. */
API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
    uint64_t bytes = 0;
    uint64_t accounted;
    int kind = ARENA_OTHER;
    int device = 0;
    ENTER();
    lock_driver();
    uint64_t found = arena_find(pointer, &bytes);
    if (found != 0)
        arena_told(found, &kind, &device, &accounted);
    unlock_driver();
    if (found == 0 || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == 1)
        *(CUcontext *)data = current_context();
    else if (attribute == 2)
        *(unsigned int *)data = kind == ARENA_HOST ? 1 : 2;
    else if (attribute == 3 || attribute == 4)
        *(uint64_t *)data = pointer;
    else if (attribute == 8)
        *(unsigned int *)data = kind == ARENA_MANAGED;
    else if (attribute == 9)
        *(int *)data = device;
    else
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

/* ---- in stream order ------------------------------------------------------------------------- */

static CUresult allocate_async(CUdeviceptr *pointer, size_t bytes, CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    uint64_t address;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    TRY(take(stream->context->device, ARENA_DEVICE, bytes, &address));
    *pointer = address;
    return CUDA_SUCCESS;
}

static CUresult free_async(CUdeviceptr pointer, CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    int kind;
    int device;
    uint64_t accounted;
    ENTER();
    TRY(resolve_stream(name, per_thread, &stream));
    if (stream->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    lock_driver();
    bool known = arena_told(pointer, &kind, &device, &accounted);
    if (known) {
        struct emu_command command = {.op = EMU_OP_RELEASE, .args = {pointer, accounted}};
        uint64_t seq = submit(stream, &command);
        arena_give_later(pointer, stream, seq);
    }
    unlock_driver();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_async(pointer, bytes, stream, false);
}

API CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_async(pointer, bytes, stream, true);
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                     CUstream stream)
{
    if (pool == NULL || pool->kind != IS_POOL)
        return CUDA_ERROR_INVALID_HANDLE;
    return allocate_async(pointer, bytes, stream, false);
}

API CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                          CUstream stream)
{
    if (pool == NULL || pool->kind != IS_POOL)
        return CUDA_ERROR_INVALID_HANDLE;
    return allocate_async(pointer, bytes, stream, true);
}

API CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return free_async(pointer, stream, false);
}

API CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return free_async(pointer, stream, true);
}

static struct CUmemPoolHandle_st pools[EMU_GPUS];

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    pools[device].kind = IS_POOL;
    pools[device].device = driver.device[device];
    *pool = &pools[device];
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return cuDeviceGetDefaultMemPool(pool, device);
}

API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    (void)device;
    ENTER();
    return pool != NULL && pool->kind == IS_POOL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemPoolCreate(CUmemoryPool *pool, const void *properties)
{
    ENTER();
    if (pool == NULL || properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUmemPoolHandle_st *made = calloc(1, sizeof *made);
    made->kind = IS_POOL;
    *pool = made;
    return CUDA_SUCCESS;
}

API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    ENTER();
    if (pool == NULL || pool->kind != IS_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    bool own = pool < pools || pool >= pools + EMU_GPUS;
    pool->kind = 0;
    if (own)
        free(pool);
    return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    ENTER();
    if (pool == NULL || pool->kind != IS_POOL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == 4)
        pool->threshold = *(uint64_t *)value;
    return CUDA_SUCCESS;
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    ENTER();
    if (pool == NULL || pool->kind != IS_POOL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *)value = attribute == 4 ? pool->threshold : 0;
    return CUDA_SUCCESS;
}

API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    (void)bytes;
    ENTER();
    return pool != NULL && pool->kind == IS_POOL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
