/* Virtual memory management: an allocation and an address come together in cuMemMap. */
#include <stdlib.h>

#include "driver.h"

#define GRANULARITY (2ull << 20)

struct physical {
    uint64_t bytes;
    int device;
    int holds;
};

API CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           int option)
{
    (void)option;
    if (granularity == NULL || prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

/* Needs no current context, as with the real driver. */
API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    ENTER();
    if (handle == NULL || prop == NULL || bytes == 0 || bytes % GRANULARITY != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || (uint32_t)prop->location.id >= driver.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    int device = driver.device[prop->location.id];
    TRY(ask((struct emu_request){.kind = EMU_TAKE, .device = (uint32_t)device, .bytes = bytes},
            NULL));
    struct physical *made = malloc(sizeof *made);
    *made = (struct physical){bytes, device, 1};
    *handle = (uint64_t)made;
    return CUDA_SUCCESS;
}

static void let_go(struct physical *physical)
{
    if (--physical->holds > 0)
        return;
    ask((struct emu_request){.kind = EMU_GIVE, .device = (uint32_t)physical->device,
                             .bytes = physical->bytes}, NULL);
    free(physical);
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER();
    if (handle == 0)
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    let_go((struct physical *)handle);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                                 CUdeviceptr wanted, unsigned long long flags)
{
    (void)alignment;
    (void)wanted;
    ENTER();
    if (pointer == NULL || bytes == 0 || bytes % GRANULARITY != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    *pointer = arena_take(bytes);
    if (*pointer != 0)
        arena_note(*pointer, ARENA_RESERVED, 0, 0);
    unlock_driver();
    return *pointer != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    ENTER();
    lock_driver();
    bool known = arena_size(pointer) == bytes;
    if (known)
        arena_give(pointer);
    unlock_driver();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct mapping {
    uint64_t address;
    uint64_t bytes;
    struct physical *physical;
    struct mapping *next;
};
static struct mapping *mappings;

API CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER();
    if (handle == 0 || bytes == 0 || offset != 0 || flags != 0 || !arena_holds(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *made = malloc(sizeof *made);
    lock_driver();
    *made = (struct mapping){pointer, bytes, (struct physical *)handle, mappings};
    made->physical->holds++;
    mappings = made;
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    ENTER();
    bool found = false;
    lock_driver();
    for (struct mapping **at = &mappings; *at != NULL;) {
        struct mapping *mapping = *at;
        if (mapping->address < pointer || mapping->address >= pointer + bytes) {
            at = &mapping->next;
            continue;
        }
        found = true;
        *at = mapping->next;
        let_go(mapping->physical);
        free(mapping);
    }
    unlock_driver();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                            size_t count)
{
    ENTER();
    bool valid = arena_holds(pointer) && bytes > 0 && access != NULL && count > 0;
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
