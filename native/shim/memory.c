/* Memory: the tenant's limit and others' reserves, by asking before and keeping books after. */
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define BOOKS_FIRST 4096u
#define BOOKS_MOST (1u << 21) /* allocations of one process that are remembered */

/* What was allocated, by address or handle: open addressing, never more than half full. */
struct allocation {
    uint64_t key; /* 0: free, 1: was taken */
    uint64_t bytes;
    struct dure_device *device;
};
static struct {
    pthread_mutex_t lock;
    struct allocation *table;
    uint32_t size, used;
} books = {.lock = PTHREAD_MUTEX_INITIALIZER};

void dure_memory_forget(void)
{
    pthread_mutex_init(&books.lock, NULL);
    free(books.table);
    books.table = NULL;
    books.size = books.used = 0;
}

static struct allocation *find(uint64_t key, bool make)
{
    struct allocation *free_one = NULL;
    uint64_t hash = key * 0x9e3779b97f4a7c15ull >> 32;
    for (uint32_t step = 0; step < books.size; step++) {
        struct allocation *entry = &books.table[(hash + step) & (books.size - 1)];
        if (entry->key == key)
            return entry;
        if (entry->key == 1 && free_one == NULL)
            free_one = entry;
        if (entry->key == 0)
            return make ? (free_one != NULL ? free_one : entry) : NULL;
    }
    return make ? free_one : NULL;
}

static bool room(void)
{
    if (books.used * 2 < books.size)
        return true;
    struct allocation *before = books.table;
    uint32_t size_before = books.size, live = 0;
    for (uint32_t index = 0; index < size_before; index++)
        live += before[index].key > 1;
    uint32_t size = size_before == 0 ? BOOKS_FIRST : live * 4 < size_before ? size_before
                                                                            : size_before * 2;
    if (size > BOOKS_MOST)
        return false;
    struct allocation *table = calloc(size, sizeof *table);
    if (table == NULL)
        return false;
    books.table = table;
    books.size = size;
    books.used = 0;
    for (uint32_t index = 0; index < size_before; index++) {
        if (before[index].key <= 1)
            continue;
        *find(before[index].key, true) = before[index];
        books.used++;
    }
    free(before);
    return true;
}

/* `used` counts places that were ever taken, so that searches stay short. */
static void enter(uint64_t key, uint64_t bytes, struct dure_device *device)
{
    if (key <= 1)
        return;
    pthread_mutex_lock(&books.lock);
    if (room()) {
        struct allocation *entry = find(key, true);
        books.used += entry->key == 0;
        *entry = (struct allocation){key, bytes, device};
    }
    pthread_mutex_unlock(&books.lock);
}

static struct allocation leave(uint64_t key)
{
    struct allocation found = {0};
    pthread_mutex_lock(&books.lock);
    struct allocation *entry = books.size != 0 && key > 1 ? find(key, false) : NULL;
    if (entry != NULL) {
        found = *entry;
        entry->key = 1;
    }
    pthread_mutex_unlock(&books.lock);
    return found;
}

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

static void took(struct dure_device *device, uint64_t key, uint64_t bytes)
{
    if (device == NULL)
        return;
    enter(key, bytes, device);
    __atomic_add_fetch(&device->memory_bytes, bytes, __ATOMIC_RELAXED);
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    dure_memory_took(&link->plane, bytes);
    dure_link_drop(link);
}

static void gave(uint64_t key)
{
    struct allocation found = dure_enabled ? leave(key) : (struct allocation){0};
    if (found.device == NULL)
        return;
    __atomic_sub_fetch(&found.device->memory_bytes, found.bytes, __ATOMIC_RELAXED);
    struct dure_link *link = dure_link_peek(found.device);
    if (link == NULL)
        return;
    dure_memory_gave(&link->plane, found.bytes);
    dure_link_drop(link);
}

static struct dure_device *current(void)
{
    cu_context context;
    return dure_here(&context);
}

/* ---- allocations ----------------------------------------------------------------------------- */

#define ALLOCATE(symbol, parameters, arguments, bytes)                                  \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        struct dure_device *device = current();                                         \
        if (!may_take(device, bytes))                                                   \
            return CU_OUT_OF_MEMORY;                                                    \
        cu_result result = dure_real.symbol arguments;                                  \
        if (result == CU_OK)                                                            \
            took(device, (uint64_t)*pointer, bytes);                                    \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define ALLOCATE_ON(symbol, parameters, arguments, per_thread)                          \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        struct dure_device *device = current();                                         \
        bool captured = device != NULL && dure_capturing(dure_stream_named(stream, per_thread)); \
        if (!captured && !may_take(device, bytes))                                      \
            return CU_OUT_OF_MEMORY;                                                    \
        dure_touch(stream, per_thread);                                                 \
        cu_result result = dure_real.symbol arguments;                                  \
        if (result == CU_OK && !captured)                                               \
            took(device, (uint64_t)*pointer, bytes);                                    \
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
        took(device, *pointer, bytes);
    return result;
}
DURE_EXPORT(cuMemCreate);

cu_result hook_cuMemRelease(uint64_t handle)
{
    DURE_ENTER(cuMemRelease);
    cu_result result = dure_real.cuMemRelease(handle);
    if (result == CU_OK)
        gave(handle);
    return result;
}
DURE_EXPORT(cuMemRelease);

/* Freed memory may be handed out again at once, so it leaves the books first. */
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
    struct dure_device *device = result == CU_OK && left != NULL && all != NULL ? current() : NULL;
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
