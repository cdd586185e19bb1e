/* Hooks that only keep a stream's order: before the driver sees them, work that was moved away from
 * the stream is put before them. See green.c.
 */
#include "hooks.h"
#include "shim.h"

#define SIX uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5

#define TOUCH_ON(symbol, index, per_thread)                                             \
    cu_result hook_##symbol(SIX)                                                        \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch((cu_stream)(uintptr_t)a##index, per_thread);                         \
        return dure_real.symbol(a0, a1, a2, a3, a4, a5);                                \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define TOUCH_DEFAULT(symbol, per_thread)                                               \
    cu_result hook_##symbol(SIX)                                                        \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(NULL, per_thread);                                                   \
        return dure_real.symbol(a0, a1, a2, a3, a4, a5);                                \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define ON(X, symbol, asked, since, index)                                              \
    TOUCH_ON(symbol, index, false)                                                      \
    TOUCH_ON(symbol##_ptsz, index, true)
DURE_TOUCHED(ON, unused)

#define DEFAULT(X, symbol, asked, since)                                                \
    TOUCH_DEFAULT(symbol, false)                                                        \
    TOUCH_DEFAULT(symbol##_ptds, true)
DURE_TOUCHED_DEFAULT(DEFAULT, unused)

#define ALL(X, symbol, since)                                                           \
    cu_result hook_##symbol(SIX)                                                        \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch_all();                                                               \
        return dure_real.symbol(a0, a1, a2, a3, a4, a5);                                \
    }                                                                                   \
    DURE_EXPORT(symbol);
DURE_TOUCHED_ALL(ALL, unused)

/* More arguments than registers. */
#define BATCH(symbol, per_thread)                                                       \
    cu_result hook_##symbol(cu_pointer *targets, cu_pointer *sources, size_t *sizes, size_t count, \
                            void *attributes, size_t *indices, size_t attribute_count,  \
                            size_t *failed, cu_stream stream)                           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return dure_real.symbol(targets, sources, sizes, count, attributes, indices,    \
                                attribute_count, failed, stream);                       \
    }                                                                                   \
    DURE_EXPORT(symbol);
BATCH(cuMemcpyBatchAsync, false)
BATCH(cuMemcpyBatchAsync_ptsz, true)

#define BATCH_V2(symbol, per_thread)                                                    \
    cu_result hook_##symbol(cu_pointer *targets, cu_pointer *sources, size_t *sizes, size_t count, \
                            void *attributes, size_t *indices, size_t attribute_count,  \
                            cu_stream stream)                                           \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return dure_real.symbol(targets, sources, sizes, count, attributes, indices,    \
                                attribute_count, stream);                               \
    }                                                                                   \
    DURE_EXPORT(symbol);
BATCH_V2(cuMemcpyBatchAsync_v2, false)
BATCH_V2(cuMemcpyBatchAsync_v2_ptsz, true)
