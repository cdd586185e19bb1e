/* Outstanding work, per stream: what was launched, what is known to be over.
 *
 * Completion is seen in waits of the program that return, in questions it asks, and in markers that
 * the shim puts between launches. When nothing is outstanding any more, the burst is over.
 */
#include <sched.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define WINDOW 8               /* where a stream may be, from its hash on */
#define STEPS 4                /* markers within the in-flight bound */
#define STEP_NS 60000ull       /* but not for less than this, where the bound leaves room */
#define AHEAD_STEP_NS (DURE_RUN_AHEAD_NS / 8) /* where the device itself waits for others */
/* Between markers where nothing is bounded: waits of the program show its progress. */
#define FREE_STEP_NS 16000000ull
#define STEP_LAUNCHES 64
#define FREE_STEP_LAUNCHES 2048
#define LOCK_ATTEMPTS 1000
#define OTHERS 4               /* streams asked about after a wait on another */

cu_stream dure_stream_named(cu_stream stream, bool per_thread)
{
    if (stream != NULL)
        return stream;
    return per_thread ? CU_STREAM_OF_THREAD : CU_STREAM_OF_LEGACY;
}

/* ---- finding them ---------------------------------------------------------------------------- */

static uint64_t thread_of(cu_stream stream)
{
    return stream == CU_STREAM_OF_THREAD ? (uint64_t)pthread_self() : 0;
}

static void clear(struct dure_device *device, struct dure_stream *stream, bool alive)
{
    for (; stream->tail != stream->head; stream->tail++) {
        struct dure_marker *marker = &stream->markers[stream->tail % DURE_MARKERS];
        dure_give_event(device, marker->context, marker->event);
    }
    dure_give_event(device, stream->base_context, stream->base);
    dure_stand_ins_gone(stream, alive);
    memset(stream, 0, sizeof *stream);
}

struct dure_stream *dure_stream_of(struct dure_device *device, cu_context context, cu_stream handle,
                                   bool make)
{
    uint64_t thread = thread_of(handle);
    uint64_t hash = ((uint64_t)(uintptr_t)handle ^ (uint64_t)(uintptr_t)context * 31 ^ thread) *
                    0x9e3779b97f4a7c15ull;
    struct dure_stream *idle = NULL;
    for (uint32_t step = 0; step < WINDOW; step++) {
        struct dure_stream *stream = &device->streams[((hash >> 40) + step) % DURE_STREAMS];
        if (stream->context == context && stream->handle == handle && stream->thread == thread)
            return stream;
        bool reusable = stream->context == NULL ||
                        (!stream->active && !stream->busy && stream->moved_set == 0);
        if (reusable && (idle == NULL || stream->used_ns < idle->used_ns))
            idle = stream;
    }
    if (!make || idle == NULL)
        return NULL;
    if (idle->context != NULL)
        clear(device, idle, true);
    idle->context = context;
    idle->handle = handle;
    idle->thread = thread;
    return idle;
}

/* ---- the ledger of one stream ---------------------------------------------------------------- */

static void activate(struct dure_device *device, struct dure_stream *stream)
{
    if (stream->active)
        return;
    stream->active = true;
    device->active[device->outstanding++] = (uint16_t)(stream - device->streams);
}

static void deactivate(struct dure_device *device, struct dure_stream *stream)
{
    uint16_t number = (uint16_t)(stream - device->streams);
    if (!stream->active)
        return;
    stream->active = false;
    for (uint32_t index = 0; index < device->outstanding; index++) {
        if (device->active[index] != number)
            continue;
        device->active[index] = device->active[--device->outstanding];
        return;
    }
}

static void end_burst_if_over(struct dure_device *device, struct dure_link *link, uint64_t now_ns)
{
    if (device->outstanding == 0 && device->launching == 0)
        dure_lights_close(device, link); /* what passed there since makes a stream active again */
    if (device->outstanding == 0 && device->launching == 0)
        dure_drained(&link->plane, now_ns);
}

void dure_stream_took(struct dure_device *device, struct dure_stream *stream, uint64_t sum_ns,
                      uint32_t launches)
{
    stream->sum_ns += sum_ns;
    stream->used_ns = device->launches;
    stream->open.batch_ns += sum_ns;
    stream->open.batch_launches += launches;
    stream->open.partly = true;
    activate(device, stream);
}

/* Work of a stream up to `sum_ns` is over; `took_ns` 0: nobody knows how long it took. */
void dure_reach(struct dure_device *device, struct dure_link *link, struct dure_stream *stream,
                  uint64_t sum_ns, uint64_t took_ns)
{
    if (sum_ns > stream->sum_ns) /* of a stream that was here before */
        sum_ns = stream->sum_ns;
    if (sum_ns <= stream->done_ns)
        return;
    uint64_t now_ns = dure_now_ns();
    dure_finished(&link->plane, sum_ns - stream->done_ns, took_ns, now_ns);
    stream->done_ns = sum_ns;
    if (stream->done_ns < stream->sum_ns)
        return;
    deactivate(device, stream);
    end_burst_if_over(device, link, now_ns);
}

/* ---- launches -------------------------------------------------------------------------------- */

void dure_begin(struct dure_device *device, struct dure_link *link,
                const struct dure_launch *launch, uint64_t now_ns)
{
    device->launching++;
    if (device->lit != 0)
        dure_lights_enter(device, link);
    dure_launched(&link->plane, launch, now_ns);
}

/* How much predicted work lies between two markers: a part of what may be in flight. */
static uint64_t step_ns(const struct dure_link *link)
{
    const struct dure_control *control = link->plane.control;
    uint64_t turn = __atomic_load_n(&link->plane.rotation->turn, __ATOMIC_RELAXED);
    uint32_t squad = DURE_TURN_SQUAD(turn);
    if (__atomic_load_n(&control->gated, __ATOMIC_RELAXED) == 0 || squad >= DURE_SQUADS)
        return FREE_STEP_NS;
    const struct dure_order *order =
        &control->plans[DURE_TURN_BUFFER(turn)].orders[squad][link->plane.tenant];
    uint64_t bound_ns = __atomic_load_n(&order->inflight_ns, __ATOMIC_RELAXED);
    if (bound_ns == 0)
        return FREE_STEP_NS;
    uint64_t least_ns = bound_ns / 2 < STEP_NS ? bound_ns / 2 : STEP_NS;
    return bound_ns / STEPS > least_ns ? bound_ns / STEPS : least_ns;
}

static bool marker_due(const struct dure_stream *stream, const struct dure_link *link, bool ahead)
{
    uint64_t step = ahead ? AHEAD_STEP_NS : step_ns(link);
    uint32_t most = step == FREE_STEP_NS || ahead ? FREE_STEP_LAUNCHES : STEP_LAUNCHES;
    if (step != FREE_STEP_NS && stream->handle == CU_STREAM_OF_THREAD)
        return true; /* no other thread can mark it later */
    return stream->open.batch_ns >= step || stream->open.batch_launches >= most;
}

static void add_to_batch(struct dure_marker *open, const struct dure_guess *guess)
{
    open->batch_ns += guess->ns;
    open->batch_launches++;
    if (open->batch_count < DURE_BATCH) {
        open->batch[open->batch_count] = guess->index;
        open->batch_guess_ns[open->batch_count] = (uint32_t)guess->ns;
        open->batch_keys[open->batch_count++] = guess->key;
    }
}

static void learn_flags(struct dure_device *device, struct dure_stream *stream, cu_stream handle)
{
    unsigned flags = 0;
    bool own = handle == CU_STREAM_OF_LEGACY || handle == CU_STREAM_OF_THREAD;
    if (!own) {
        pthread_mutex_unlock(&device->lock);
        if (dure_real.cuStreamGetFlags == NULL ||
            dure_real.cuStreamGetFlags(handle, &flags) != CU_OK)
            flags = CU_STREAM_IS_NON_BLOCKING;
        pthread_mutex_lock(&device->lock);
    }
    if (stream->handle == handle) {
        stream->blocking = (flags & CU_STREAM_IS_NON_BLOCKING) == 0;
        stream->blocking_known = true;
    }
}

void dure_end(struct dure_device *device, struct dure_link *link, const struct dure_work *work,
              bool launched)
{
    pthread_mutex_lock(&device->lock);
    device->launching--;
    struct dure_stream *stream =
        launched ? dure_stream_of(device, work->context, work->stream, true) : NULL;
    if (stream == NULL) {
        uint64_t now_ns = dure_now_ns();
        dure_finished(&link->plane, work->guess.ns, launched ? 0 : 1, now_ns);
        end_burst_if_over(device, link, now_ns);
        pthread_mutex_unlock(&device->lock);
        return;
    }
    stream->sum_ns += work->guess.ns;
    stream->used_ns = device->launches;
    activate(device, stream);
    add_to_batch(&stream->open, &work->guess);
    if (work->sample) {
        stream->open.sms = work->sms;
        stream->open.host_ns = dure_now_ns() - work->before_ns;
        stream->open.predicted_ns = work->guess.known ? (uint32_t)work->guess.ns : 0;
    }
    if (stream->head - stream->tail >= DURE_MARKERS - 2)
        dure_look(device, link, stream); /* room for the next */
    if (work->sample || marker_due(stream, link, work->launch.waits_on_device))
        dure_mark(device, link, stream, work->sample);
    if (!stream->blocking_known)
        learn_flags(device, stream, work->stream);
    if (!work->launch.graph)
        dure_light_grant(device, link, work);
    pthread_mutex_unlock(&device->lock);
}

bool dure_mark_before(struct dure_device *device, struct dure_link *link, struct dure_work *work)
{
    pthread_mutex_lock(&device->lock);
    struct dure_stream *stream = dure_stream_of(device, work->context, work->stream, true);
    bool worked = stream != NULL && dure_mark(device, link, stream, false);
    pthread_mutex_unlock(&device->lock);
    work->before_ns = dure_now_ns();
    return worked;
}

/* ---- looking --------------------------------------------------------------------------------- */

bool dure_observe(struct dure_device *device, struct dure_link *link, bool mark_first)
{
    bool progress = false;
    uint16_t numbers[DURE_SNAPSHOT];
    pthread_mutex_lock(&device->lock);
    uint32_t count = device->outstanding < DURE_SNAPSHOT ? device->outstanding : DURE_SNAPSHOT;
    memcpy(numbers, device->active, count * sizeof numbers[0]);
    for (uint32_t index = 0; index < count; index++) {
        struct dure_stream *stream = &device->streams[numbers[index]];
        if (!stream->active || stream->busy)
            continue;
        bool unmarked = stream->marked_ns < stream->sum_ns;
        if (mark_first && unmarked && stream->head == stream->tail &&
            stream->handle != CU_STREAM_OF_THREAD && !dure_capturing(stream->handle))
            dure_mark(device, link, stream, false);
        progress = dure_look(device, link, stream) || progress;
    }
    pthread_mutex_unlock(&device->lock);
    return progress;
}

/* ---- waits of the program -------------------------------------------------------------------- */

void dure_snapshot(struct dure_snapshot *snapshot, cu_stream handle, bool blocking_only)
{
    cu_context context;
    snapshot->count = 0;
    snapshot->device = dure_here(&context);
    struct dure_device *device = snapshot->device;
    struct dure_link *link = device != NULL ? dure_link_peek(device) : NULL;
    if (link == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    dure_lights_enter(device, link);
    for (uint32_t index = 0; index < device->outstanding; index++) {
        struct dure_stream *stream = &device->streams[device->active[index]];
        bool same = handle == NULL ||
                    (stream->handle == handle && stream->thread == thread_of(handle));
        if (stream->context != context || !same || (blocking_only && !stream->blocking))
            continue;
        if (snapshot->count == DURE_SNAPSHOT)
            break;
        snapshot->streams[snapshot->count].index = device->active[index];
        snapshot->streams[snapshot->count++].sum_ns = stream->sum_ns;
    }
    pthread_mutex_unlock(&device->lock);
    dure_link_drop(link);
}

/* A stream waited on may have waited for others: ask whether they are through as well. */
static void ask_others(struct dure_device *device, struct dure_link *link)
{
    for (int asked = 0; asked < OTHERS && device->outstanding > 0; asked++) {
        struct dure_stream *stream = &device->streams[device->active[0]];
        uint64_t sum_ns = stream->sum_ns;
        cu_stream handle = dure_where(stream);
        if (stream->busy || handle == CU_STREAM_OF_THREAD || !dure_same_context(stream))
            return;
        stream->busy = true;
        pthread_mutex_unlock(&device->lock);
        cu_result result = CU_NOT_READY;
        if (!dure_capturing(handle)) {
            int quiet = dure_quiet_begin();
            result = dure_real.cuStreamQuery(handle);
            dure_quiet_end(quiet);
        }
        pthread_mutex_lock(&device->lock);
        stream->busy = false;
        if (result == CU_NOT_READY)
            return;
        dure_reach(device, link, stream, sum_ns, 0);
        dure_retire_reached(device, link, stream);
    }
}

void dure_waited(const struct dure_snapshot *snapshot)
{
    struct dure_device *device = snapshot->device;
    if (device == NULL || snapshot->count == 0)
        return;
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    for (uint32_t index = 0; index < snapshot->count; index++)
        dure_reach(device, link, &device->streams[snapshot->streams[index].index],
              snapshot->streams[index].sum_ns, 0);
    for (uint32_t index = 0; index < snapshot->count; index++)
        dure_retire_reached(device, link, &device->streams[snapshot->streams[index].index]);
    if (device->outstanding != 0)
        ask_others(device, link);
    pthread_mutex_unlock(&device->lock);
    dure_link_drop(link);
}

uint64_t dure_sum_of(struct dure_device *device, cu_context context, cu_stream handle)
{
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return 0;
    pthread_mutex_lock(&device->lock);
    dure_lights_enter(device, link);
    struct dure_stream *stream = dure_stream_of(device, context, handle, false);
    uint64_t sum_ns = stream != NULL ? stream->sum_ns : 0;
    pthread_mutex_unlock(&device->lock);
    dure_link_drop(link);
    return sum_ns;
}

/* Take the lock. Who may not call the driver does not wait for long: the lock may be held by a thread
 * that is in the driver, and that may wait for the very callback this is called from. */
static bool take_lock(struct dure_device *device, bool may_call)
{
    if (may_call)
        return pthread_mutex_lock(&device->lock) == 0;
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        if (pthread_mutex_trylock(&device->lock) == 0)
            return true;
        sched_yield();
    }
    return false;
}

void dure_passed(struct dure_device *device, cu_context context, cu_stream handle, uint64_t sum_ns,
                 bool may_call)
{
    struct dure_link *link = dure_link_peek(device);
    if (link == NULL)
        return;
    if (!take_lock(device, may_call)) { /* markers or the program's next wait tell as much */
        dure_link_drop(link);
        return;
    }
    struct dure_stream *stream = dure_stream_of(device, context, handle, false);
    if (stream != NULL && sum_ns <= stream->sum_ns && sum_ns > stream->done_ns) {
        dure_reach(device, link, stream, sum_ns, 0);
        if (may_call)
            dure_retire_reached(device, link, stream);
        if (may_call && !stream->active && device->outstanding != 0)
            ask_others(device, link);
    }
    pthread_mutex_unlock(&device->lock);
    dure_link_drop(link);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void wait_until_free(struct dure_device *device, struct dure_stream *stream)
{
    while (stream->busy) {
        pthread_mutex_unlock(&device->lock);
        sched_yield();
        pthread_mutex_lock(&device->lock);
    }
}

/* A stream's work counts as over, and it is forgotten; under the lock, let go meanwhile. */
static void forget(struct dure_device *device, struct dure_link *link, struct dure_stream *stream,
                   bool alive)
{
    wait_until_free(device, stream);
    if (link != NULL)
        dure_reach(device, link, stream, stream->sum_ns, 0);
    deactivate(device, stream);
    clear(device, stream, alive);
}

void dure_stream_gone(struct dure_device *device, cu_stream handle)
{
    struct dure_link *link = dure_link_peek(device);
    pthread_mutex_lock(&device->lock);
    dure_lights_close(device, link);
    for (uint32_t index = 0; index < DURE_STREAMS; index++)
        if (device->streams[index].context != NULL && device->streams[index].handle == handle)
            forget(device, link, &device->streams[index], true);
    pthread_mutex_unlock(&device->lock);
    if (link != NULL)
        dure_link_drop(link);
}

/* Whether a context is that of a set beside another. */
static bool of_set(const struct dure_device *device, cu_context beside, cu_context context)
{
    for (uint32_t index = 0; index < DURE_SETS; index++)
        if (device->sets[index].of == beside && device->sets[index].context == context)
            return true;
    return false;
}

/* A context ends, and with it its streams and events, the shim's own included. */
void dure_streams_forget(struct dure_device *device, cu_context context, bool alive)
{
    struct dure_link *link = dure_link_peek(device);
    pthread_mutex_lock(&device->lock);
    dure_lights_close(device, link);
    for (uint32_t index = 0; index < DURE_STREAMS; index++) {
        if (device->streams[index].context == context)
            forget(device, link, &device->streams[index], alive);
    }
    uint32_t kept = 0;
    for (uint32_t index = 0; index < device->pooled; index++) {
        cu_context owner = device->pool[index].context;
        if (owner != context && !of_set(device, context, owner))
            device->pool[kept++] = device->pool[index];
        else
            dure_drop_event(device, alive ? device->pool[index].event : NULL);
    }
    device->pooled = kept;
    if (link != NULL)
        __atomic_store_n(&link->plane.slot->counters.events, device->events_open, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&device->lock);
    if (link != NULL)
        dure_link_drop(link);
}

/* A new agent knows nothing of what is under way: begin its books with nothing. */
void dure_streams_reset(struct dure_device *device)
{
    for (uint32_t index = 0; index < DURE_STREAMS; index++) {
        struct dure_stream *stream = &device->streams[index];
        if (stream->context == NULL)
            continue;
        stream->done_ns = stream->sum_ns;
        stream->active = false;
    }
    device->outstanding = 0;
}
