/* Markers: own events in the program's streams, which show how far they are and how long work took.
 *
 * Two markers in a row between which a stream never ran dry tell how long the launches between
 * took. A launch between two markers of its own is timed alone. Calls into the driver are made
 * outside the lock, as they may block; `busy` keeps a stream's markers to one thread meanwhile.
 */
#include <string.h>

#include "hooks.h"
#include "shim.h"

/* On an idle stream the host's delay is timed too: this part of it at most. */
#define HOST_PART 4
#define ERROR_WEIGHT 0.05
/* A batch that took longer than this waited; less is an error of prediction. */
#define WAIT_OF_BATCH 1.25
#define WAIT_NS 20000.0

void dure_drop_event(struct dure_device *device, cu_event event)
{
    device->events_open--;
    if (event != NULL)
        dure_real.cuEventDestroy_v2(event);
}

void dure_give_event(struct dure_device *device, cu_context context, cu_event event)
{
    if (event == NULL)
        return;
    if (device->pooled < DURE_POOL) {
        device->pool[device->pooled].context = context;
        device->pool[device->pooled++].event = event;
        return;
    }
    dure_drop_event(device, event);
}

static cu_event take_event(struct dure_device *device, cu_context context)
{
    for (uint32_t index = device->pooled; index-- > 0;) {
        if (device->pool[index].context != context)
            continue;
        cu_event event = device->pool[index].event;
        device->pool[index] = device->pool[--device->pooled];
        return event;
    }
    return NULL;
}

static double elapsed_ns(cu_event from, cu_event to)
{
    float ms = 0.0f;
    if (from == NULL || dure_real.cuEventElapsedTime == NULL ||
        dure_real.cuEventElapsedTime(&ms, from, to) != CU_OK || ms <= 0.0f)
        return 0.0;
    return (double)ms * 1e6;
}

static void count_error(struct dure_link *link, double predicted, double took)
{
    uint64_t *word = &link->plane.slot->counters.prediction_error_ppm;
    double before = (double)__atomic_load_n(word, __ATOMIC_RELAXED);
    double error = predicted > took ? predicted - took : took - predicted;
    double ppm = error / took * 1e6;
    double smoothed = before > 0.0 ? before + ERROR_WEIGHT * (ppm - before) : ppm;
    __atomic_store_n(word, (uint64_t)(smoothed > 1.0 ? smoothed : 1.0), __ATOMIC_RELAXED);
}

static void report_sample(struct dure_device *device, struct dure_link *link,
                          const struct dure_marker *marker, double took)
{
    const struct dure_signature *signature = &device->signatures[marker->batch[0]];
    if (signature->key != marker->batch_keys[0])
        return;
    struct dure_sample sample = {
        .function = signature->function,
        .blocks = signature->blocks,
        .threads = signature->threads,
        .resident = signature->resident,
        .sms = marker->sms,
        .company = marker->company,
        .duration_ns = took < 4e9 ? (uint32_t)took : UINT32_MAX,
        .predicted_ns = marker->predicted_ns,
        .memory_bound = signature->memory_bound,
        .graph = signature->graph,
    };
    dure_sampled(&link->plane, &sample);
    if (marker->predicted_ns != 0)
        count_error(link, marker->predicted_ns, took);
}

/* A batch with a wait in it tells how long that took, roughly: what it took beyond its prediction,
 * counted from the marker before or from when it was launched, whichever is later. */
static void count_wait(struct dure_link *link, const struct dure_stream *stream,
                       const struct dure_marker *marker)
{
    double least = (double)marker->batch_ns * WAIT_OF_BATCH + WAIT_NS;
    double took = elapsed_ns(stream->base, marker->event);
    double since = (double)(dure_now_ns() - marker->began_ns);
    took = took < since ? took : since;
    if (took > least)
        dure_waited_on_device(&link->plane, stream->waited_for,
                              (uint64_t)took - marker->batch_ns);
}

/* What a batch tells of its launches; nanoseconds it took, 0 where it does not say. */
static uint64_t learn(struct dure_device *device, struct dure_link *link,
                      const struct dure_stream *stream, const struct dure_marker *marker)
{
    if (marker->guarded)
        count_wait(link, stream, marker);
    if ((!marker->chained && !marker->timed) || marker->guarded)
        return 0;
    double took = elapsed_ns(stream->base, marker->event);
    if (took <= 0.0 || (!marker->chained && took < HOST_PART * (double)marker->host_ns))
        return 0;
    if (marker->timed && marker->batch_count == 1 && marker->batch_launches == 1) {
        report_sample(device, link, marker, took);
        dure_learn(device, marker->batch[0], marker->batch_keys[0], (uint64_t)took,
                   marker->company == 0);
    } else if (marker->company == 0 && marker->batch_ns > 0 && !marker->partly) {
        dure_correct(device, marker, took / (double)marker->batch_ns);
    }
    /* beside others it took longer than the work it is: that much stays as predicted */
    return marker->chained && marker->company == 0 ? (uint64_t)took : 0;
}

/* The oldest marker of a stream was reached. */
static void retire(struct dure_device *device, struct dure_link *link, struct dure_stream *stream)
{
    struct dure_marker *marker = &stream->markers[stream->tail % DURE_MARKERS];
    /* behind a wait it ran long after it was launched */
    if (marker->timed && __atomic_load_n(&link->plane.waited_for, __ATOMIC_RELAXED) != 0)
        marker->company |= dure_company(&link->plane, dure_now_ns());
    uint64_t took_ns = learn(device, link, stream, marker);
    bool whole = stream->done_ns + marker->batch_ns == marker->sum_ns;
    dure_reach(device, link, stream, marker->sum_ns, whole ? took_ns : 0);
    dure_give_event(device, stream->base_context, stream->base);
    stream->base = marker->event;
    stream->base_context = marker->context;
    stream->tail++;
}

/* Markers a wait of the program has shown to be reached. */
void dure_retire_reached(struct dure_device *device, struct dure_link *link,
                           struct dure_stream *stream)
{
    while (!stream->busy && stream->tail != stream->head &&
           stream->markers[stream->tail % DURE_MARKERS].sum_ns <= stream->done_ns)
        retire(device, link, stream);
}

bool dure_same_context(const struct dure_stream *stream)
{
    cu_context context = NULL;
    return dure_real.cuCtxGetCurrent(&context) == CU_OK && context == stream->context;
}

/* The context a marker's event must be of: the program's, unless the driver refused that on a
 * set. */
static cu_context marker_context(const struct dure_device *device, const struct dure_stream *stream)
{
    if (stream->moved_set != 0 && device->own_events_there)
        return device->sets[stream->moved_set - 1].context;
    return stream->context;
}

static bool create(cu_event *event, cu_context context, bool elsewhere)
{
    cu_context before;
    if (!elsewhere)
        return dure_real.cuEventCreate(event, 0) == CU_OK;
    if (dure_real.cuCtxPushCurrent_v2(context) != CU_OK)
        return false;
    bool created = dure_real.cuEventCreate(event, 0) == CU_OK;
    dure_real.cuCtxPopCurrent_v2(&before);
    return created;
}

/* Record a marker on a stream that this thread has claimed; outside the lock. */
static bool record(struct dure_marker *marker, cu_event before, cu_stream where, bool elsewhere)
{
    int quiet = dure_quiet_begin();
    bool worked = marker->event != NULL || create(&marker->event, marker->context, elsewhere);
    worked = worked && dure_real.cuEventRecord(marker->event, where) == CU_OK;
    marker->chained = worked && before != NULL && dure_real.cuEventQuery(before) == CU_NOT_READY;
    dure_quiet_end(quiet);
    return worked;
}

/* Close the open batch with a marker. Under the lock, which is let go meanwhile. */
bool dure_mark(struct dure_device *device, struct dure_link *link, struct dure_stream *stream,
                 bool timed)
{
    uint32_t waiting = stream->head - stream->tail;
    if (stream->busy || waiting == DURE_MARKERS || !dure_same_context(stream))
        return false;
    struct dure_marker marker = stream->open;
    marker.timed = timed;
    marker.sum_ns = stream->sum_ns;
    marker.company |= dure_company(&link->plane, dure_now_ns());
    memset(&stream->open, 0, sizeof stream->open);
    const struct dure_marker *newest = &stream->markers[(stream->head - 1) % DURE_MARKERS];
    /* where others are gated for, launches look at markers all the time: see dure_look */
    bool asks = __atomic_load_n(&link->plane.control->gated, __ATOMIC_RELAXED) == 0;
    cu_event before = asks && waiting != 0 ? newest->event : NULL;
    marker.context = marker_context(device, stream);
    marker.event = take_event(device, marker.context);
    bool fresh = marker.event == NULL, moved = stream->moved_set != 0;
    cu_stream where = dure_where(stream);
    stream->busy = true;
    pthread_mutex_unlock(&device->lock);
    bool worked = record(&marker, before, where, marker.context != stream->context);
    pthread_mutex_lock(&device->lock);
    stream->busy = false;
    device->events_open += fresh && marker.event != NULL;
    __atomic_store_n(&link->plane.slot->counters.events, device->events_open, __ATOMIC_RELAXED);
    if (!worked) {
        device->own_events_there = device->own_events_there || moved;
        dure_give_event(device, marker.context, marker.event);
        return false;
    }
    stream->marked_ns = marker.sum_ns;
    stream->markers[stream->head++ % DURE_MARKERS] = marker;
    while (before != NULL && !marker.chained && stream->head - stream->tail > 1)
        retire(device, link, stream); /* the one before was reached, so were all before it */
    return true;
}

/* Query the oldest markers of a stream, with the lock held at both ends. */
bool dure_look(struct dure_device *device, struct dure_link *link, struct dure_stream *stream)
{
    bool progress = false;
    while (!stream->busy && stream->tail != stream->head) {
        cu_event event = stream->markers[stream->tail % DURE_MARKERS].event;
        stream->busy = true;
        pthread_mutex_unlock(&device->lock);
        int quiet = dure_quiet_begin();
        cu_result result = dure_real.cuEventQuery(event);
        dure_quiet_end(quiet);
        pthread_mutex_lock(&device->lock);
        stream->busy = false;
        if (result == CU_NOT_READY) {
            /* all recorded until now were recorded before the one before them was reached */
            for (uint32_t next = stream->tail + 1; next != stream->head; next++)
                stream->markers[next % DURE_MARKERS].chained = true;
            break;
        }
        retire(device, link, stream); /* also on an error: nothing will ever be reached then */
        progress = true;
    }
    return progress;
}
