/* Launching kernels. */
#include <string.h>

#include "driver.h"

#define THREADS_PER_SM 2048u
#define BLOCKS_PER_SM 32u
#define SHARED_PER_SM 233472u

uint32_t blocks_resident(unsigned int threads, unsigned int shared)
{
    uint32_t rounded = (threads + 31) / 32 * 32;
    uint32_t by_threads = rounded > 0 ? THREADS_PER_SM / rounded : BLOCKS_PER_SM;
    uint32_t by_shared = shared > 0 ? SHARED_PER_SM / (shared + 1024) : BLOCKS_PER_SM;
    uint32_t most = by_threads < by_shared ? by_threads : by_shared;
    return most > BLOCKS_PER_SM ? BLOCKS_PER_SM : most;
}

/* Copy the arguments as the program passes them: an array of pointers, or one packed buffer. */
void launch_arguments(struct launch *launch, void **params, void **extra)
{
    const struct CUfunc_st *function = launch->function;
    if (params != NULL) {
        for (uint32_t i = 0; i < function->params; i++)
            if (function->offset[i] + function->size[i] <= PARAM_BYTES)
                memcpy(launch->bytes + function->offset[i], params[i], function->size[i]);
        return;
    }
    const void *buffer = NULL;
    size_t size = 0;
    for (int i = 0; extra != NULL && extra[i] != NULL; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[i + 1];
    }
    if (buffer != NULL)
        memcpy(launch->bytes, buffer, size < PARAM_BYTES ? size : PARAM_BYTES);
}

void launch_fill(const struct launch *launch, const struct CUctx_st *context, struct emu_command *c)
{
    const struct CUfunc_st *function = launch->function;
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    c->op = EMU_OP_KERNEL;
    c->function = function->kernel;
    c->resident = (uint16_t)blocks_resident(threads, launch->shared);
    c->groups = context->groups;
    uint64_t most = driver.sm_share < 1
                        ? (uint64_t)((double)context->sms * driver.sm_share) * c->resident
                        : UINT32_MAX;
    c->blocks = (uint32_t)(blocks < most ? blocks : most);
    for (uint32_t i = 0; i < function->params && i < EMU_ARGS; i++) {
        c->args[i] = 0;
        uint32_t size = function->size[i] < 8 ? function->size[i] : 8;
        memcpy(&c->args[i], launch->bytes + function->offset[i], size);
    }
}

static CUresult check(const struct launch *launch)
{
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (launch->function == NULL || launch->function->kind != IS_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    if (threads == 0 || launch->grid[0] == 0 || launch->grid[1] == 0 || launch->grid[2] == 0 ||
        threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    return blocks_resident((unsigned)threads, launch->shared) > 0 ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult submit_launch(struct launch *launch, CUstream name, bool per_thread)
{
    struct CUstream_st *stream;
    struct emu_command command = {0};
    TRY(resolve_stream(name, per_thread, &stream));
    lock_driver();
    CUresult result;
    if (stream->capture != NULL) {
        struct CUgraphNode_st *node;
        result = capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL, &node);
        if (result == CUDA_SUCCESS) {
            node->launch = *launch;
            launch_fill(launch, stream->context, &node->command);
        }
    } else {
        result = capture_implicit(stream);
        launch_fill(launch, stream->context, &command);
        if (result == CUDA_SUCCESS)
            submit(stream, &command);
    }
    unlock_driver();
    return result;
}

static CUresult launch_kernel(CUfunction f, const unsigned int *grid, const unsigned int *block,
                              unsigned int shared, CUstream stream, void **params, void **extra,
                              bool per_thread)
{
    struct launch launch;
    ENTER();
    launch.function = f;
    memcpy(launch.grid, grid, sizeof launch.grid);
    memcpy(launch.block, block, sizeof launch.block);
    launch.shared = shared;
    TRY(check(&launch));
    if (params == NULL && extra == NULL && f->params > 0)
        return CUDA_ERROR_INVALID_VALUE;
    launch_arguments(&launch, params, extra);
    return submit_launch(&launch, stream, per_thread);
}

#define LAUNCH(name, per_thread)                                                                  \
    API CUresult name(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,            \
                      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,     \
                      CUstream stream, void **params, void **extra)                               \
    {                                                                                             \
        unsigned int grid[3] = {gx, gy, gz};                                                      \
        unsigned int block[3] = {bx, by, bz};                                                     \
        return launch_kernel(f, grid, block, shared, stream, params, extra, per_thread);          \
    }
LAUNCH(cuLaunchKernel, false)
LAUNCH(cuLaunchKernel_ptsz, true)

/* Cluster launches do not fit on the SMs of a small green context, as seen on a real card. */
#define CLUSTER_SMS 16u

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                          bool per_thread)
{
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    unsigned int block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        unsigned int cluster =
            a->id == 4 ? a->value.clusterDim.x * a->value.clusterDim.y * a->value.clusterDim.z : 1;
        struct CUstream_st *stream;
        ENTER();
        TRY(resolve_stream(config->hStream, per_thread, &stream));
        if (cluster > 1 && stream->context->groups != 0
            && cluster * CLUSTER_SMS > stream->context->sms)
            return (CUresult)912; /* CUDA_ERROR_INVALID_CLUSTER_SIZE */
    }
    return launch_kernel(f, grid, block, config->sharedMemBytes, config->hStream, params, extra,
                         per_thread);
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    return launch_ex(config, f, params, extra, false);
}

API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                                   void **extra)
{
    return launch_ex(config, f, params, extra, true);
}

#define COOPERATIVE(name, per_thread)                                                             \
    API CUresult name(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,            \
                      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,     \
                      CUstream stream, void **params)                                             \
    {                                                                                             \
        unsigned int grid[3] = {gx, gy, gz};                                                      \
        unsigned int block[3] = {bx, by, bz};                                                     \
        return launch_kernel(f, grid, block, shared, stream, params, NULL, per_thread);           \
    }
COOPERATIVE(cuLaunchCooperativeKernel, false)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads,
                                                         size_t shared)
{
    ENTER();
    if (blocks == NULL || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (f == NULL || f->kind != IS_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    *blocks = threads > 1024 ? 0 : (int)blocks_resident((unsigned)threads, (unsigned)shared);
    return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f,
                                                                  int threads, size_t shared,
                                                                  unsigned int flags)
{
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
