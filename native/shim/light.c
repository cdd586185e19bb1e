/* Launches of a tenant alone on its GPU: most pass at the price of one cache line.
 *
 * Between two launches a program uses the caches for its own work, so what a launch costs is the
 * number of cold lines it touches. Where nobody is held for anybody and durations are known, a
 * stream is granted a number of launches that are only counted; the next launch after them, or a
 * wait, enters them in the books at the usual duration. What ends a grant early (a capture, a
 * stream or context that ends, a burst that is over, a new attachment) takes it back.
 */
#include "hooks.h"
#include "shim.h"

#define MOST 256         /* launches of one grant */
#define LEAST 16         /* fewer are not worth it */
#define WORTH_NS 4e6     /* predicted work of one grant at most: so late its books may be */
#define STEADY_AFTER 128 /* launches of known durations in a row before the first */
#define WEIGHT 0.02

struct dure_light dure_lights[DURE_LIGHTS];

#define relaxed(word) __atomic_load_n((word), __ATOMIC_RELAXED)

/* Every few launches: whether the agent still holds nobody. */
bool dure_light_goes_on(struct dure_light *light)
{
    struct dure_device *device = relaxed(&light->device);
    struct dure_link *link = device != NULL ? dure_link_take(device, dure_now_ns()) : NULL;
    bool goes_on = false;
    if (link != NULL) {
        goes_on = relaxed(&link->plane.control->gated) == 0;
        dure_link_drop(link);
    }
    if (!goes_on) /* this one goes the long way, and is counted there */
        __atomic_fetch_add(&light->left, 1, __ATOMIC_RELAXED);
    return goes_on;
}

/* Enter what passed so far. Under the device's lock. */
static void enter(struct dure_device *device, struct dure_link *link, struct dure_light *light,
                  int64_t left)
{
    int64_t passed = (int64_t)light->granted - (left > 0 ? left : 0);
    light->granted = left > 0 ? (uint32_t)left : 0;
    if (passed <= 0)
        return;
    dure_count_hits(light->hook, (uint64_t)passed);
    device->since_sample += (uint64_t)passed;
    device->launches += (uint64_t)passed;
    uint64_t sum_ns = (uint64_t)((double)passed * device->usual_ns);
    struct dure_stream *stream = dure_stream_of(device, light->context, light->stream, true);
    if (link == NULL || stream == NULL)
        return;
    dure_launched_before(&link->plane, (uint64_t)passed, sum_ns, dure_now_ns());
    dure_stream_took(device, stream, sum_ns, (uint32_t)passed);
}

static void close_light(struct dure_device *device, struct dure_link *link,
                        struct dure_light *light)
{
    enter(device, link, light, __atomic_exchange_n(&light->left, 0, __ATOMIC_ACQ_REL));
    light->granted = 0; /* the rest is taken back */
}

void dure_lights_enter(struct dure_device *device, struct dure_link *link)
{
    for (uint32_t open = device->lit; open != 0; open &= open - 1) {
        struct dure_light *light = &dure_lights[__builtin_ctz(open)];
        enter(device, link, light, __atomic_load_n(&light->left, __ATOMIC_ACQUIRE));
    }
}

void dure_lights_close(struct dure_device *device, struct dure_link *link)
{
    for (uint32_t open = device->lit; open != 0; open &= open - 1)
        close_light(device, link, &dure_lights[__builtin_ctz(open)]);
    device->lit = 0;
}

/* A launch that went the long way: what those that pass lightly are taken to be like. */
void dure_light_saw(struct dure_device *device, uint64_t predicted_ns, bool known)
{
    double weight = device->usual_ns > 0.0 ? WEIGHT : 1.0;
    device->usual_ns += weight * ((double)predicted_ns - device->usual_ns);
    device->steady = known ? device->steady + 1 : 0;
}

static uint32_t grant_of(struct dure_device *device)
{
    double most = device->usual_ns > 0.0 ? WORTH_NS / device->usual_ns : 0.0;
    uint32_t count = most < MOST ? (uint32_t)most : MOST;
    if (count < LEAST)
        return 0;
    /* not always as many: a program's own period must not hide some of its launches */
    device->dice = device->dice * 1664525u + 1013904223u;
    return count / 2 + (device->dice >> 16) % (count / 2 + 1);
}

void dure_light_grant(struct dure_device *device, struct dure_link *link,
                      const struct dure_work *work)
{
    if (device->steady < STEADY_AFTER || work->stream == CU_STREAM_OF_THREAD ||
        relaxed(&link->plane.control->gated) != 0 || relaxed(&dure_captures) != 0 ||
        relaxed(&dure_moved_streams) != 0)
        return;
    uint32_t index = dure_light_of(work->context, work->stream);
    struct dure_light *light = &dure_lights[index];
    struct dure_device *owner = relaxed(&light->device);
    if (owner != device && owner != NULL)
        return; /* another GPU's */
    close_light(device, link, light);
    uint32_t count = grant_of(device);
    if (count == 0)
        return;
    __atomic_store_n(&light->device, device, __ATOMIC_RELAXED);
    __atomic_store_n(&light->context, work->context, __ATOMIC_RELAXED);
    __atomic_store_n(&light->stream, work->stream, __ATOMIC_RELAXED);
    light->granted = count;
    light->hook = work->hook;
    device->lit |= 1u << index;
    __atomic_store_n(&light->left, count, __ATOMIC_RELEASE);
}

/* After a fork: grants were the parent's. */
void dure_lights_forget(void)
{
    for (uint32_t index = 0; index < DURE_LIGHTS; index++)
        dure_lights[index] = (struct dure_light){0};
}

/* A capture began somewhere: every launch must look. */
void dure_lights_out(void)
{
    for (uint32_t index = 0; index < DURE_LIGHTS; index++) {
        struct dure_device *device = relaxed(&dure_lights[index].device);
        struct dure_link *link = device != NULL ? dure_link_peek(device) : NULL;
        if (link == NULL)
            continue;
        pthread_mutex_lock(&device->lock);
        dure_lights_close(device, link);
        pthread_mutex_unlock(&device->lock);
        dure_link_drop(link);
    }
}
