/* Graphs: nodes and their order, clones, kernel nodes' parameters. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

struct CUgraph_st *graph_make(void)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    graph->kind = IS_GRAPH;
    return graph;
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, int type,
                                 struct CUgraphNode_st *const *after, uint32_t after_count)
{
    struct CUgraphNode_st *node = calloc(1, sizeof *node);
    node->kind = IS_NODE;
    node->type = type;
    node->graph = graph;
    node->index = graph->count;
    node->command.op = EMU_OP_MARK;
    nodes_copy(&node->after, &node->after_count, after, after_count);
    if (graph->count == graph->room) {
        graph->room = graph->room > 0 ? 2 * graph->room : 16;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
    }
    graph->nodes[graph->count++] = node;
    return node;
}

void graph_free(struct CUgraph_st *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->nodes[i]->kind = 0;
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    graph->kind = 0;
    free(graph);
}

static bool is_graph(CUgraph graph)
{
    return graph != NULL && graph->kind == IS_GRAPH;
}

static bool is_node(CUgraphNode node)
{
    return node != NULL && node->kind == IS_NODE;
}

/* What a node does, without its place in a graph. */
void node_copy(struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
    to->command = from->command;
    to->launch = from->launch;
    to->context = from->context;
    to->host = from->host;
    to->host_data = from->host_data;
}

static struct CUgraph_st *copy_graph(const struct CUgraph_st *graph)
{
    struct CUgraph_st *made = graph_make();
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct CUgraphNode_st *from = graph->nodes[i];
        struct CUgraphNode_st *to = graph_add(made, from->type, from->after, from->after_count);
        for (uint32_t k = 0; k < to->after_count; k++)
            to->after[k] = made->nodes[from->after[k]->index];
        node_copy(to, from);
    }
    return made;
}

API CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    ENTER();
    if (graph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = graph_make();
    return CUDA_SUCCESS;
}

API CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER();
    if (!is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    graph_free(graph);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuGraphClone(CUgraph *made, CUgraph graph)
{
    ENTER();
    if (made == NULL || !is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    *made = copy_graph(graph);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph graph)
{
    ENTER();
    if (found == NULL || !is_node(original) || !is_graph(graph) || original->index >= graph->count)
        return CUDA_ERROR_INVALID_VALUE;
    *found = graph->nodes[original->index];
    return CUDA_SUCCESS;
}

API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    ENTER();
    if (!is_graph(graph) || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t most = nodes != NULL ? *count : 0;
    for (size_t i = 0; i < most; i++)
        nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
    *count = nodes != NULL && most < graph->count ? most : graph->count;
    return CUDA_SUCCESS;
}

API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    ENTER();
    if (!is_graph(graph) || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->after_count > 0)
            continue;
        if (nodes != NULL && found < *count)
            nodes[found] = graph->nodes[i];
        found++;
    }
    *count = found;
    return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
    ENTER();
    if (!is_node(node) || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    ENTER();
    if (!is_graph(graph) || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        for (uint32_t k = 0; k < graph->nodes[i]->after_count; k++) {
            if (from != NULL && to != NULL && found < *count) {
                from[found] = graph->nodes[i]->after[k];
                to[found] = graph->nodes[i];
            }
            found++;
        }
    }
    *count = found;
    return CUDA_SUCCESS;
}

API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return get_edges(graph, from, to, count);
}

API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, void *data,
                                size_t *count)
{
    size_t most = data != NULL && count != NULL ? *count : 0;
    memset(data != NULL ? data : &most, 0, most * 8);
    return get_edges(graph, from, to, count);
}

static CUresult get_dependencies(CUgraphNode node, CUgraphNode *after, size_t *count)
{
    ENTER();
    if (!is_node(node) || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; after != NULL && i < node->after_count && i < *count; i++)
        after[i] = node->after[i];
    *count = node->after_count;
    return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *after, size_t *count)
{
    return get_dependencies(node, after, count);
}

API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *after, void *edges,
                                           size_t *count)
{
    (void)edges;
    return get_dependencies(node, after, count);
}

static CUresult get_dependents(CUgraphNode node, CUgraphNode *followers, size_t *count)
{
    ENTER();
    if (!is_node(node) || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (uint32_t i = node->index + 1; i < node->graph->count; i++) {
        struct CUgraphNode_st *other = node->graph->nodes[i];
        for (uint32_t k = 0; k < other->after_count; k++) {
            if (other->after[k] != node)
                continue;
            if (followers != NULL && found < *count)
                followers[found] = other;
            found++;
        }
    }
    *count = found;
    return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *followers, size_t *count)
{
    return get_dependents(node, followers, count);
}

API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *followers, void *edges,
                                             size_t *count)
{
    (void)edges;
    return get_dependents(node, followers, count);
}

/* ---- kernel nodes ---------------------------------------------------------------------------- */

static bool is_kernel(CUgraphNode node)
{
    return is_node(node) && node->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

static void set_kernel(struct CUgraphNode_st *node, const CUDA_KERNEL_NODE_PARAMS *p,
                       bool with_context)
{
    struct launch *launch = &node->launch;
    launch->function = p->func;
    if (launch->function == NULL && with_context)
        launch->function = (struct CUfunc_st *)p->kern;
    memcpy(launch->grid, &p->gridDimX, sizeof launch->grid);
    memcpy(launch->block, &p->blockDimX, sizeof launch->block);
    launch->shared = p->sharedMemBytes;
    launch_arguments(launch, p->kernelParams, p->extra);
    if (with_context && p->ctx != NULL)
        node->context = p->ctx;
    else if (node->context == NULL)
        node->context = current_context();
    launch_fill(launch, node->context, &node->command);
}

static CUresult check_kernel(const CUDA_KERNEL_NODE_PARAMS *p, bool with_context)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct CUfunc_st *f = p->func;
    if (f == NULL && with_context)
        f = (const struct CUfunc_st *)p->kern;
    if (f == NULL || f->kind != IS_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    return with_context && p->ctx != NULL && p->ctx->kind != IS_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT
                                                                        : CUDA_SUCCESS;
}

static CUresult get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p, bool with_context)
{
    ENTER();
    if (!is_kernel(node) || p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch *launch = &node->launch;
    p->func = launch->function;
    memcpy(&p->gridDimX, launch->grid, sizeof launch->grid);
    memcpy(&p->blockDimX, launch->block, sizeof launch->block);
    p->sharedMemBytes = launch->shared;
    for (uint32_t i = 0; i < launch->function->params; i++)
        node->pointers[i] = launch->bytes + launch->function->offset[i];
    p->kernelParams = node->pointers;
    p->extra = NULL;
    if (with_context) {
        p->kern = NULL;
        p->ctx = node->context;
    }
    return CUDA_SUCCESS;
}

API CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    return get_kernel(node, params, false);
}

API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    return get_kernel(node, params, true);
}

static CUresult set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params,
                           bool with_context)
{
    ENTER();
    if (!is_kernel(node))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(check_kernel(params, with_context));
    lock_driver();
    set_kernel(node, params, with_context);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return set_params(node, params, false);
}

API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return set_params(node, params, true);
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS *params, bool with_context)
{
    ENTER();
    if (node == NULL || !is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(check_kernel(params, with_context));
    lock_driver();
    *node = graph_add(graph, CU_GRAPH_NODE_TYPE_KERNEL, after, (uint32_t)count);
    set_kernel(*node, params, with_context);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return add_kernel(node, graph, after, count, params, false);
}

API CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return add_kernel(node, graph, after, count, params, true);
}

API CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t count)
{
    ENTER();
    if (node == NULL || !is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    lock_driver();
    *node = graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY, after, (uint32_t)count);
    unlock_driver();
    return CUDA_SUCCESS;
}

/* Nodes have no attributes that the model looks at. */
API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    ENTER();
    return is_kernel(to) && is_kernel(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute,
                                           CUlaunchAttributeValue *value)
{
    (void)attribute;
    ENTER();
    if (!is_kernel(node) || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    return CUDA_SUCCESS;
}

API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute,
                                           const CUlaunchAttributeValue *value)
{
    (void)attribute;
    ENTER();
    return is_kernel(node) && value != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
