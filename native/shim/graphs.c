/* Executable graphs: each is one unit with a number of its own, and has variants on sets of compute
 * units.
 *
 * A graph runs on the compute units its kernels were captured for, whatever stream it is launched
 * on. So a clone of what it was made from is kept, and where the plan asks for a set, the clone's
 * kernels are given that set's context and it is instantiated again. Launched on the same stream,
 * all variants stay in the program's order. Where that fails the graph is shared in time only.
 */
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define GRAPHS 1024
#define WINDOW 8

struct variant {
    struct dure_set_context *set;
    cu_exec exec;
};
struct known {
    cu_exec exec; /* NULL: free */
    uint64_t id;
    cu_graph source; /* own clone; NULL: cannot be moved */
    uint64_t flags;
    bool unmovable;
    cu_stream last_stream;
    cu_exec last_exec;
    struct variant variants[DURE_SETS];
};
static struct known graphs[GRAPHS];
static uint64_t last_id;
static pthread_mutex_t graphs_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the table ------------------------------------------------------------------------------- */

static void drop_variants(struct known *graph)
{
    for (int index = 0; index < DURE_SETS; index++)
        if (graph->variants[index].exec != NULL)
            dure_real.cuGraphExecDestroy(graph->variants[index].exec);
    memset(graph->variants, 0, sizeof graph->variants);
    graph->last_exec = graph->exec;
}

static void forget(struct known *graph)
{
    drop_variants(graph);
    if (graph->source != NULL)
        dure_real.cuGraphDestroy(graph->source);
    memset(graph, 0, sizeof *graph);
}

static struct known *find(cu_exec exec, bool make)
{
    uint64_t hash = (uint64_t)(uintptr_t)exec * 0x9e3779b97f4a7c15ull >> 32;
    struct known *oldest = NULL;
    for (uint32_t step = 0; step < WINDOW; step++) {
        struct known *found = &graphs[(hash + step) % GRAPHS];
        if (found->exec == exec)
            return found;
        if (oldest == NULL || found->id < oldest->id)
            oldest = found;
    }
    if (!make)
        return NULL;
    forget(oldest);
    *oldest = (struct known){.exec = exec, .id = ++last_id, .last_exec = exec};
    return oldest;
}

void dure_graphs_forget(void)
{
    pthread_mutex_init(&graphs_lock, NULL);
    memset(graphs, 0, sizeof graphs);
}

uint64_t dure_graph_id(cu_exec exec)
{
    pthread_mutex_lock(&graphs_lock);
    uint64_t id = find(exec, true)->id;
    pthread_mutex_unlock(&graphs_lock);
    return id;
}

/* ---- variants -------------------------------------------------------------------------------- */

static cu_exec make_variant(const struct known *graph, const struct dure_set_context *set)
{
    cu_graph copy = NULL;
    cu_exec exec = NULL;
    if (dure_real.cuGraphClone(&copy, graph->source) != CU_OK)
        return NULL;
    if (!dure_move_nodes(copy, set) ||
        dure_real.cuGraphInstantiateWithFlags(&exec, copy, graph->flags) != CU_OK)
        exec = NULL;
    dure_real.cuGraphDestroy(copy);
    return exec;
}

/* Under the lock of the graphs: they are made and launched rarely. */
static cu_exec variant_on(struct known *graph, struct dure_set_context *set)
{
    struct variant *free_one = NULL;
    for (int index = 0; index < DURE_SETS; index++) {
        if (graph->variants[index].set == set)
            return graph->variants[index].exec;
        if (graph->variants[index].set == NULL && free_one == NULL)
            free_one = &graph->variants[index];
    }
    if (free_one == NULL)
        return NULL;
    int quiet = dure_quiet_begin();
    cu_exec made = make_variant(graph, set);
    dure_quiet_end(quiet);
    if (made != NULL)
        *free_one = (struct variant){set, made};
    return made;
}

static struct dure_set_context *set_for(struct dure_device *device, struct dure_link *link,
                                        const struct dure_work *work)
{
    if (work->set.group_count == 0)
        return NULL;
    pthread_mutex_lock(&device->lock);
    struct dure_set_context *found = dure_set_context_for(device, link, work->context, work->set);
    pthread_mutex_unlock(&device->lock);
    return found;
}

cu_exec dure_variant(struct dure_device *device, struct dure_link *link, struct dure_work *work,
                     cu_exec exec)
{
    work->sms = device->sms;
    struct dure_set_context *set = set_for(device, link, work);
    pthread_mutex_lock(&graphs_lock);
    struct known *graph = find(exec, false);
    cu_exec chosen = exec;
    if (set != NULL && graph != NULL && graph->source != NULL && !graph->unmovable) {
        chosen = variant_on(graph, set);
        graph->unmovable = chosen == NULL;
    }
    if (set != NULL && (chosen == NULL || graph == NULL || graph->source == NULL)) {
        __atomic_fetch_add(&link->plane.slot->counters.fallbacks, 1, __ATOMIC_RELAXED);
        dure_flag(link, DURE_FLAG_GRAPH_UNMOVED, true);
        chosen = exec;
    }
    /* A graph never overlaps with itself; its variants would, on different streams. */
    if (graph != NULL && graph->last_stream != work->stream && graph->last_exec != NULL &&
        graph->last_stream != NULL)
        chosen = graph->last_exec;
    if (graph != NULL) {
        graph->last_stream = work->stream;
        graph->last_exec = chosen;
    }
    pthread_mutex_unlock(&graphs_lock);
    if (chosen != exec && set != NULL)
        work->sms = set->sms;
    return chosen;
}

/* A set's context ends: variants on it are of no use. */
void dure_variants_gone(const struct dure_set_context *set, bool alive)
{
    pthread_mutex_lock(&graphs_lock);
    for (int index = 0; index < GRAPHS; index++) {
        struct known *graph = &graphs[index];
        for (int place = 0; graph->exec != NULL && place < DURE_SETS; place++) {
            struct variant *variant = &graph->variants[place];
            if (variant->set != set)
                continue;
            if (alive)
                dure_real.cuGraphExecDestroy(variant->exec);
            if (graph->last_exec == variant->exec)
                graph->last_exec = graph->exec;
            memset(variant, 0, sizeof *variant);
        }
    }
    pthread_mutex_unlock(&graphs_lock);
}

/* ---- the program's graphs -------------------------------------------------------------------- */

static bool side_by_side(void)
{
    cu_context context;
    struct dure_device *device = dure_here(&context);
    struct dure_link *link = device != NULL ? dure_link_take(device, dure_now_ns()) : NULL;
    if (link == NULL)
        return false;
    bool overlaps = link->plane.control->side_by_side != 0;
    dure_link_drop(link);
    return overlaps;
}

static cu_graph cloned(cu_graph graph)
{
    cu_graph copy = NULL;
    if (!side_by_side() || !dure_can_move_nodes() || dure_real.cuGraphClone(&copy, graph) != CU_OK)
        return NULL;
    return copy;
}

static cu_result made(cu_result result, const cu_exec *exec, cu_graph graph, uint64_t flags)
{
    if (result != CU_OK || exec == NULL || !dure_enabled)
        return result;
    cu_graph source = cloned(graph);
    pthread_mutex_lock(&graphs_lock);
    struct known *before = find(*exec, false);
    if (before != NULL) /* a handle that was another's */
        forget(before);
    struct known *graph_known = find(*exec, true);
    graph_known->source = source;
    graph_known->flags = flags;
    pthread_mutex_unlock(&graphs_lock);
    return result;
}

static void gone(cu_exec exec)
{
    pthread_mutex_lock(&graphs_lock);
    struct known *found = dure_enabled ? find(exec, false) : NULL;
    if (found != NULL)
        forget(found);
    pthread_mutex_unlock(&graphs_lock);
}

/* An executable graph was changed: to what another graph says, or (NULL) in one node, which the
 * clone does not know of. */
static void changed(cu_result result, cu_exec exec, cu_graph graph)
{
    if (result != CU_OK || !dure_enabled)
        return;
    cu_graph source = graph != NULL ? cloned(graph) : NULL;
    pthread_mutex_lock(&graphs_lock);
    struct known *found = find(exec, false);
    if (found != NULL) {
        drop_variants(found);
        if (found->source != NULL)
            dure_real.cuGraphDestroy(found->source);
        found->source = source;
    } else if (source != NULL) {
        dure_real.cuGraphDestroy(source);
    }
    pthread_mutex_unlock(&graphs_lock);
}

cu_result hook_cuGraphInstantiate(cu_exec *exec, cu_graph graph, cu_node *node, char *log,
                                  size_t room)
{
    DURE_ENTER(cuGraphInstantiate);
    return made(dure_real.cuGraphInstantiate(exec, graph, node, log, room), exec, graph, 0);
}
DURE_EXPORT(cuGraphInstantiate);

cu_result hook_cuGraphInstantiate_v2(cu_exec *exec, cu_graph graph, cu_node *node, char *log,
                                     size_t room)
{
    DURE_ENTER(cuGraphInstantiate_v2);
    return made(dure_real.cuGraphInstantiate_v2(exec, graph, node, log, room), exec, graph, 0);
}
DURE_EXPORT(cuGraphInstantiate_v2);

cu_result hook_cuGraphInstantiateWithFlags(cu_exec *exec, cu_graph graph, uint64_t flags)
{
    DURE_ENTER(cuGraphInstantiateWithFlags);
    return made(dure_real.cuGraphInstantiateWithFlags(exec, graph, flags), exec, graph, flags);
}
DURE_EXPORT(cuGraphInstantiateWithFlags);

/* Uploading belongs to the first instantiation alone. */
#define WITH_PARAMS(symbol)                                                             \
    cu_result hook_##symbol(cu_exec *exec, cu_graph graph, struct cu_instantiate *how)  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        uint64_t flags = how != NULL ? how->flags & ~CU_INSTANTIATE_AND_UPLOAD : 0;     \
        return made(dure_real.symbol(exec, graph, how), exec, graph, flags);            \
    }                                                                                   \
    DURE_EXPORT(symbol);

WITH_PARAMS(cuGraphInstantiateWithParams)
WITH_PARAMS(cuGraphInstantiateWithParams_ptsz)

cu_result hook_cuGraphExecDestroy(cu_exec exec)
{
    DURE_ENTER(cuGraphExecDestroy);
    gone(exec);
    return dure_real.cuGraphExecDestroy(exec);
}
DURE_EXPORT(cuGraphExecDestroy);

#define CHANGE(symbol, parameters, arguments, graph)                                    \
    cu_result hook_##symbol parameters                                                  \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        cu_result result = dure_real.symbol arguments;                                  \
        changed(result, exec, graph);                                                   \
        return result;                                                                  \
    }                                                                                   \
    DURE_EXPORT(symbol);

CHANGE(cuGraphExecUpdate, (cu_exec exec, cu_graph graph, cu_node *node, int *why),
       (exec, graph, node, why), graph)
CHANGE(cuGraphExecUpdate_v2, (cu_exec exec, cu_graph graph, void *why), (exec, graph, why), graph)
CHANGE(cuGraphExecKernelNodeSetParams, (cu_exec exec, cu_node node, const void *what),
       (exec, node, what), NULL)
CHANGE(cuGraphExecKernelNodeSetParams_v2, (cu_exec exec, cu_node node, const void *what),
       (exec, node, what), NULL)
CHANGE(cuGraphExecMemcpyNodeSetParams,
       (cu_exec exec, cu_node node, const void *what, cu_context context),
       (exec, node, what, context), NULL)
CHANGE(cuGraphExecMemsetNodeSetParams,
       (cu_exec exec, cu_node node, const void *what, cu_context context),
       (exec, node, what, context), NULL)
CHANGE(cuGraphExecHostNodeSetParams, (cu_exec exec, cu_node node, const void *what),
       (exec, node, what), NULL)
CHANGE(cuGraphExecChildGraphNodeSetParams, (cu_exec exec, cu_node node, cu_graph child),
       (exec, node, child), NULL)
CHANGE(cuGraphExecEventRecordNodeSetEvent, (cu_exec exec, cu_node node, cu_event event),
       (exec, node, event), NULL)
CHANGE(cuGraphExecEventWaitNodeSetEvent, (cu_exec exec, cu_node node, cu_event event),
       (exec, node, event), NULL)
CHANGE(cuGraphExecNodeSetParams, (cu_exec exec, cu_node node, const void *what), (exec, node, what),
       NULL)
CHANGE(cuGraphNodeSetEnabled, (cu_exec exec, cu_node node, unsigned enabled), (exec, node, enabled),
       NULL)

#define UPLOAD(symbol, per_thread)                                                      \
    cu_result hook_##symbol(cu_exec exec, cu_stream stream)                             \
    {                                                                                   \
        DURE_ENTER(symbol);                                                             \
        dure_touch(stream, per_thread);                                                 \
        return dure_real.symbol(exec, stream);                                          \
    }                                                                                   \
    DURE_EXPORT(symbol);

UPLOAD(cuGraphUpload, false)
UPLOAD(cuGraphUpload_ptsz, true)
