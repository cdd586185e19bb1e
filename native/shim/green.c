/* Sets of compute units: launches of the program's streams run on streams of green contexts
 * instead.
 *
 * A stream whose work goes on elsewhere is "moved": its later launches follow it there, and before
 * anything else touches it, it is made to wait for what was moved (`dure_touch`). The legacy stream
 * waits for all streams that are ordered with it and they for it, so at most one side of the two is
 * moved.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define GROUPS_MOST 64
#define NO_SETS UINT32_MAX
#define TRIES 5 /* to make a set, and between two of them: */
#define RETRY_NS 1000000000ull

uint32_t dure_moved_streams;

/* ---- the sets -------------------------------------------------------------------------------- */

/* How to get the most groups. A card whose clusters of compute units are of unlike size has fewer
 * than it should, unless launches that need several units at once go elsewhere. */
static unsigned best_split(const struct cu_resource *all, unsigned group_sms, unsigned *flags)
{
    static const unsigned ways[] = {0, CU_SPLIT_IGNORING_CLUSTERS};
    unsigned most = 0;
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        unsigned count = 0;
        if (dure_real.cuDevSmResourceSplitByCount(NULL, &count, all, NULL, ways[way], group_sms) !=
                CU_OK ||
            count <= most)
            continue;
        most = count;
        *flags = ways[way];
    }
    return most < GROUPS_MOST ? most : GROUPS_MOST;
}

/* Split the device into its groups, once; outside the lock, by the thread that has `making_set`. */
static bool split_device(struct dure_device *device, unsigned group_sms)
{
    struct cu_resource all;
    unsigned flags = 0;
    if (device->groups != 0)
        return device->groups != NO_SETS;
    device->groups = NO_SETS;
    if (dure_real.cuDeviceGetDevResource == NULL || dure_real.cuDevSmResourceSplitByCount == NULL ||
        dure_real.cuDevResourceGenerateDesc == NULL || dure_real.cuGreenCtxCreate == NULL ||
        dure_real.cuGreenCtxStreamCreate == NULL || dure_real.cuCtxFromGreenCtx == NULL)
        return false;
    memset(&all, 0, sizeof all);
    if (dure_real.cuDeviceGetDevResource(device->ordinal, &all, CU_RESOURCE_SM) != CU_OK)
        return false;
    unsigned count = best_split(&all, group_sms, &flags);
    device->split = calloc(GROUPS_MOST + 1, sizeof *device->split);
    if (device->split == NULL || count == 0 ||
        dure_real.cuDevSmResourceSplitByCount(device->split, &count, &all,
                                              &device->split[GROUPS_MOST], flags, group_sms) !=
            CU_OK ||
        count == 0)
        return false;
    device->groups = count;
    return true;
}

/* Where a set begins that the plan lets begin at `group`: on a device with fewer groups than the
 * plan knows of, in proportion, so that sets apart stay apart. */
static unsigned boundary(const struct dure_device *device, unsigned group_sms, unsigned group)
{
    unsigned planned = device->sms / group_sms;
    if (device->groups >= planned)
        return group;
    return (group * device->groups + planned / 2) / planned;
}

/* Returns the step that failed, with its result, or NULL. */
static const char *create_set(struct dure_device *device, unsigned group_sms,
                              struct dure_set_context *made, cu_result *result)
{
    cu_desc description;
    *result = CU_NOT_SUPPORTED;
    if (!split_device(device, group_sms))
        return "the split into groups";
    unsigned first = boundary(device, group_sms, made->group_first);
    unsigned end = boundary(device, group_sms, made->group_first + made->group_count);
    if (first >= end || end > device->groups)
        return "the number of groups";
    for (unsigned group = first; group < end; group++)
        made->sms += device->split[group].of.sm.count;
    *result = dure_real.cuDevResourceGenerateDesc(&description, &device->split[first], end - first);
    if (*result != CU_OK)
        return "the description";
    *result = dure_real.cuGreenCtxCreate(&made->green, description, device->ordinal,
                                         CU_GREEN_WITH_DEFAULT_STREAM);
    if (*result != CU_OK)
        return "the green context";
    *result = dure_real.cuCtxFromGreenCtx(&made->context, made->green);
    if (*result == CU_OK)
        *result = dure_real.cuGreenCtxStreamCreate(&made->stream, made->green,
                                                   CU_STREAM_IS_NON_BLOCKING, 0);
    if (*result == CU_OK)
        return NULL;
    dure_real.cuGreenCtxDestroy(made->green);
    return "its stream";
}

static struct dure_set_context *known_set(struct dure_device *device, cu_context context,
                                          struct dure_set set)
{
    for (uint32_t index = 0; index < DURE_SETS; index++) {
        struct dure_set_context *found = &device->sets[index];
        if (found->of == context && found->group_first == set.group_first &&
            found->group_count == set.group_count)
            return found;
    }
    return NULL;
}

static void say_it_failed(const struct dure_device *device, const struct dure_set_context *made,
                          const char *step, cu_result result)
{
    static bool said;
    if (!said)
        dure_log("groups %u to %u of GPU %d cannot be had for oneself (%s: error %d): shared in "
                 "time for now",
                 made->group_first, made->group_first + made->group_count - 1, device->ordinal,
                 step, result);
    said = true;
}

/* A place for a set: that of an earlier try which may be repeated, or a free one. */
static struct dure_set_context *place_for(struct dure_device *device,
                                          struct dure_set_context *earlier)
{
    if (earlier == NULL)
        return known_set(device, NULL, (struct dure_set){0, 0});
    bool again = earlier->tries < TRIES && dure_now_ns() >= earlier->retry_ns;
    return again ? earlier : NULL;
}

/* The context of a set, made where there is none; NULL where that does not work or not now.
 * Under the lock, which is let go meanwhile. */
struct dure_set_context *dure_set_context_for(struct dure_device *device, struct dure_link *link,
                                              cu_context context, struct dure_set set)
{
    struct dure_set_context *found = known_set(device, context, set);
    if (found != NULL && !found->failed)
        return found;
    found = place_for(device, found);
    if (found == NULL || device->making_set || device->groups == NO_SETS ||
        __atomic_load_n(&dure_captures, __ATOMIC_RELAXED) != 0)
        return NULL;
    struct dure_set_context made = {
        .group_first = set.group_first, .group_count = set.group_count, .of = context,
        .tries = found->tries + 1};
    cu_result result;
    unsigned group_sms = link->plane.control->group_sms;
    device->making_set = true;
    pthread_mutex_unlock(&device->lock);
    const char *step = create_set(device, group_sms, &made, &result);
    made.failed = step != NULL;
    made.retry_ns = dure_now_ns() + RETRY_NS;
    pthread_mutex_lock(&device->lock);
    device->making_set = false;
    dure_flag(link, DURE_FLAG_NO_GREEN, made.failed);
    if (made.failed)
        say_it_failed(device, &made, step, result);
    *found = made;
    device->green_open += !made.failed;
    __atomic_store_n(&link->plane.slot->counters.green_contexts, device->green_open,
                     __ATOMIC_RELAXED);
    return made.failed ? NULL : found;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static bool record_hop(cu_event *hop, cu_stream stream)
{
    return (*hop != NULL || dure_real.cuEventCreate(hop, CU_EVENT_WITHOUT_TIMING) == CU_OK) &&
           dure_real.cuEventRecord(*hop, stream) == CU_OK;
}

/* As above, with an event of the stream's own context. */
static bool record_hop_there(cu_event *hop, cu_stream stream, cu_context context)
{
    cu_context before;
    if (context == NULL || dure_real.cuCtxPushCurrent_v2 == NULL ||
        dure_real.cuCtxPushCurrent_v2(context) != CU_OK)
        return false;
    if (*hop != NULL)
        dure_real.cuEventDestroy_v2(*hop);
    *hop = NULL;
    bool recorded = record_hop(hop, stream);
    dure_real.cuCtxPopCurrent_v2(&before);
    return recorded;
}

/* Make one stream wait for what is on another (of `context`) now; where events do not serve, the
 * thread waits itself. */
static void order_after(cu_stream later, cu_stream earlier, cu_context context, cu_event *hop)
{
    int quiet = dure_quiet_begin();
    bool ordered = (record_hop(hop, earlier) || record_hop_there(hop, earlier, context)) &&
                   dure_real.cuStreamWaitEvent(later, *hop, 0) == CU_OK;
    if (!ordered)
        dure_real.cuStreamSynchronize(earlier);
    dure_quiet_end(quiet);
}

/* Only one thread at a time changes where a stream is; with the lock at both ends. */
static void claim(struct dure_device *device, struct dure_stream *stream)
{
    while (stream->busy) {
        pthread_mutex_unlock(&device->lock);
        sched_yield();
        pthread_mutex_lock(&device->lock);
    }
    stream->busy = true;
}

/* Put a stream behind what was moved away from it. Under the lock, let go meanwhile. */
static void join_back(struct dure_device *device, struct dure_stream *stream)
{
    if (stream->moved_set == 0)
        return;
    claim(device, stream);
    if (stream->moved_set != 0) {
        cu_stream away = stream->moved[stream->moved_set - 1];
        cu_context there = device->sets[stream->moved_set - 1].context;
        pthread_mutex_unlock(&device->lock);
        order_after(stream->handle, away, there, &stream->hop_back);
        pthread_mutex_lock(&device->lock);
        stream->moved_set = 0;
        __atomic_sub_fetch(&dure_moved_streams, 1, __ATOMIC_RELAXED);
    }
    stream->busy = false;
}

/* Streams that are ordered with this one without being told: the legacy stream and those that
 * block. */
static void join_back_others(struct dure_device *device, cu_context context, cu_stream handle,
                             bool blocking)
{
    for (uint32_t index = 0; index < DURE_STREAMS; index++) {
        struct dure_stream *other = &device->streams[index];
        if (other->context != context || other->moved_set == 0 || other->handle == handle)
            continue;
        bool legacy = other->handle == CU_STREAM_OF_LEGACY;
        if ((handle == CU_STREAM_OF_LEGACY && other->blocking) || (blocking && legacy))
            join_back(device, other);
    }
}

static bool blocks(struct dure_device *device, cu_context context, cu_stream handle)
{
    unsigned flags = 0;
    if (handle == CU_STREAM_OF_LEGACY || handle == CU_STREAM_OF_THREAD)
        return true;
    struct dure_stream *stream = dure_stream_of(device, context, handle, false);
    if (stream != NULL && stream->blocking_known)
        return stream->blocking;
    pthread_mutex_unlock(&device->lock);
    bool known = dure_real.cuStreamGetFlags != NULL &&
                 dure_real.cuStreamGetFlags(handle, &flags) == CU_OK;
    pthread_mutex_lock(&device->lock);
    return !known || (flags & CU_STREAM_IS_NON_BLOCKING) == 0;
}

void dure_touch_moved(cu_stream stream, bool per_thread)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    cu_stream handle = dure_stream_named(stream, per_thread);
    if (device == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    struct dure_stream *own = dure_stream_of(device, context, handle, false);
    if (own != NULL)
        join_back(device, own);
    if (__atomic_load_n(&dure_moved_streams, __ATOMIC_RELAXED) != 0)
        join_back_others(device, context, handle, blocks(device, context, handle));
    pthread_mutex_unlock(&device->lock);
}

void dure_touch_all_moved(void)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    if (device == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    for (uint32_t index = 0; index < DURE_STREAMS; index++)
        if (device->streams[index].context == context)
            join_back(device, &device->streams[index]);
    pthread_mutex_unlock(&device->lock);
}

/* The stream that stands for this one on a set. Under the lock, let go meanwhile. */
static cu_stream stand_in(struct dure_device *device, struct dure_stream *stream,
                          const struct dure_set_context *set)
{
    uint32_t index = (uint32_t)(set - device->sets);
    int priority = 0;
    if (stream->moved[index] != NULL)
        return stream->moved[index];
    cu_green green = set->green;
    cu_stream made = NULL, handle = stream->handle;
    pthread_mutex_unlock(&device->lock);
    if (dure_real.cuStreamGetPriority == NULL ||
        dure_real.cuStreamGetPriority(handle, &priority) != CU_OK)
        priority = 0;
    if (dure_real.cuGreenCtxStreamCreate(&made, green, CU_STREAM_IS_NON_BLOCKING, priority) !=
        CU_OK)
        made = NULL;
    pthread_mutex_lock(&device->lock);
    stream->moved[index] = made;
    return made;
}

/* Move a stream to a set; its own handle where that does not work. Under the lock. */
static cu_stream move(struct dure_device *device, struct dure_link *link,
                      struct dure_stream *stream, const struct dure_set_context *set)
{
    uint32_t number = 1 + (uint32_t)(set - device->sets);
    if (stream->moved_set == number)
        return stream->moved[number - 1];
    join_back(device, stream);
    claim(device, stream);
    cu_stream away = stand_in(device, stream, set);
    if (away != NULL) {
        pthread_mutex_unlock(&device->lock);
        order_after(away, stream->handle, NULL, &stream->hop_away);
        pthread_mutex_lock(&device->lock);
        stream->moved_set = number;
        __atomic_add_fetch(&dure_moved_streams, 1, __ATOMIC_RELAXED);
        dure_lights_close(device, link); /* launches that are only counted would not wait for it */
    }
    stream->busy = false;
    return away != NULL ? away : stream->handle;
}

cu_stream dure_place(struct dure_device *device, struct dure_link *link, struct dure_work *work)
{
    struct dure_set set = work->set;
    work->sms = device->sms;
    if (set.group_count == 0 || work->guess.unmovable || work->stream == CU_STREAM_OF_THREAD) {
        dure_touch(work->stream, false);
        return work->stream;
    }
    cu_stream placed = work->stream;
    pthread_mutex_lock(&device->lock);
    struct dure_set_context *found = dure_set_context_for(device, link, work->context, set);
    struct dure_stream *stream =
        found != NULL ? dure_stream_of(device, work->context, work->stream, true) : NULL;
    if (stream != NULL) {
        join_back_others(device, work->context, work->stream,
                         blocks(device, work->context, work->stream));
        placed = move(device, link, stream, found);
    }
    if (placed != work->stream)
        work->sms = found->sms;
    pthread_mutex_unlock(&device->lock);
    if (placed == work->stream)
        dure_touch(work->stream, false);
    return placed;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The stand-ins of a stream that ends; under the lock. */
void dure_stand_ins_gone(struct dure_stream *stream, bool alive)
{
    if (stream->moved_set != 0)
        __atomic_sub_fetch(&dure_moved_streams, 1, __ATOMIC_RELAXED);
    for (uint32_t index = 0; alive && index < DURE_SETS; index++)
        if (stream->moved[index] != NULL)
            dure_real.cuStreamDestroy_v2(stream->moved[index]);
    if (alive && stream->hop_away != NULL)
        dure_real.cuEventDestroy_v2(stream->hop_away);
    if (alive && stream->hop_back != NULL)
        dure_real.cuEventDestroy_v2(stream->hop_back);
}

/* After the streams of a context: its sets. */
void dure_green_forget(struct dure_device *device, cu_context context, bool alive)
{
    pthread_mutex_lock(&device->lock);
    for (uint32_t index = 0; index < DURE_SETS; index++) {
        struct dure_set_context *set = &device->sets[index];
        if (set->of != context)
            continue;
        if (!set->failed) {
            dure_variants_gone(set, alive);
            device->green_open--;
        }
        if (!set->failed && alive) {
            dure_real.cuStreamDestroy_v2(set->stream);
            dure_real.cuGreenCtxDestroy(set->green);
        }
        memset(set, 0, sizeof *set);
    }
    pthread_mutex_unlock(&device->lock);
}
