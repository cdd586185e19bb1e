/* Events: recorded in modelled time, waited for by streams and by the host. */
#include <stdlib.h>

#include "driver.h"

static uint8_t used[EMU_EVENTS];
static uint32_t next_event;

API CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    struct CUctx_st *context;
    ENTER();
    TRY(current_context_or_error(&context));
    if (event == NULL || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    struct CUevent_st *made = NULL;
    for (uint32_t tries = 0; tries < EMU_EVENTS && made == NULL; tries++) {
        uint32_t id = next_event++ % EMU_EVENTS;
        if (used[id])
            continue;
        used[id] = 1;
        made = calloc(1, sizeof *made);
        made->kind = IS_EVENT;
        made->id = id;
        made->flags = flags;
        made->device = context->device;
        made->recorded = 0;
    }
    unlock_driver();
    *event = made;
    return made != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t base_seq[EMU_EVENTS]; /* records of earlier events with the same number */

static bool valid(CUevent event)
{
    return event != NULL && event->kind == IS_EVENT;
}

API CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER();
    if (!valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    lock_driver();
    event->kind = 0;
    used[event->id] = 0;
    free(event->after);
    free(event);
    unlock_driver();
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    if (!valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    CUresult result = CUDA_SUCCESS;
    if (stream->capture != NULL) {
        if (stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        event->capture = stream->capture;
        event->capture_id = stream->capture->id;
        nodes_copy(&event->after, &event->after_count, stream->after, stream->after_count);
    } else {
        struct emu_command command = {.op = EMU_OP_RECORD, .event = event->id};
        result = capture_implicit(stream);
        if (result == CUDA_SUCCESS) {
            event->capture = NULL;
            event->recorded = command.event_seq = ++base_seq[event->id];
            submit(stream, &command);
        }
    }
    unlock_driver();
    return result;
}

API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, stream, false);
}

API CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return record(event, stream, true);
}

API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    (void)flags;
    return record(event, stream, false);
}

API CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
    (void)flags;
    return record(event, stream, true);
}

/* A wait on an event that was recorded in a capture brings the stream into it. */
static CUresult join_capture(struct CUstream_st *stream, CUevent event)
{
    struct capture *capture = event->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture != NULL && stream->capture != capture) {
        stream->capture->status = capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if ((stream->flags & EMU_FLAG_LEGACY) != 0)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream->capture = capture;
    nodes_join(&stream->after, &stream->after_count, event->after, event->after_count);
    return CUDA_SUCCESS;
}

static CUresult wait(CUstream name, CUevent event, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    if (!valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    CUresult result = CUDA_SUCCESS;
    if (event->capture != NULL) {
        result = join_capture(stream, event);
    } else if (stream->capture != NULL) {
        if (event->recorded != 0) { /* the capture would depend on work outside of it */
            stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
    } else if (event->recorded != 0) {
        struct emu_command command = {.op = EMU_OP_WAIT, .event = event->id};
        command.event_seq = event->recorded;
        submit(stream, &command);
    }
    unlock_driver();
    return result;
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    return wait(stream, event, false);
}

API CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    return wait(stream, event, true);
}

static bool is_done(CUevent event)
{
    return __atomic_load_n(&driver.channel->events[event->id].seq,
                           __ATOMIC_ACQUIRE) >= event->recorded;
}

API CUresult cuEventQuery(CUevent event)
{
    ENTER();
    if (!valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    TRY(capture_forbids_here());
    if (event->recorded == 0 || is_done(event))
        return CUDA_SUCCESS;
    poke_if_due();
    return CUDA_ERROR_NOT_READY;
}

API CUresult cuEventSynchronize(CUevent event)
{
    ENTER();
    if (!valid(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    TRY(capture_forbids_here());
    if (event->recorded != 0)
        wait_event_seq(event->id, event->recorded);
    return enter_without_lock();
}

API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    ENTER();
    if (ms == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(start) || !valid(end) || start->recorded == 0 || end->recorded == 0 ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->capture != NULL || end->capture != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!is_done(start) || !is_done(end))
        return CUDA_ERROR_NOT_READY;
    double from = (double)driver.channel->events[start->id].ns;
    double to = (double)driver.channel->events[end->id].ns;
    *ms = (float)((to - from) / 1e6);
    return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime(ms, start, end);
}
