/* Waits on the device in place of held threads: put into streams here, and watched by a thread.
 *
 * A wait that nobody ends would stop the program for good, whatever call it is in, so a thread of
 * our own looks every few milliseconds whether who is waited for is really busy, and opens his word
 * where not; sooner where somebody is about to lose patience, to close his. It touches shared words
 * alone, never the driver, which may block; it is started with the first wait and sleeps while there
 * are none.
 */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "hooks.h"
#include "shim.h"

#define REGISTER_PORTABLE 1u
#define REGISTER_MAPPED 2u
#define WAIT_FOR_EQUAL 1u
#define LOOK_NS 10000000ull
#define SOONEST_NS 50000ull /* between two looks: it is a thread of somebody else's program */
#define IDLE_LOOKS 100           /* without anything to watch, then it sleeps */
#define LEFT 8                   /* pages of agents that are gone */
#define LEFT_FOR_NS 60000000000ull

enum { UNTRIED, TRYING, USABLE, UNUSABLE };

/* ---- the words as the device sees them ------------------------------------------------------- */

static void say_it_failed(cu_result result)
{
    static bool said;
    if (!said)
        dure_log("streams cannot wait on the device here (%d): threads are held instead", result);
    said = true;
}

void dure_waits_prepare(struct dure_link *link, cu_context context)
{
    uint32_t untried = UNTRIED;
    if (!__atomic_compare_exchange_n(&link->waits_state, &untried, TRYING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    cu_result result = CU_NOT_SUPPORTED;
    cu_pointer there = 0;
    int quiet = dure_quiet_begin();
    if (dure_real.cuStreamWaitValue32_v2 != NULL && dure_real.cuMemHostRegister_v2 != NULL &&
        dure_real.cuMemHostGetDevicePointer_v2 != NULL)
        result = dure_real.cuMemHostRegister_v2(link->plane.rotation, DURE_PAGE_BYTES,
                                                REGISTER_PORTABLE | REGISTER_MAPPED);
    if (result == CU_OK)
        result = dure_real.cuMemHostGetDevicePointer_v2(&there, link->plane.rotation, 0);
    dure_quiet_end(quiet);
    if (result != CU_OK)
        say_it_failed(result);
    link->words_at = there;
    link->words_context = context;
    link->plane.keeps_rotation = result == CU_OK;
    __atomic_store_n(&link->waits_state, result == CU_OK ? USABLE : UNUSABLE, __ATOMIC_RELEASE);
}

/* The context that the words were registered in has ended. */
void dure_waits_context_gone(struct dure_device *device, cu_context context)
{
    for (int index = 0; index < DURE_LINKS; index++) {
        struct dure_link *link = &device->links[index];
        if (link->words_context == context &&
            __atomic_load_n(&link->waits_state, __ATOMIC_ACQUIRE) == USABLE)
            __atomic_store_n(&link->waits_state, UNTRIED, __ATOMIC_RELEASE);
    }
}

/* ---- the watch ------------------------------------------------------------------------------- */

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t watch_wanted = PTHREAD_COND_INITIALIZER;
static bool watch_started;
static bool watching; /* it looks, or will before it sleeps */
static struct {
    uint32_t *closed;
    uint64_t until_ns;
} left[LEFT];

/* Words of an agent that is gone: whoever waits for them goes on. */
static bool open_left(uint64_t now_ns)
{
    bool any = false;
    pthread_mutex_lock(&watch_lock);
    for (int index = 0; index < LEFT; index++) {
        if (left[index].until_ns < now_ns)
            continue;
        any = true;
        for (uint32_t client = 0; client < DURE_CLIENTS; client++)
            __atomic_store_n(&left[index].closed[client], 0, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&watch_lock);
    return any;
}

/* In how many nanoseconds to look again; 0: there is nothing to watch. */
static uint64_t look(void)
{
    uint64_t now_ns = dure_now_ns();
    uint64_t again_ns = open_left(now_ns) ? LOOK_NS : 0;
    for (cu_device ordinal = 0; ordinal < DURE_DEVICES; ordinal++) {
        struct dure_device *device = dure_device_known(ordinal);
        struct dure_link *link = device != NULL ? dure_link_peek(device) : NULL;
        if (link == NULL)
            continue;
        uint64_t due_ns = dure_waits_check(&link->plane, now_ns);
        if (due_ns != 0 && (again_ns == 0 || due_ns < again_ns))
            again_ns = due_ns;
        dure_link_drop(link);
    }
    return again_ns;
}

static void sleep_until_wanted(void)
{
    __atomic_store_n(&watching, false, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (look() != 0) {
        __atomic_store_n(&watching, true, __ATOMIC_SEQ_CST);
        return;
    }
    pthread_mutex_lock(&watch_lock);
    while (!__atomic_load_n(&watching, __ATOMIC_SEQ_CST))
        pthread_cond_wait(&watch_wanted, &watch_lock);
    pthread_mutex_unlock(&watch_lock);
}

static void *watch(void *nothing)
{
    uint64_t again_ns = 0;
    int idle = 0;
    for (;;) {
        uint64_t wait_ns = again_ns == 0 || again_ns > LOOK_NS ? LOOK_NS : again_ns;
        struct timespec pause = {0, (long)(wait_ns > SOONEST_NS ? wait_ns : SOONEST_NS)};
        nanosleep(&pause, NULL);
        again_ns = look();
        idle = again_ns != 0 ? 0 : idle + 1;
        if (idle == IDLE_LOOKS) {
            idle = 0;
            sleep_until_wanted();
        }
    }
    return nothing;
}

static bool start(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    bool started = pthread_create(&thread, &attributes, watch, NULL) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Make sure that the watch is kept; false where it cannot be. */
static bool watched(void)
{
    if (__builtin_expect(__atomic_load_n(&watching, __ATOMIC_SEQ_CST), 1))
        return true;
    pthread_mutex_lock(&watch_lock);
    watch_started = watch_started || start();
    __atomic_store_n(&watching, watch_started, __ATOMIC_SEQ_CST);
    pthread_cond_signal(&watch_wanted);
    pthread_mutex_unlock(&watch_lock);
    return watch_started;
}

/* An attachment that was replaced, whose agent is gone: threads that still hold it may have waits on
 * the device, or place the last ones now. */
void dure_waits_leave(struct dure_link *link)
{
    if (!link->plane.keeps_rotation)
        return;
    pthread_mutex_lock(&watch_lock);
    int oldest = 0;
    for (int index = 1; index < LEFT; index++)
        if (left[index].until_ns < left[oldest].until_ns)
            oldest = index;
    left[oldest].closed = link->plane.rotation->closed;
    left[oldest].until_ns = dure_now_ns() + LEFT_FOR_NS;
    pthread_mutex_unlock(&watch_lock);
    watched();
}

/* Nobody uses an attachment any more: the next one in its place begins anew. */
void dure_waits_reset(struct dure_link *link)
{
    __atomic_store_n(&link->waits_state, UNTRIED, __ATOMIC_RELEASE);
}

/* After a fork: the thread is the parent's, as are the pages. */
void dure_waits_forget(void)
{
    pthread_mutex_init(&watch_lock, NULL);
    pthread_cond_init(&watch_wanted, NULL);
    watch_started = watching = false;
    memset(left, 0, sizeof left);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Whether the launch waits on the device rather than being held here. Under the lock. */
bool dure_waits_serve(struct dure_link *link, struct dure_work *work, uint64_t now_ns)
{
    uint32_t state = __atomic_load_n(&link->waits_state, __ATOMIC_ACQUIRE);
    work->waits.count = 0;
    work->prepare_waits = false;
    if (state == UNUSABLE || state == TRYING || work->guess.collective ||
        !dure_waits_now(&link->plane, &work->launch, now_ns, &work->waits))
        return false;
    /* beside all there are now, but not beside all there may be: little in flight, as usual */
    if (work->waits.count == 0 && work->waits.present != 0 &&
        __atomic_load_n(&link->plane.waited_for, __ATOMIC_RELAXED) == 0)
        return false;
    work->prepare_waits = state == UNTRIED;
    return state == USABLE;
}

static uint64_t clients_of(const struct dure_waits *waits)
{
    uint64_t clients = 0;
    for (uint32_t index = 0; index < waits->count; index++)
        clients |= 1ull << waits->clients[index];
    return clients;
}

/* Whether a wait is due before the launch; one serves what follows it for a while. Under the
 * lock. */
bool dure_waits_due(struct dure_device *device, struct dure_work *work, uint64_t now_ns)
{
    if (!work->launch.waits_on_device || work->waits.count == 0)
        return false;
    uint64_t clients = clients_of(&work->waits);
    struct dure_stream *stream = dure_stream_of(device, work->context, work->stream, true);
    if (stream == NULL)
        return true;
    uint64_t behind_ns = stream->behind_ns + work->guess.ns;
    bool covered = stream->active && stream->waited_for == clients &&
                   behind_ns <= work->waits.step_ns && !work->launch.graph;
    stream->behind_ns = covered ? behind_ns : work->guess.ns;
    stream->waited_for = clients;
    if (!covered && !stream->open.guarded) {
        stream->open.guarded = true;
        stream->open.began_ns = now_ns;
    }
    return !covered;
}

/* Put the waits into the stream where the launch goes. */
void dure_waits_place(struct dure_link *link, const struct dure_work *work, cu_stream stream)
{
    /* in this order: a watch that is about to sleep sees what it has to watch */
    dure_waits_placed(&link->plane, &work->waits, dure_now_ns());
    if (!watched()) {
        __atomic_store_n(&link->waits_state, UNUSABLE, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t index = 0; index < work->waits.count; index++) {
        cu_pointer word = link->words_at + offsetof(struct dure_rotation, closed) +
                          work->waits.clients[index] * sizeof(uint32_t);
        cu_result result = dure_real.cuStreamWaitValue32_v2((uint64_t)(uintptr_t)stream, word, 0,
                                                            WAIT_FOR_EQUAL, 0, 0);
        if (result == CU_OK)
            continue;
        say_it_failed(result);
        __atomic_store_n(&link->waits_state, UNUSABLE, __ATOMIC_RELEASE);
        return;
    }
}
