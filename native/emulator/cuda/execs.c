/* Graphs that run. A graph's nodes are laid out on lanes: the launching stream and helper streams
 * of
 * its own, joined by events, so that the broker needs to know streams and events alone. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define LANES 32

struct step {
    struct CUgraphNode_st *node; /* of the graph's own copy */
    uint32_t lane;
    uint32_t wait_count;
    uint32_t waits[LANES]; /* steps of other lanes that must have ended */
    bool signals;          /* a step of another lane waits for it */
};

struct CUgraphExec_st {
    uint32_t kind;
    struct CUgraph_st *graph;
    struct step *steps;
    uint32_t count;
    uint32_t lanes;
    struct CUstream_st *lane[LANES]; /* the first is the launching stream's place */
    CUevent *done; /* of steps that others wait for, then of lanes */
    CUevent begun;
    struct CUctx_st *context;
};

API CUresult cuEventCreate(CUevent *event, unsigned int flags);
API CUresult cuEventDestroy_v2(CUevent event);
API CUresult cuEventRecord(CUevent event, CUstream stream);
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);

/* A node goes on where one of those before it stands last, else on a new lane. */
static uint32_t choose_lane(struct CUgraphExec_st *exec, const struct CUgraphNode_st *node,
                            const uint32_t *last)
{
    for (uint32_t i = 0; i < node->after_count; i++) {
        uint32_t before = node->after[i]->index;
        uint32_t lane = exec->steps[before].lane;
        if (last[lane] == before)
            return lane;
    }
    if (node->after_count == 0 && exec->lanes == 0)
        return exec->lanes++;
    return exec->lanes < LANES ? exec->lanes++ : node->index % LANES;
}

static void lay_out(struct CUgraphExec_st *exec)
{
    uint32_t last[LANES];
    memset(last, 0xff, sizeof last);
    exec->count = exec->graph->count;
    exec->steps = calloc(exec->count + 1, sizeof *exec->steps);
    for (uint32_t i = 0; i < exec->count; i++) {
        struct step *step = &exec->steps[i];
        step->node = exec->graph->nodes[i];
        step->lane = choose_lane(exec, step->node, last);
        for (uint32_t k = 0; k < step->node->after_count; k++) {
            uint32_t before = step->node->after[k]->index;
            if (exec->steps[before].lane == step->lane || step->wait_count == LANES)
                continue;
            step->waits[step->wait_count++] = before;
            exec->steps[before].signals = true;
        }
        last[step->lane] = i;
    }
}

static CUresult make_lanes(struct CUgraphExec_st *exec)
{
    struct CUctx_st *context;
    TRY(current_context_or_error(&context));
    exec->context = context;
    exec->done = calloc(exec->count + LANES + 1, sizeof *exec->done);
    if (exec->lanes <= 1)
        return CUDA_SUCCESS;
    TRY(cuEventCreate(&exec->begun, CU_EVENT_DISABLE_TIMING));
    for (uint32_t i = 1; i < exec->lanes; i++) {
        lock_driver();
        exec->lane[i] = stream_make(context, 0, 0);
        unlock_driver();
        if (exec->lane[i] == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        TRY(cuEventCreate(&exec->done[exec->count + i], CU_EVENT_DISABLE_TIMING));
    }
    for (uint32_t i = 0; i < exec->count; i++)
        if (exec->steps[i].signals)
            TRY(cuEventCreate(&exec->done[i], CU_EVENT_DISABLE_TIMING));
    return CUDA_SUCCESS;
}

static void unmake(struct CUgraphExec_st *exec)
{
    for (uint32_t i = 0; exec->done != NULL && i < exec->count + LANES; i++)
        if (exec->done[i] != NULL)
            cuEventDestroy_v2(exec->done[i]);
    if (exec->begun != NULL)
        cuEventDestroy_v2(exec->begun);
    lock_driver();
    for (uint32_t i = 1; i < exec->lanes; i++)
        if (exec->lane[i] != NULL)
            stream_free(exec->lane[i]);
    graph_free(exec->graph);
    unlock_driver();
    free(exec->done);
    free(exec->steps);
    exec->kind = 0;
    free(exec);
}

API CUresult cuGraphClone(CUgraph *made, CUgraph graph);

static CUresult instantiate(CUgraphExec *exec, CUgraph graph)
{
    ENTER();
    if (exec == NULL || graph == NULL || graph->kind != IS_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_here());
    struct CUgraphExec_st *made = calloc(1, sizeof *made);
    made->kind = IS_EXEC;
    TRY(cuGraphClone(&made->graph, graph));
    lay_out(made);
    CUresult result = make_lanes(made);
    if (result != CUDA_SUCCESS) {
        unmake(made);
        return result;
    }
    *exec = made;
    return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    return instantiate(exec, graph);
}

API CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
                                   size_t size)
{
    if (error != NULL)
        *error = NULL;
    if (log != NULL && size > 0)
        log[0] = '\0';
    return instantiate(exec, graph);
}

struct instantiate_params {
    uint64_t flags;
    CUstream upload;
    CUgraphNode error;
    int result;
};

API CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                          struct instantiate_params *params)
{
    CUresult result = instantiate(exec, graph);
    if (params != NULL) {
        params->error = NULL;
        params->result = result == CUDA_SUCCESS ? 0 : 1;
    }
    return result;
}

API CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                               struct instantiate_params *params)
{
    return cuGraphInstantiateWithParams(exec, graph, params);
}

static bool is_exec(CUgraphExec exec)
{
    return exec != NULL && exec->kind == IS_EXEC;
}

API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER();
    if (!is_exec(exec))
        return CUDA_ERROR_INVALID_VALUE;
    unmake(exec);
    return CUDA_SUCCESS;
}

static CUresult submit_step(struct CUgraphExec_st *exec, uint32_t index, struct CUstream_st *stream)
{
    struct step *step = &exec->steps[index];
    for (uint32_t i = 0; i < step->wait_count; i++)
        TRY(cuStreamWaitEvent(stream, exec->done[step->waits[i]], 0));
    lock_driver();
    CUresult result = CUDA_SUCCESS;
    if (step->node->type == CU_GRAPH_NODE_TYPE_HOST) {
        result = host_submit(stream, step->node->host, step->node->host_data);
    } else {
        struct emu_command command = step->node->command;
        submit(stream, &command);
    }
    unlock_driver();
    if (result == CUDA_SUCCESS && step->signals)
        result = cuEventRecord(exec->done[index], stream);
    return result;
}

/* A graph launched into a capture becomes part of what is captured, node by node. */
static CUresult capture_child(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    struct CUgraphNode_st **made = calloc(exec->count + 1, sizeof *made);
    struct CUgraphNode_st **leaves = calloc(exec->count + 1, sizeof *leaves);
    uint32_t leaf_count = 0;
    for (uint32_t i = 0; i < exec->count; i++) {
        const struct CUgraphNode_st *from = exec->graph->nodes[i];
        bool root = from->after_count == 0;
        made[i] = graph_add(stream->capture->graph, from->type, root ? stream->after : from->after,
                            root ? stream->after_count : from->after_count);
        for (uint32_t k = 0; !root && k < from->after_count; k++)
            made[i]->after[k] = made[from->after[k]->index];
        node_copy(made[i], from);
    }
    for (uint32_t i = 0; i < exec->count; i++) {
        bool followed = false;
        for (uint32_t k = i + 1; k < exec->count; k++)
            for (uint32_t d = 0; d < made[k]->after_count; d++)
                followed |= made[k]->after[d] == made[i];
        if (!followed)
            leaves[leaf_count++] = made[i];
    }
    if (leaf_count > 0)
        nodes_copy(&stream->after, &stream->after_count, leaves, leaf_count);
    free(made);
    free(leaves);
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    ENTER();
    if (!is_exec(exec))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(resolve_stream(name, per_thread, &stream));
    if (stream->capture != NULL) {
        lock_driver();
        bool active = stream->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CUresult result =
            active ? capture_child(exec, stream) : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        unlock_driver();
        return result;
    }
    if (exec->lanes > 1) {
        TRY(cuEventRecord(exec->begun, stream));
        for (uint32_t i = 1; i < exec->lanes; i++)
            TRY(cuStreamWaitEvent(exec->lane[i], exec->begun, 0));
    }
    for (uint32_t i = 0; i < exec->count; i++) {
        uint32_t lane = exec->steps[i].lane;
        TRY(submit_step(exec, i, lane == 0 ? stream : exec->lane[lane]));
    }
    for (uint32_t i = 1; i < exec->lanes; i++) {
        TRY(cuEventRecord(exec->done[exec->count + i], exec->lane[i]));
        TRY(cuStreamWaitEvent(stream, exec->done[exec->count + i], 0));
    }
    return CUDA_SUCCESS;
}

API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return launch(exec, stream, false);
}

API CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return launch(exec, stream, true);
}

API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    ENTER();
    return is_exec(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    return cuGraphUpload(exec, stream);
}

/* ---- updates --------------------------------------------------------------------------------- */

static bool same_shape(const struct CUgraph_st *a, const struct CUgraph_st *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->nodes[i]->type != b->nodes[i]->type ||
            a->nodes[i]->after_count != b->nodes[i]->after_count)
            return false;
        for (uint32_t k = 0; k < a->nodes[i]->after_count; k++)
            if (a->nodes[i]->after[k]->index != b->nodes[i]->after[k]->index)
                return false;
    }
    return true;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    ENTER();
    if (!is_exec(exec) || graph == NULL || graph->kind != IS_GRAPH || info == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){0, NULL, NULL};
    if (!same_shape(exec->graph, graph)) {
        info->result = 2; /* topology changed */
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    lock_driver();
    for (uint32_t i = 0; i < graph->count; i++)
        node_copy(exec->graph->nodes[i], graph->nodes[i]);
    unlock_driver();
    return CUDA_SUCCESS;
}

API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                  CUgraphExecUpdateResultInfo *info)
{
    return update(exec, graph, info);
}

API CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error, int *result)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult updated = update(exec, graph, &info);
    if (error != NULL)
        *error = info.errorNode;
    if (result != NULL)
        *result = info.result;
    return updated;
}

API CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);

static CUgraphNode own_node(CUgraphExec exec, CUgraphNode node)
{
    if (!is_exec(exec) || node == NULL || node->index >= exec->count)
        return NULL;
    return exec->graph->nodes[node->index];
}

API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS *params)
{
    return cuGraphKernelNodeSetParams(own_node(exec, node), params);
}

API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *params)
{
    return cuGraphKernelNodeSetParams_v2(own_node(exec, node), params);
}
