/* Green contexts: sets of SMs in groups of eight, as on Hopper. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

/* What lies in a resource's private bytes. */
struct own {
    uint32_t kind;
    int32_t device;
    uint32_t groups; /* bit mask */
};
#define IS_RESOURCE 0x52455331u

struct CUdevResourceDesc_st {
    uint32_t kind;
    struct own own;
    uint32_t sms;
};

static uint32_t sms_of(int device, uint32_t groups)
{
    uint32_t total = driver.state->gpu[device].sms;
    uint32_t sms = 0;
    for (uint32_t g = 0; g < emu_groups(total); g++)
        if (groups & (1u << g))
            sms += emu_group_size(total, g);
    return sms;
}

static void fill(CUdevResource *resource, int device, uint32_t groups)
{
    struct own own = {IS_RESOURCE, device, groups};
    memset(resource, 0, sizeof *resource);
    resource->type = groups != 0 ? CU_DEV_RESOURCE_TYPE_SM : 0;
    memcpy(resource->_internal_padding, &own, sizeof own);
    resource->sm.smCount = sms_of(device, groups);
    resource->sm.minSmPartitionSize = EMU_GROUP_SMS;
    resource->sm.smCoscheduledAlignment = EMU_GROUP_SMS;
}

static bool read_own(const CUdevResource *resource, struct own *own)
{
    memcpy(own, resource->_internal_padding, sizeof *own);
    return resource->type == CU_DEV_RESOURCE_TYPE_SM && own->kind == IS_RESOURCE;
}

static uint32_t all_groups(int device)
{
    uint32_t count = emu_groups(driver.state->gpu[device].sms);
    return count >= 32 ? ~0u : (1u << count) - 1;
}

API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, int type)
{
    ENTER();
    if (device < 0 || (uint32_t)device >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(resource, driver.device[device], all_groups(driver.device[device]));
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, int type)
{
    ENTER();
    if (context == NULL)
        TRY(current_context_or_error(&context));
    if (resource == NULL || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(resource, context->device,
         context->groups != 0 ? context->groups : all_groups(context->device));
    return CUDA_SUCCESS;
}

/* The first groups of `size` full groups; as many results as fit, the rest to `remaining`. */
API CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *count,
                                         const CUdevResource *input, CUdevResource *remaining,
                                         unsigned int flags, unsigned int least)
{
    struct own own;
    ENTER();
    if (count == NULL || input == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!read_own(input, &own))
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    uint32_t size = least == 0 ? 1 : (least + EMU_GROUP_SMS - 1) / EMU_GROUP_SMS;
    uint32_t total = driver.state->gpu[own.device].sms;
    uint32_t left = own.groups;
    unsigned int most = result != NULL ? *count : ~0u;
    unsigned int made = 0;
    if ((flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) == 0 &&
        most > driver.state->gpu[own.device].cluster_groups)
        most = driver.state->gpu[own.device].cluster_groups;
    while (made < most) {
        uint32_t taken = 0;
        uint32_t number = 0;
        for (uint32_t g = 0; g < emu_groups(total) && number < size; g++) {
            if ((left & (1u << g)) != 0 && emu_group_size(total, g) == EMU_GROUP_SMS) {
                taken |= 1u << g;
                number++;
            }
        }
        if (number < size)
            break;
        left &= ~taken;
        if (result != NULL)
            fill(&result[made], own.device, taken);
        made++;
    }
    if (remaining != NULL)
        fill(remaining, own.device, left);
    *count = made;
    return made > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources,
                                       unsigned int count)
{
    ENTER();
    if (desc == NULL || resources == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUdevResourceDesc_st *made = calloc(1, sizeof *made);
    made->kind = IS_DESC;
    for (unsigned int i = 0; i < count; i++) {
        struct own own;
        bool fits = read_own(&resources[i], &own) && (i == 0 || own.device == made->own.device);
        if (!fits || (own.groups & made->own.groups) != 0) {
            free(made);
            return fits ? CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
                        : CUDA_ERROR_INVALID_RESOURCE_TYPE;
        }
        made->own.device = own.device;
        made->own.groups |= own.groups;
    }
    made->sms = sms_of(made->own.device, made->own.groups);
    *desc = made; /* lives as long as the process, as there is no call to free it */
    return CUDA_SUCCESS;
}

/* A green context lives on its device's primary context and shares everything with it but SMs. */
API CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device,
                              unsigned int flags)
{
    ENTER();
    if (green == NULL || desc == NULL || desc->kind != IS_DESC || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || (uint32_t)device >= driver.devices
        || driver.device[device] != desc->own.device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUgreenCtx_st *made = calloc(1, sizeof *made);
    lock_driver();
    CUresult result = context_open(&made->context, device);
    if (result == CUDA_SUCCESS) {
        made->kind = IS_GREEN;
        made->context.green = made;
        made->context.groups = desc->own.groups;
        made->context.sms = desc->sms;
        *green = made;
    } else {
        free(made);
    }
    unlock_driver();
    return result;
}

static bool is_green(CUgreenCtx green)
{
    return green != NULL && green->kind == IS_GREEN;
}

API CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    ENTER();
    if (!is_green(green))
        return CUDA_ERROR_INVALID_HANDLE;
    lock_driver();
    green->kind = 0; /* its memory stays: streams may still be in use */
    context_close(&green->context);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    ENTER();
    if (context == NULL || !is_green(green))
        return CUDA_ERROR_INVALID_VALUE;
    *context = &green->context;
    return CUDA_SUCCESS;
}

API CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, int type)
{
    if (!is_green(green))
        return CUDA_ERROR_INVALID_VALUE;
    return cuCtxGetDevResource(&green->context, resource, type);
}

API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags,
                                    int priority)
{
    ENTER();
    if (stream == NULL || !is_green(green) || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    *stream = stream_make(&green->context, 0, priority > 0 ? 0 : priority < -5 ? -5 : priority);
    unlock_driver();
    return *stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

extern CUresult cuEventRecord(CUevent event, CUstream stream);
extern CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);

API CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    if (!is_green(green))
        return CUDA_ERROR_INVALID_VALUE;
    return cuEventRecord(event, green->context.legacy);
}

API CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    if (!is_green(green))
        return CUDA_ERROR_INVALID_VALUE;
    return cuStreamWaitEvent(green->context.legacy, event, 0);
}
