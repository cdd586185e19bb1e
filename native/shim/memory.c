/* Memory: the tenant's limit and others' reserves, by asking before and keeping books after. */
#include "hooks.h"
#include "shim.h"

/* ---- asking and booking ---------------------------------------------------------------------- */

static bool anybody_reserves(const struct dure_control *control)
{
    for (int tenant = 0; tenant < DURE_TENANTS; tenant++)
        if (__atomic_load_n(&control->tenants[tenant].memory_reserve_bytes, __ATOMIC_RELAXED) != 0)
            return true;
    return false;
}

static bool may_take(struct dure_device *device, uint64_t bytes)
{
    struct dure_link *link = device != NULL ? dure_link_take(device, dure_now_ns()) : NULL;
    if (link == NULL)
        return true;
    size_t left = SIZE_MAX, all;
    uint64_t free_bytes = UINT64_MAX;
    if (anybody_reserves(link->plane.control) && dure_real.cuMemGetInfo_v2 != NULL &&
        dure_real.cuMemGetInfo_v2(&left, &all) == CU_OK)
        free_bytes = left;
    bool may = dure_memory_may_take(&link->plane, bytes, free_bytes);
    dure_link_drop(link);
    return may;
}

static void give_back(struct dure_device *device, uint64_t bytes)
{
    if (device == NULL || bytes == 0)
        return;
    __atomic_sub_fetch(&device->memory_bytes, bytes, __ATOMIC_RELAXED);
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    dure_memory_gave(&link->plane, bytes);
    dure_link_drop(link);
}

/* What was at that address before ended unseen: the driver would not give it out twice. */
static void took(struct dure_device *device, cu_context context, uint64_t key, uint64_t bytes)
{
    if (device == NULL)
        return;
    struct dure_allocation before = dure_books_enter(key, bytes, device, context);
    give_back(before.device, before.bytes);
    __atomic_add_fetch(&device->memory_bytes, bytes, __ATOMIC_RELAXED);
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    dure_memory_took(&link->plane, bytes);
    dure_link_drop(link);
}

static void gave(uint64_t key)
{
    if (!dure_enabled)
        return;
    struct dure_allocation found = dure_books_leave(key);
    give_back(found.device, found.bytes);
}

void dure_memory_context_gone(struct dure_device *device, cu_context context)
{
    give_back(device, dure_books_end(context, device));
}

/* ---- allocations ----------------------------------------------------------------------------- */

#define ALLOCATE(symbol, parameters, arguments, bytes)                                  \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        cu_context context = NULL;                                                      \
        struct dure_device *device = dure_here(&context);                               \
        if (!may_take(device, bytes))                                                   \
            return CU_OUT_OF_MEMORY;                                                    \
        cu_result result = dure_real.symbol arguments;                                  \
        if (result == CU_OK)                                                            \
            took(device, context, (uint64_t)*pointer, bytes);                           \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define ALLOCATE_ON(symbol, parameters, arguments, per_thread)                          \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        cu_context context = NULL;                                                      \
        struct dure_device *device = dure_here(&context);                               \
        bool captured = device != NULL && dure_capturing(dure_stream_named(stream, per_thread)); \
        if (!captured && !may_take(device, bytes))                                      \
            return CU_OUT_OF_MEMORY;                                                    \
        dure_touch(stream, per_thread);                                                 \
        cu_result result = dure_real.symbol arguments;                                  \
        if (result == CU_OK && !captured)                                               \
            took(device, context, (uint64_t)*pointer, bytes);                           \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

ALLOCATE(cuMemAlloc_v2, (cu_pointer * pointer, size_t bytes), (pointer, bytes), bytes)
ALLOCATE(cuMemAllocManaged, (cu_pointer * pointer, size_t bytes, unsigned flags),
         (pointer, bytes, flags), bytes)
ALLOCATE(cuMemAllocPitch_v2,
         (cu_pointer * pointer, size_t *pitch, size_t width, size_t height, unsigned element),
         (pointer, pitch, width, height, element), (uint64_t)width *height)
ALLOCATE_ON(cuMemAllocAsync, (cu_pointer * pointer, size_t bytes, cu_stream stream),
            (pointer, bytes, stream), false)
ALLOCATE_ON(cuMemAllocAsync_ptsz, (cu_pointer * pointer, size_t bytes, cu_stream stream),
            (pointer, bytes, stream), true)
ALLOCATE_ON(cuMemAllocFromPoolAsync,
            (cu_pointer * pointer, size_t bytes, void *pool, cu_stream stream),
            (pointer, bytes, pool, stream), false)
ALLOCATE_ON(cuMemAllocFromPoolAsync_ptsz,
            (cu_pointer * pointer, size_t bytes, void *pool, cu_stream stream),
            (pointer, bytes, pool, stream), true)

/* Physical memory of a device by its number: no context need be current. */
cu_result hook_cuMemCreate(uint64_t *pointer, size_t bytes, const struct cu_allocation *what,
                           uint64_t flags)
{
    DURE_ENTER(cuMemCreate);
    bool on_device = what != NULL && what->location_type == 1;
    struct dure_device *device = on_device ? dure_device_at(what->location_id) : NULL;
    if (!may_take(device, bytes))
        return CU_OUT_OF_MEMORY;
    cu_result result = dure_real.cuMemCreate(pointer, bytes, what, flags);
    if (result == CU_OK)
        took(device, NULL, *pointer, bytes);
    return result;
}
DURE_EXPORT(cuMemCreate);

/* It stays taken for as long as it is mapped, or another holds its handle. */
cu_result hook_cuMemMap(cu_pointer pointer, size_t bytes, size_t offset, uint64_t handle,
                        uint64_t flags)
{
    DURE_ENTER(cuMemMap);
    cu_result result = dure_real.cuMemMap(pointer, bytes, offset, handle, flags);
    if (result == CU_OK && dure_enabled)
        dure_books_map(pointer, bytes, handle);
    return result;
}
DURE_EXPORT(cuMemMap);

cu_result hook_cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    DURE_ENTER(cuMemRetainAllocationHandle);
    cu_result result = dure_real.cuMemRetainAllocationHandle(handle, address);
    if (result == CU_OK && dure_enabled)
        dure_books_hold(*handle);
    return result;
}
DURE_EXPORT(cuMemRetainAllocationHandle);

/* Freed memory may be handed out again at once, so it leaves the books first. */
cu_result hook_cuMemUnmap(cu_pointer pointer, size_t bytes)
{
    DURE_ENTER(cuMemUnmap);
    dure_touch_all();
    for (uint64_t at = pointer; dure_enabled && at < pointer + bytes;) {
        struct dure_allocation found = dure_books_unmap(&at, pointer + bytes);
        give_back(found.device, found.bytes);
    }
    return dure_real.cuMemUnmap(pointer, bytes);
}
DURE_EXPORT(cuMemUnmap);

cu_result hook_cuMemRelease(uint64_t handle)
{
    DURE_ENTER(cuMemRelease);
    gave(handle);
    return dure_real.cuMemRelease(handle);
}
DURE_EXPORT(cuMemRelease);

cu_result hook_cuMemFree_v2(cu_pointer pointer)
{
    DURE_ENTER(cuMemFree_v2);
    dure_touch_all();
    gave(pointer);
    return dure_real.cuMemFree_v2(pointer);
}
DURE_EXPORT(cuMemFree_v2);

#define FREE_ON(symbol, per_thread)                                                     \
    cu_result hook_##symbol(cu_pointer pointer, cu_stream stream)                       \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        gave(pointer);                                                                  \
        return dure_real.symbol(pointer, stream);                                       \
    }                                                                                   \
    DURE_EXPORT(symbol);

FREE_ON(cuMemFreeAsync, false)
FREE_ON(cuMemFreeAsync_ptsz, true)

/* ---- arrays ---------------------------------------------------------------------------------- */

static uint64_t element_bytes(int format)
{
    switch (format) {
    case 0x01: /* 8 bits, unsigned and signed */
    case 0x08:
        return 1;
    case 0x02: /* 16 bits, and half floats */
    case 0x09:
    case 0x10:
        return 2;
    default:
        return 4;
    }
}

static uint64_t at_least_one(size_t extent)
{
    return extent != 0 ? extent : 1;
}

static uint64_t array_bytes(const struct cu_array_shape *shape)
{
    if (shape == NULL)
        return 0;
    return at_least_one(shape->width) * at_least_one(shape->height) * shape->channels *
           element_bytes(shape->format);
}

static uint64_t array_3d_bytes(const struct cu_array_shape_3d *shape)
{
    if (shape == NULL)
        return 0;
    return at_least_one(shape->width) * at_least_one(shape->height) * at_least_one(shape->depth) *
           shape->channels * element_bytes(shape->format);
}

ALLOCATE(cuArrayCreate_v2, (cu_array * pointer, const struct cu_array_shape *shape),
         (pointer, shape), array_bytes(shape))
ALLOCATE(cuArray3DCreate_v2, (cu_array * pointer, const struct cu_array_shape_3d *shape),
         (pointer, shape), array_3d_bytes(shape))

cu_result hook_cuArrayDestroy(cu_array array)
{
    DURE_ENTER(cuArrayDestroy);
    gave((uint64_t)(uintptr_t)array);
    return dure_real.cuArrayDestroy(array);
}
DURE_EXPORT(cuArrayDestroy);

/* ---- what the program is told ---------------------------------------------------------------- */

cu_result hook_cuMemGetInfo_v2(size_t *left, size_t *all)
{
    DURE_ENTER(cuMemGetInfo_v2);
    cu_result result = dure_real.cuMemGetInfo_v2(left, all);
    cu_context context;
    bool told = result == CU_OK && left != NULL && all != NULL;
    struct dure_device *device = told ? dure_here(&context) : NULL;
    struct dure_link *link = device != NULL ? dure_link_take(device, dure_now_ns()) : NULL;
    if (link == NULL)
        return result;
    uint64_t free_bytes = *left, total_bytes = *all;
    dure_memory_info(&link->plane, &free_bytes, &total_bytes);
    dure_link_drop(link);
    *left = free_bytes;
    *all = total_bytes;
    return result;
}
DURE_EXPORT(cuMemGetInfo_v2);

/* Programs ask this of every device they see, so it does not register for one. */
cu_result hook_cuDeviceTotalMem_v2(size_t *bytes, cu_device ordinal)
{
    DURE_ENTER(cuDeviceTotalMem_v2);
    cu_result result = dure_real.cuDeviceTotalMem_v2(bytes, ordinal);
    struct dure_device *device = result == CU_OK && bytes != NULL ? dure_device_at(ordinal) : NULL;
    struct dure_link *link = device != NULL ? dure_link_peek(device) : NULL;
    if (link == NULL)
        return result;
    uint64_t free_bytes = *bytes, total_bytes = *bytes;
    dure_memory_info(&link->plane, &free_bytes, &total_bytes);
    dure_link_drop(link);
    *bytes = total_bytes;
    return result;
}
DURE_EXPORT(cuDeviceTotalMem_v2);
