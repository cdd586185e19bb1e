/* Contexts: the primary one of each device, others, and which is current in a thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

#define STACK 32

static __thread struct CUctx_st *stack[STACK];
static __thread int depth;
static uint32_t next_id = 1;

struct CUctx_st *current_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult current_context_or_error(struct CUctx_st **context)
{
    *context = current_context();
    if (*context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->kind == IS_CONTEXT ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* With the driver locked. */
CUresult context_open(struct CUctx_st *context, int ordinal)
{
    int device = driver.device[ordinal];
    struct emu_answer answer = {0};
    TRY(ask((struct emu_request){.kind = EMU_ATTACH, .device = (uint32_t)device}, &answer));
    struct timespec left = {(time_t)(answer.bytes / 1000000000ull),
                            (long)(answer.bytes % 1000000000ull)};
    while (answer.bytes > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
    context->kind = IS_CONTEXT;
    context->id = next_id++;
    context->device = device;
    context->ordinal = ordinal;
    context->sms = driver.state->gpu[device].sms;
    context->legacy = stream_make(context, EMU_FLAG_LEGACY, 0);
    return context->legacy != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void context_close(struct CUctx_st *context)
{
    context->kind = 0;
    stream_free(context->legacy);
    context->legacy = NULL;
    ask((struct emu_request){.kind = EMU_DETACH, .device = (uint32_t)context->device}, NULL);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *primary = &driver.primary[device];
    CUresult result = CUDA_SUCCESS;
    lock_driver();
    if (primary->holds == 0) {
        primary->primary = true;
        result = context_open(primary, device);
    }
    if (result == CUDA_SUCCESS)
        primary->holds++;
    unlock_driver();
    *context = primary;
    return result;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *primary = &driver.primary[device];
    lock_driver();
    bool held = primary->holds > 0;
    if (held && --primary->holds == 0)
        context_close(primary);
    unlock_driver();
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *primary = &driver.primary[device];
    lock_driver();
    if (primary->holds > 0) {
        primary->holds = 0;
        context_close(primary);
    }
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    if (enter_without_lock() == CUDA_ERROR_NOT_INITIALIZED)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = driver.primary[device].holds > 0;
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    (void)flags;
    ENTER();
    return device >= 0 && (uint32_t)device < driver.devices ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_DEVICE;
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    (void)flags;
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context == NULL || depth == STACK)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *made = calloc(1, sizeof *made);
    lock_driver();
    CUresult result = context_open(made, device);
    unlock_driver();
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    stack[depth++] = made;
    *context = made;
    return CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned int flags, CUdevice device)
{
    (void)params;
    return cuCtxCreate_v2(context, flags, device);
}

/* The memory of the handle stays, so that a stale one is recognised. */
API CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER();
    if (context == NULL || context->kind != IS_CONTEXT || context->primary
        || context->green != NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    wait_stream(context->legacy, context->legacy->submitted);
    lock_driver();
    context_close(context);
    unlock_driver();
    if (depth > 0 && stack[depth - 1] == context)
        depth--;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER();
    if (context != NULL && context->kind != IS_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context == NULL)
        depth -= depth > 0;
    else if (depth == 0)
        stack[depth++] = context;
    else
        stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (enter_without_lock() == CUDA_ERROR_NOT_INITIALIZED)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER();
    if (context == NULL || context->kind != IS_CONTEXT || depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER();
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
    struct CUctx_st *context;
    if (enter_without_lock() == CUDA_ERROR_NOT_INITIALIZED)
        return CUDA_ERROR_NOT_INITIALIZED;
    TRY(current_context_or_error(&context));
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetFlags(unsigned int *flags)
{
    *flags = 0;
    return current_context() != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    (void)context;
    *version = 3020;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    struct CUctx_st *of = context != NULL ? context : current_context();
    if (of == NULL || of->kind != IS_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    *id = of->id;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER();
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetLimit(size_t *value, int limit)
{
    (void)limit;
    *value = 1024;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetLimit(int limit, size_t value)
{
    (void)limit;
    (void)value;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCacheConfig(int config)
{
    (void)config;
    return CUDA_SUCCESS;
}

/* Wait for every stream of the context. */
static CUresult synchronize(struct CUctx_st *context)
{
    TRY(capture_forbids_here());
    for (;;) {
        struct CUstream_st *busy = NULL;
        uint64_t seq = 0;
        lock_driver();
        for (struct CUstream_st *s = driver.streams; s != NULL && busy == NULL; s = s->next) {
            if (s->context->device == context->device && !stream_is_done(s)) {
                busy = s;
                seq = s->submitted;
            }
        }
        unlock_driver();
        if (busy == NULL)
            return enter_without_lock();
        wait_stream(busy, seq);
        TRY(enter_without_lock());
    }
}

API CUresult cuCtxSynchronize(void)
{
    struct CUctx_st *context;
    ENTER();
    TRY(current_context_or_error(&context));
    return synchronize(context);
}

API CUresult cuCtxSynchronize_v2(CUcontext context)
{
    ENTER();
    if (context == NULL)
        TRY(current_context_or_error(&context));
    return synchronize(context);
}
