/* Moving the kernels of a graph to a set of compute units.
 *
 * Either the node is given the set's context, where the driver heeds that, or a launch captured on
 * a stream of the set takes the node's place.
 */
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define WINDOW 8
#define NODES_MOST 16384
#define FUNCTIONS 8192
#define EDGES_MOST 64 /* of one node, either way */

/* Functions that were made from kernels, so that a kernel can be put in a node's place again. */
static struct {
    cu_function function;
    void *kernel;
} kernels[FUNCTIONS];
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

void dure_kernels_forget(void)
{
    pthread_mutex_init(&kernels_lock, NULL);
}

cu_result hook_cuKernelGetFunction(cu_function *function, void *kernel)
{
    DURE_ENTER(cuKernelGetFunction);
    cu_result result = dure_real.cuKernelGetFunction(function, kernel);
    if (result != CU_OK || !dure_enabled || function == NULL)
        return result;
    uint64_t hash = (uint64_t)(uintptr_t)*function * 0x9e3779b97f4a7c15ull >> 32;
    pthread_mutex_lock(&kernels_lock);
    for (uint32_t step = 0; step < WINDOW; step++) {
        uint64_t place = (hash + step) % FUNCTIONS;
        if (kernels[place].function != NULL && kernels[place].function != *function)
            continue;
        kernels[place].function = *function;
        kernels[place].kernel = kernel;
        break;
    }
    pthread_mutex_unlock(&kernels_lock);
    return result;
}
DURE_EXPORT(cuKernelGetFunction);

static void *remembered_kernel(cu_function function)
{
    void *kernel = NULL;
    uint64_t hash = (uint64_t)(uintptr_t)function * 0x9e3779b97f4a7c15ull >> 32;
    pthread_mutex_lock(&kernels_lock);
    for (uint32_t step = 0; step < WINDOW && kernel == NULL; step++)
        if (kernels[(hash + step) % FUNCTIONS].function == function)
            kernel = kernels[(hash + step) % FUNCTIONS].kernel;
    pthread_mutex_unlock(&kernels_lock);
    return kernel;
}

static void *kernel_of(cu_function function)
{
    const char *name = NULL;
    void *kernel = remembered_kernel(function);
    if (kernel != NULL)
        return kernel;
    /* programs may launch kernels in a function's place */
    if (dure_real.cuFuncGetName != NULL && dure_real.cuFuncGetName(&name, function) == CU_OK)
        return NULL;
    if (dure_real.cuKernelGetName != NULL && dure_real.cuKernelGetName(&name, function) == CU_OK)
        return function;
    return NULL;
}

/* Give a node the set's context. A driver need not heed it where the node names a function,
 * which has a context already, so it is read back. */
static bool move_by_context(cu_node node, const struct cu_kernel_node *kernel, cu_context context)
{
    struct cu_kernel_node changed = *kernel, now;
    if (changed.kernel == NULL)
        changed.kernel = kernel_of(changed.function);
    if (changed.kernel != NULL)
        changed.function = NULL;
    changed.context = context;
    memset(&now, 0, sizeof now);
    return dure_real.cuGraphKernelNodeSetParams_v2(node, &changed) == CU_OK &&
           dure_real.cuGraphKernelNodeGetParams_v2(node, &now) == CU_OK && now.context == context;
}

/* Capture one launch on the set's stream into the graph, behind `before`. */
static bool capture_launch(cu_graph graph, const struct cu_kernel_node *kernel, cu_stream stream,
                           const cu_node *before, size_t count, cu_node *made)
{
    cu_function function = kernel->function != NULL ? kernel->function : kernel->kernel;
    cu_graph ended = NULL;
    const cu_node *newest = NULL;
    size_t newest_count = 0;
    int status;
    if (dure_real.cuStreamBeginCaptureToGraph(stream, graph, before, NULL, count,
                                              CU_CAPTURE_MODE_RELAXED) != CU_OK)
        return false;
    bool captured =
        dure_real.cuLaunchKernel(function, kernel->grid[0], kernel->grid[1], kernel->grid[2],
                                 kernel->block[0], kernel->block[1], kernel->block[2],
                                 kernel->shared_bytes, stream, kernel->arguments,
                                 kernel->extra) == CU_OK &&
        dure_real.cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &newest, &newest_count) ==
            CU_OK &&
        newest_count == 1;
    if (captured)
        *made = newest[0];
    return dure_real.cuStreamEndCapture(stream, &ended) == CU_OK && captured;
}

/* Put a kernel that was captured on the set in a node's place. */
static bool move_by_capture(cu_graph graph, cu_node node, const struct cu_kernel_node *kernel,
                            cu_stream stream)
{
    cu_node before[EDGES_MOST], after[EDGES_MOST], made = NULL;
    size_t before_count = EDGES_MOST, after_count = EDGES_MOST;
    if (stream == NULL || dure_real.cuStreamBeginCaptureToGraph == NULL ||
        dure_real.cuStreamGetCaptureInfo_v2 == NULL ||
        dure_real.cuGraphNodeGetDependencies == NULL ||
        dure_real.cuGraphNodeGetDependentNodes == NULL ||
        dure_real.cuGraphAddDependencies == NULL ||
        dure_real.cuGraphDestroyNode == NULL || dure_real.cuGraphKernelNodeCopyAttributes == NULL)
        return false;
    if (dure_real.cuGraphNodeGetDependencies(node, NULL, &before_count) != CU_OK ||
        dure_real.cuGraphNodeGetDependentNodes(node, NULL, &after_count) != CU_OK ||
        before_count > EDGES_MOST || after_count > EDGES_MOST ||
        dure_real.cuGraphNodeGetDependencies(node, before, &before_count) != CU_OK ||
        dure_real.cuGraphNodeGetDependentNodes(node, after, &after_count) != CU_OK)
        return false;
    if (!capture_launch(graph, kernel, stream, before, before_count, &made) ||
        dure_real.cuGraphKernelNodeCopyAttributes(made, node) != CU_OK)
        return false;
    for (size_t index = 0; index < after_count; index++)
        if (dure_real.cuGraphAddDependencies(graph, &made, &after[index], 1) != CU_OK)
            return false;
    return dure_real.cuGraphDestroyNode(node) == CU_OK;
}

static bool move_node(cu_graph graph, cu_node node, const struct dure_set_context *set)
{
    struct cu_kernel_node kernel;
    memset(&kernel, 0, sizeof kernel);
    if (dure_real.cuGraphKernelNodeGetParams_v2(node, &kernel) != CU_OK)
        return false;
    return move_by_context(node, &kernel, set->context) ||
           move_by_capture(graph, node, &kernel, set->stream);
}

/* Only kernels, copies, fills, host calls and empty nodes: what holds graphs inside is left
 * alone. */
bool dure_move_nodes(cu_graph graph, const struct dure_set_context *set)
{
    size_t count = 0;
    bool moved = true;
    if (dure_real.cuGraphGetNodes(graph, NULL, &count) != CU_OK || count == 0 || count > NODES_MOST)
        return false;
    cu_node *nodes = calloc(count, sizeof *nodes);
    if (nodes == NULL || dure_real.cuGraphGetNodes(graph, nodes, &count) != CU_OK)
        moved = false;
    for (size_t index = 0; moved && index < count; index++) {
        int type = -1;
        moved = dure_real.cuGraphNodeGetType(nodes[index], &type) == CU_OK;
        if (moved && type == CU_NODE_IS_KERNEL)
            moved = move_node(graph, nodes[index], set);
        else if (type == CU_NODE_IS_GRAPH || type == CU_NODE_IS_CONDITIONAL)
            moved = false;
    }
    free(nodes);
    return moved;
}

bool dure_can_move_nodes(void)
{
    return dure_real.cuGraphClone != NULL && dure_real.cuGraphGetNodes != NULL &&
           dure_real.cuGraphNodeGetType != NULL &&
           dure_real.cuGraphKernelNodeGetParams_v2 != NULL &&
           dure_real.cuGraphKernelNodeSetParams_v2 != NULL && dure_real.cuGraphDestroy != NULL &&
           dure_real.cuGraphInstantiateWithFlags != NULL;
}
