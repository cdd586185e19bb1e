/* Launches: gate, call, account.
 *
 * Each hook describes its call in a `struct call`, so that the same rule serves kernels,
 * cooperative kernels and graphs, on the program's stream or on one the shim put in its place.
 */
#include "hooks.h"
#include "shim.h"

/* One launch in so many is timed, as the agent says; sooner while its duration is unknown, but not
 * for ever where a program launches ever new shapes, and rarely once it was timed often. A tenant
 * that is alone is timed for those who may come: each event between its kernels costs it a gap. */
#define UNKNOWN_SOONER 8
#define CREDIT_EVERY 32   /* launches that earn another */
#define WELL_KNOWN 8      /* timed so often */
#define WELL_KNOWN_LATER 4
#define ALONE_EVERY 2048
#define ALONE_GRAPH_EVERY 64 /* one of these is as long as many kernels */
#define HALF_KNOWN 4         /* timed so often; from then on, alone, the rest may take its time */
#define ALONE_LATER 16

struct call {
    struct dure_shape shape;
    cu_stream stream; /* as the program gave it */
    bool per_thread;
    bool movable;
    uint32_t hook; /* HOOK_* */
    cu_result (*go)(const struct call *call, cu_stream stream, cu_stream placed);
    void *real;
    void **arguments;
    void **extra;
    const struct cu_launch_config *config;
    cu_exec exec;
};

struct drained {
    struct dure_device *device;
    struct dure_link *link;
};

static bool drain(void *context, uint64_t now_ns)
{
    struct drained *what = context;
    (void)now_ns;
    return dure_observe(what->device, what->link, true);
}

/* After so many launches without one, a launch like this is timed. An unknown graph is at once, as
 * it is long and comes rarely. */
static uint64_t sample_after(struct dure_device *device, const struct dure_guess *guess,
                             const struct dure_launch *launch, uint64_t every, bool gated)
{
    if (guess->timed == 0 && device->credit != 0)
        return launch->graph ? 0 : every / UNKNOWN_SOONER;
    bool known = guess->timed >= WELL_KNOWN;
    if (gated)
        return known && !launch->graph ? every * WELL_KNOWN_LATER : every;
    if (!known)
        return guess->timed < HALF_KNOWN || launch->graph ? every : every * ALONE_LATER;
    uint64_t later = launch->graph ? ALONE_GRAPH_EVERY : ALONE_EVERY;
    return later > every ? later : every;
}

/* Whether this launch is timed. Under the lock. */
static bool sampled(struct dure_device *device, struct dure_link *link,
                    const struct dure_work *work, bool gated)
{
    uint64_t every = __atomic_load_n(&link->plane.control->sample_every, __ATOMIC_RELAXED);
    if (device->launches % CREDIT_EVERY == 0 && device->credit < DURE_CREDIT)
        device->credit++;
    bool unknown = work->guess.timed == 0 && device->credit != 0 && every != 0;
    if (!work->launch.graph)
        dure_light_saw(device, work->guess.ns, !unknown);
    if (every == 0 || ++device->since_sample <
                          sample_after(device, &work->guess, &work->launch, every, gated))
        return false;
    device->since_sample = 0;
    device->credit -= unknown;
    return true;
}

/* Errors with which a launch is refused on some compute units that works on all. */
static bool too_narrow(cu_result result)
{
    return result == CU_INVALID_CLUSTER_SIZE || result == CU_COOPERATIVE_TOO_LARGE ||
           result == CU_INVALID_RESOURCE_CONFIGURATION || result == CU_INVALID_VALUE ||
           result == CU_INVALID_HANDLE || result == CU_INVALID_CONTEXT;
}

static void count(uint64_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
}

/* Call it where it was placed; where that is refused, on its own stream, and remember that. */
static cu_result call_moved(const struct call *call, struct dure_device *device,
                            struct dure_link *link, struct dure_work *work, cu_stream placed)
{
    struct dure_counters *counters = &link->plane.slot->counters;
    cu_result result = call->go(call, call->stream, placed);
    if (!too_narrow(result)) {
        count(&counters->moved_launches);
        return result;
    }
    count(&counters->fallbacks);
    dure_unmovable(device, &work->guess);
    dure_touch(call->stream, call->per_thread);
    work->sms = device->sms;
    work->sample = false;
    return call->go(call, call->stream, NULL);
}

static cu_result call_graph(const struct call *call, struct dure_device *device,
                            struct dure_link *link, struct dure_work *work)
{
    struct call other = *call;
    dure_touch(call->stream, call->per_thread);
    other.exec = dure_variant(device, link, work, call->exec);
    if (work->wait_due)
        dure_waits_place(link, work, work->stream);
    if (work->sample)
        work->sample = dure_mark_before(device, link, work);
    cu_result result = call->go(&other, call->stream, NULL);
    if (other.exec != call->exec && result == CU_OK)
        count(&link->plane.slot->counters.moved_launches);
    return result;
}

static cu_result place_and_call(const struct call *call, struct dure_device *device,
                                struct dure_link *link, struct dure_work *work)
{
    if (work->prepare_waits)
        dure_waits_prepare(link, work->context);
    if (call->shape.graph != 0)
        return call_graph(call, device, link, work);
    cu_stream placed = dure_place(device, link, work);
    if (work->wait_due)
        dure_waits_place(link, work, placed); /* before the marker: a wait is not timed */
    if (work->sample)
        work->sample = dure_mark_before(device, link, work);
    if (placed != work->stream)
        return call_moved(call, device, link, work, placed);
    return call->go(call, call->stream, NULL);
}

/* What is known of the launch where it is going to run. Under the lock. */
static void guess(const struct call *call, struct dure_device *device, struct dure_link *link,
                  struct dure_work *work)
{
    struct dure_shape shape = call->shape;
    shape.set_sms = work->set.group_count * link->plane.control->group_sms;
    dure_predict(device, &shape, &work->guess);
    work->launch.kernel_class = work->guess.kernel_class;
    work->launch.predicted_ns = work->guess.ns;
    work->launch.graph = shape.graph != 0;
}

static struct dure_set set_now(const struct call *call, struct dure_link *link, uint64_t now_ns)
{
    if (!call->movable || link->plane.control->side_by_side == 0)
        return (struct dure_set){0, 0};
    return dure_set_now(&link->plane, now_ns);
}

static bool passes(struct dure_link *link, struct dure_work *work, uint64_t now_ns)
{
    uint32_t held_for;
    work->launch.waits_on_device = dure_waits_serve(link, work, now_ns);
    if (!work->guess.collective)
        return dure_ask(&link->plane, &work->launch, now_ns, &held_for) == DURE_PASS;
    dure_flag(link, DURE_FLAG_COLLECTIVE, true);
    return true;
}

/* Hold the launch until it passes, without the lock. What ended unnoticed may be all it waits
 * for. */
static uint64_t hold(const struct call *call, struct dure_device *device, struct dure_link *link,
                     struct dure_work *work)
{
    struct drained what = {device, link};
    struct dure_set set_before = work->set;
    pthread_mutex_unlock(&device->lock);
    dure_observe(device, link, true);
    bool held = dure_hold(&link->plane, &work->launch, drain, &what) != 0;
    uint64_t now_ns = dure_now_ns();
    if (held)
        work->set = set_now(call, link, now_ns); /* others came or went meanwhile */
    pthread_mutex_lock(&device->lock);
    if (work->set.group_count != set_before.group_count)
        guess(call, device, link, work);
    return now_ns;
}

static cu_result account_for(const struct call *call, struct dure_device *device,
                             struct dure_link *link, struct dure_work *work, uint64_t now_ns)
{
    bool gated = dure_gated(&link->plane, now_ns);
    if (gated)
        work->set = set_now(call, link, now_ns);
    pthread_mutex_lock(&device->lock);
    guess(call, device, link, work);
    bool held = false;
    while (gated && !held && !passes(link, work, now_ns)) {
        bool waits = work->launch.waits_on_device;
        now_ns = hold(call, device, link, work);
        /* it passed as one that waits on the device: look whether it still may */
        held = !waits || dure_waits_serve(link, work, now_ns);
    }
    work->wait_due = gated && dure_waits_due(device, work, now_ns);
    dure_begin(device, link, &work->launch, now_ns);
    work->sample = sampled(device, link, work, gated);
    pthread_mutex_unlock(&device->lock);
    cu_result result = place_and_call(call, device, link, work);
    dure_end(device, link, work, result == CU_OK);
    return result;
}

static cu_result launch(const struct call *call)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    struct dure_work work = {.context = context, .hook = call->hook};
    dure_count_hits(call->hook, 1);
    if (device == NULL)
        return call->go(call, call->stream, NULL);
    work.stream = dure_stream_named(call->stream, call->per_thread);
    if (dure_capturing(work.stream))
        return call->go(call, call->stream, NULL);
    uint64_t now_ns = dure_now_ns();
    struct dure_link *link = dure_link_take(device, now_ns);
    if (link == NULL) {
        dure_touch(call->stream, call->per_thread);
        return call->go(call, call->stream, NULL);
    }
    cu_result result = account_for(call, device, link, &work, now_ns);
    dure_link_drop(link);
    return result;
}

/* Whether a launch is one of those granted to its stream: see light.c. */
static inline bool passes_lightly(cu_stream stream, bool per_thread)
{
    cu_context context = NULL;
    stream = dure_stream_named(stream, per_thread);
    if (stream == CU_STREAM_OF_LEGACY &&
        (dure_real.cuCtxGetCurrent == NULL || dure_real.cuCtxGetCurrent(&context) != CU_OK))
        return false;
    struct dure_light *light = &dure_lights[dure_light_of(context, stream)];
    if (__atomic_load_n(&light->left, __ATOMIC_ACQUIRE) <= 0 ||
        __atomic_load_n(&light->stream, __ATOMIC_RELAXED) != stream ||
        (context != NULL && __atomic_load_n(&light->context, __ATOMIC_RELAXED) != context))
        return false;
    int64_t left = __atomic_fetch_sub(&light->left, 1, __ATOMIC_ACQ_REL);
    if (left <= 0)
        return false;
    return __builtin_expect(left % DURE_LOOK_EVERY != 0, 1) || dure_light_goes_on(light);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static cu_result go_kernel(const struct call *call, cu_stream stream, cu_stream placed)
{
    const struct dure_shape *shape = &call->shape;
    fn_launch *real = placed != NULL ? dure_real.cuLaunchKernel : (fn_launch *)call->real;
    return real(shape->function, shape->grid[0], shape->grid[1], shape->grid[2], shape->block[0],
                shape->block[1], shape->block[2], shape->shared_bytes,
                placed != NULL ? placed : stream, call->arguments, call->extra);
}

static cu_result go_cooperative(const struct call *call, cu_stream stream, cu_stream placed)
{
    const struct dure_shape *shape = &call->shape;
    (void)placed; /* never moved: its blocks wait for one another */
    return ((fn_launch_cooperative *)call->real)(
        shape->function, shape->grid[0], shape->grid[1], shape->grid[2], shape->block[0],
        shape->block[1], shape->block[2], shape->shared_bytes, stream, call->arguments);
}

static cu_result go_configured(const struct call *call, cu_stream stream, cu_stream placed)
{
    fn_launch_ex *real = placed != NULL ? dure_real.cuLaunchKernelEx : (fn_launch_ex *)call->real;
    struct cu_launch_config config = *call->config;
    config.stream = placed != NULL ? placed : stream;
    return real(placed != NULL ? &config : call->config, call->shape.function, call->arguments,
                call->extra);
}

static cu_result go_graph(const struct call *call, cu_stream stream, cu_stream placed)
{
    (void)placed;
    return ((fn_graph_launch *)call->real)(call->exec, stream);
}

#define KERNEL(symbol, thread)                                                          \
    cu_result hook_##symbol(cu_function function, unsigned grid_x, unsigned grid_y,     \
                            unsigned grid_z, unsigned block_x, unsigned block_y,        \
                            unsigned block_z, unsigned shared, cu_stream stream,        \
                            void **arguments, void **extra)                             \
    {                                                                                   \
        DURE_FIND(symbol);                                                              \
        if (passes_lightly(stream, thread))                                             \
            return dure_real.symbol(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
                                    shared, stream, arguments, extra);                  \
        const struct call call = {                                                      \
            .shape = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0}, \
            .stream = stream,                                                           \
            .per_thread = thread,                                                       \
            .movable = true,                                                            \
            .go = go_kernel,                                                            \
            .real = (void *)dure_real.symbol,                                           \
            .hook = HOOK_##symbol,                                                      \
            .arguments = arguments,                                                     \
            .extra = extra,                                                             \
        };                                                                              \
        return launch(&call);                                                           \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define COOPERATIVE(symbol, thread)                                                     \
    cu_result hook_##symbol(cu_function function, unsigned grid_x, unsigned grid_y,     \
                            unsigned grid_z, unsigned block_x, unsigned block_y,        \
                            unsigned block_z, unsigned shared, cu_stream stream,        \
                            void **arguments)                                           \
    {                                                                                   \
        DURE_FIND(symbol);                                                              \
        const struct call call = {                                                      \
            .shape = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0}, \
            .stream = stream,                                                           \
            .per_thread = thread,                                                       \
            .go = go_cooperative,                                                       \
            .real = (void *)dure_real.symbol,                                           \
            .hook = HOOK_##symbol,                                                      \
            .arguments = arguments,                                                     \
        };                                                                              \
        return launch(&call);                                                           \
    }                                                                                   \
    DURE_EXPORT(symbol);

static bool cooperative(const struct cu_launch_config *config)
{
    for (unsigned index = 0; config->attributes != NULL && index < config->attribute_count; index++)
        if (config->attributes[index].id == CU_ATTRIBUTE_COOPERATIVE &&
            config->attributes[index].value.number != 0)
            return true;
    return false;
}

#define CONFIGURED(symbol, thread)                                                      \
    cu_result hook_##symbol(const struct cu_launch_config *config, cu_function function, \
                            void **arguments, void **extra)                             \
    {                                                                                   \
        DURE_FIND(symbol);                                                              \
        if (config == NULL || passes_lightly(config->stream, thread))                   \
            return dure_real.symbol(config, function, arguments, extra);                \
        const struct call call = {                                                      \
            .shape = {function,                                                         \
                      {config->grid[0], config->grid[1], config->grid[2]},              \
                      {config->block[0], config->block[1], config->block[2]},           \
                      config->shared_bytes,                                             \
                      0},                                                               \
            .stream = config->stream,                                                   \
            .per_thread = thread,                                                       \
            .movable = !cooperative(config),                                            \
            .go = go_configured,                                                        \
            .real = (void *)dure_real.symbol,                                           \
            .hook = HOOK_##symbol,                                                      \
            .arguments = arguments,                                                     \
            .extra = extra,                                                             \
            .config = config,                                                           \
        };                                                                              \
        return launch(&call);                                                           \
    }                                                                                   \
    DURE_EXPORT(symbol);

#define GRAPH(symbol, thread)                                                           \
    cu_result hook_##symbol(cu_exec exec, cu_stream stream)                             \
    {                                                                                   \
        DURE_FIND(symbol);                                                              \
        const struct call call = {                                                      \
            .shape = {.graph = dure_graph_id(exec)},                                    \
            .stream = stream,                                                           \
            .per_thread = thread,                                                       \
            .movable = true,                                                            \
            .go = go_graph,                                                             \
            .real = (void *)dure_real.symbol,                                           \
            .hook = HOOK_##symbol,                                                      \
            .exec = exec,                                                               \
        };                                                                              \
        return launch(&call);                                                           \
    }                                                                                   \
    DURE_EXPORT(symbol);

KERNEL(cuLaunchKernel, false)
KERNEL(cuLaunchKernel_ptsz, true)
COOPERATIVE(cuLaunchCooperativeKernel, false)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)
CONFIGURED(cuLaunchKernelEx, false)
CONFIGURED(cuLaunchKernelEx_ptsz, true)
GRAPH(cuGraphLaunch, false)
GRAPH(cuGraphLaunch_ptsz, true)
