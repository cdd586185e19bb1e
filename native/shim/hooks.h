/* Which names of the driver are hooked, and which it calls itself.
 *
 * X(symbol, shape, asked, since): `asked` is the name a program passes to cuGetProcAddress, `since`
 * the first CUDA version that asks for this symbol by it. Per-thread variants end in _ptsz or
 * _ptds.
 */
#ifndef DURE_SHIM_HOOKS_H
#define DURE_SHIM_HOOKS_H

#include "driver.h"

#define DURE_HOOKS_LAUNCH(X)                                                            \
    X(cuLaunchKernel, fn_launch, "cuLaunchKernel", 4000)                                \
    X(cuLaunchKernel_ptsz, fn_launch, "cuLaunchKernel", 7000)                           \
    X(cuLaunchKernelEx, fn_launch_ex, "cuLaunchKernelEx", 11060)                        \
    X(cuLaunchKernelEx_ptsz, fn_launch_ex, "cuLaunchKernelEx", 11060)                   \
    X(cuLaunchCooperativeKernel, fn_launch_cooperative, "cuLaunchCooperativeKernel", 9000)        \
    X(cuLaunchCooperativeKernel_ptsz, fn_launch_cooperative, "cuLaunchCooperativeKernel", 9000)   \
    X(cuGraphLaunch, fn_graph_launch, "cuGraphLaunch", 10000)                           \
    X(cuGraphLaunch_ptsz, fn_graph_launch, "cuGraphLaunch", 10000)

#define DURE_HOOKS_SYNC(X)                                                              \
    X(cuStreamSynchronize, fn_stream, "cuStreamSynchronize", 2000)                      \
    X(cuStreamSynchronize_ptsz, fn_stream, "cuStreamSynchronize", 7000)                 \
    X(cuStreamQuery, fn_stream, "cuStreamQuery", 2000)                                  \
    X(cuStreamQuery_ptsz, fn_stream, "cuStreamQuery", 7000)                             \
    X(cuEventRecord, fn_event_stream, "cuEventRecord", 2000)                            \
    X(cuEventRecord_ptsz, fn_event_stream, "cuEventRecord", 7000)                       \
    X(cuEventRecordWithFlags, fn_event_stream_flags, "cuEventRecordWithFlags", 11010)   \
    X(cuEventRecordWithFlags_ptsz, fn_event_stream_flags, "cuEventRecordWithFlags", 11010)        \
    X(cuEventQuery, fn_event, "cuEventQuery", 2000)                                     \
    X(cuEventSynchronize, fn_event, "cuEventSynchronize", 2000)                         \
    X(cuCtxSynchronize, fn_void, "cuCtxSynchronize", 2000)                              \
    X(cuStreamWaitEvent, fn_stream_event_flags, "cuStreamWaitEvent", 3020)              \
    X(cuStreamWaitEvent_ptsz, fn_stream_event_flags, "cuStreamWaitEvent", 7000)         \
    X(cuLaunchHostFunc, fn_host_function, "cuLaunchHostFunc", 10000)                    \
    X(cuLaunchHostFunc_ptsz, fn_host_function, "cuLaunchHostFunc", 10000)               \
    X(cuStreamAddCallback, fn_callback, "cuStreamAddCallback", 5000)                    \
    X(cuStreamAddCallback_ptsz, fn_callback, "cuStreamAddCallback", 7000)               \
    X(cuStreamDestroy_v2, fn_stream, "cuStreamDestroy", 4000)                           \
    X(cuEventDestroy_v2, fn_event, "cuEventDestroy", 4000)                              \
    X(cuCtxDestroy_v2, fn_context, "cuCtxDestroy", 4000)                                \
    X(cuDevicePrimaryCtxRetain, fn_retain, "cuDevicePrimaryCtxRetain", 7000)            \
    X(cuDevicePrimaryCtxRelease, fn_device, "cuDevicePrimaryCtxRelease", 7000)          \
    X(cuDevicePrimaryCtxRelease_v2, fn_device, "cuDevicePrimaryCtxRelease", 11000)      \
    X(cuDevicePrimaryCtxReset_v2, fn_device, "cuDevicePrimaryCtxReset", 11000)          \
    X(cuDevicePrimaryCtxReset, fn_device, "cuDevicePrimaryCtxReset", 7000)

#define DURE_HOOKS_CAPTURE(X)                                                           \
    X(cuStreamBeginCapture, fn_stream, "cuStreamBeginCapture", 10000)                   \
    X(cuStreamBeginCapture_ptsz, fn_stream, "cuStreamBeginCapture", 10000)              \
    X(cuStreamBeginCapture_v2, fn_stream_mode, "cuStreamBeginCapture", 10010)           \
    X(cuStreamBeginCapture_v2_ptsz, fn_stream_mode, "cuStreamBeginCapture", 10010)      \
    X(cuStreamBeginCaptureToGraph, fn_capture_to, "cuStreamBeginCaptureToGraph", 12030) \
    X(cuStreamBeginCaptureToGraph_ptsz, fn_capture_to, "cuStreamBeginCaptureToGraph", 12030)      \
    X(cuStreamEndCapture, fn_stream_graph, "cuStreamEndCapture", 10000)                 \
    X(cuStreamEndCapture_ptsz, fn_stream_graph, "cuStreamEndCapture", 10000)

#define DURE_HOOKS_GRAPH(X)                                                             \
    X(cuGraphInstantiate, fn_instantiate, "cuGraphInstantiate", 10000)                  \
    X(cuGraphInstantiate_v2, fn_instantiate, "cuGraphInstantiate", 11000)               \
    X(cuGraphInstantiateWithFlags, fn_instantiate_flags, "cuGraphInstantiate", 12000)   \
    X(cuGraphInstantiateWithParams, fn_instantiate_params, "cuGraphInstantiateWithParams", 12000) \
    X(cuGraphInstantiateWithParams_ptsz, fn_instantiate_params, "cuGraphInstantiateWithParams",   \
      12000)                                                                            \
    X(cuGraphExecDestroy, fn_exec, "cuGraphExecDestroy", 10000)                         \
    X(cuGraphExecUpdate, fn_exec_update, "cuGraphExecUpdate", 10020)                    \
    X(cuGraphExecUpdate_v2, fn_exec_update_v2, "cuGraphExecUpdate", 12000)              \
    X(cuGraphExecKernelNodeSetParams, fn_exec_node, "cuGraphExecKernelNodeSetParams", 10010)      \
    X(cuGraphExecKernelNodeSetParams_v2, fn_exec_node, "cuGraphExecKernelNodeSetParams", 12000)   \
    X(cuGraphExecMemcpyNodeSetParams, fn_exec_node_context, "cuGraphExecMemcpyNodeSetParams",     \
      10020)                                                                            \
    X(cuGraphExecMemsetNodeSetParams, fn_exec_node_context, "cuGraphExecMemsetNodeSetParams",     \
      10020)                                                                            \
    X(cuGraphExecHostNodeSetParams, fn_exec_node, "cuGraphExecHostNodeSetParams", 10020)          \
    X(cuGraphExecChildGraphNodeSetParams, fn_exec_node_graph,                           \
      "cuGraphExecChildGraphNodeSetParams", 11010)                                      \
    X(cuGraphExecEventRecordNodeSetEvent, fn_exec_node_event,                           \
      "cuGraphExecEventRecordNodeSetEvent", 11010)                                      \
    X(cuGraphExecEventWaitNodeSetEvent, fn_exec_node_event,                             \
      "cuGraphExecEventWaitNodeSetEvent", 11010)                                        \
    X(cuGraphExecNodeSetParams, fn_exec_node, "cuGraphExecNodeSetParams", 12020)        \
    X(cuGraphNodeSetEnabled, fn_exec_node_number, "cuGraphNodeSetEnabled", 11060)       \
    X(cuGraphUpload, fn_graph_launch, "cuGraphUpload", 11010)                           \
    X(cuGraphUpload_ptsz, fn_graph_launch, "cuGraphUpload", 11010)

#define DURE_HOOKS_MEMORY(X)                                                            \
    X(cuMemAlloc_v2, fn_alloc, "cuMemAlloc", 3020)                                      \
    X(cuMemAllocPitch_v2, fn_alloc_pitch, "cuMemAllocPitch", 3020)                      \
    X(cuMemAllocManaged, fn_alloc_flags, "cuMemAllocManaged", 6000)                     \
    X(cuMemAllocAsync, fn_alloc_async, "cuMemAllocAsync", 11020)                        \
    X(cuMemAllocAsync_ptsz, fn_alloc_async, "cuMemAllocAsync", 11020)                   \
    X(cuMemAllocFromPoolAsync, fn_alloc_pool, "cuMemAllocFromPoolAsync", 11020)         \
    X(cuMemAllocFromPoolAsync_ptsz, fn_alloc_pool, "cuMemAllocFromPoolAsync", 11020)    \
    X(cuMemCreate, fn_create, "cuMemCreate", 10020)                                     \
    X(cuMemRelease, fn_release, "cuMemRelease", 10020)                                  \
    X(cuMemMap, fn_map, "cuMemMap", 10020)                                              \
    X(cuMemUnmap, fn_unmap, "cuMemUnmap", 10020)                                        \
    X(cuMemRetainAllocationHandle, fn_retain_memory, "cuMemRetainAllocationHandle", 11000)        \
    X(cuMemFree_v2, fn_free, "cuMemFree", 3020)                                         \
    X(cuMemFreeAsync, fn_free_async, "cuMemFreeAsync", 11020)                           \
    X(cuMemFreeAsync_ptsz, fn_free_async, "cuMemFreeAsync", 11020)                      \
    X(cuArrayCreate_v2, fn_array, "cuArrayCreate", 3020)                                \
    X(cuArray3DCreate_v2, fn_array_3d, "cuArray3DCreate", 3020)                         \
    X(cuArrayDestroy, fn_array_free, "cuArrayDestroy", 2000)                            \
    X(cuMemGetInfo_v2, fn_sizes, "cuMemGetInfo", 3020)                                  \
    X(cuDeviceTotalMem_v2, fn_size_device, "cuDeviceTotalMem", 3020)

#define DURE_HOOKS_COPY(X)                                                              \
    X(cuMemcpy, fn_copy, "cuMemcpy", 4000)                                              \
    X(cuMemcpy_ptds, fn_copy, "cuMemcpy", 7000)                                         \
    X(cuMemcpyAsync, fn_copy_async, "cuMemcpyAsync", 4000)                              \
    X(cuMemcpyAsync_ptsz, fn_copy_async, "cuMemcpyAsync", 7000)                         \
    X(cuMemcpyHtoD_v2, fn_copy_in, "cuMemcpyHtoD", 3020)                                \
    X(cuMemcpyHtoD_v2_ptds, fn_copy_in, "cuMemcpyHtoD", 7000)                           \
    X(cuMemcpyDtoH_v2, fn_copy_out, "cuMemcpyDtoH", 3020)                               \
    X(cuMemcpyDtoH_v2_ptds, fn_copy_out, "cuMemcpyDtoH", 7000)                          \
    X(cuMemcpyDtoD_v2, fn_copy, "cuMemcpyDtoD", 3020)                                   \
    X(cuMemcpyDtoD_v2_ptds, fn_copy, "cuMemcpyDtoD", 7000)                              \
    X(cuMemcpyHtoDAsync_v2, fn_copy_in_async, "cuMemcpyHtoDAsync", 3020)                \
    X(cuMemcpyHtoDAsync_v2_ptsz, fn_copy_in_async, "cuMemcpyHtoDAsync", 7000)           \
    X(cuMemcpyDtoHAsync_v2, fn_copy_out_async, "cuMemcpyDtoHAsync", 3020)               \
    X(cuMemcpyDtoHAsync_v2_ptsz, fn_copy_out_async, "cuMemcpyDtoHAsync", 7000)          \
    X(cuMemcpyDtoDAsync_v2, fn_copy_async, "cuMemcpyDtoDAsync", 3020)                   \
    X(cuMemcpyDtoDAsync_v2_ptsz, fn_copy_async, "cuMemcpyDtoDAsync", 7000)              \
    X(cuMemcpy2D_v2, fn_copy_2d, "cuMemcpy2D", 3020)                                    \
    X(cuMemcpy2D_v2_ptds, fn_copy_2d, "cuMemcpy2D", 7000)                               \
    X(cuMemcpy2DUnaligned_v2, fn_copy_2d, "cuMemcpy2DUnaligned", 3020)                  \
    X(cuMemcpy2DUnaligned_v2_ptds, fn_copy_2d, "cuMemcpy2DUnaligned", 7000)             \
    X(cuMemcpy2DAsync_v2, fn_copy_2d_async, "cuMemcpy2DAsync", 3020)                    \
    X(cuMemcpy2DAsync_v2_ptsz, fn_copy_2d_async, "cuMemcpy2DAsync", 7000)               \
    X(cuMemcpy3D_v2, fn_copy_3d, "cuMemcpy3D", 3020)                                    \
    X(cuMemcpy3D_v2_ptds, fn_copy_3d, "cuMemcpy3D", 7000)                               \
    X(cuMemcpy3DAsync_v2, fn_copy_3d_async, "cuMemcpy3DAsync", 3020)                    \
    X(cuMemcpy3DAsync_v2_ptsz, fn_copy_3d_async, "cuMemcpy3DAsync", 7000)

/* Hooked for their place in a stream's order alone; all fit in registers, so one shape serves. T(X,
 * symbol, asked, since, index of the stream among the arguments). */
#define DURE_TOUCHED(T, X)                                                              \
    T(X, cuMemsetD8Async, "cuMemsetD8Async", 3020, 3)                                   \
    T(X, cuMemsetD16Async, "cuMemsetD16Async", 3020, 3)                                 \
    T(X, cuMemsetD32Async, "cuMemsetD32Async", 3020, 3)                                 \
    T(X, cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020, 5)                               \
    T(X, cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020, 5)                             \
    T(X, cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020, 5)                             \
    T(X, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, 5)                               \
    T(X, cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000, 1)                           \
    T(X, cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000, 3)                             \
    T(X, cuMemPrefetchAsync_v2, "cuMemPrefetchAsync", 12020, 4)                         \
    T(X, cuStreamAttachMemAsync, "cuStreamAttachMemAsync", 6000, 0)                     \
    T(X, cuStreamWaitValue32, "cuStreamWaitValue32", 8000, 0)                           \
    T(X, cuStreamWaitValue32_v2, "cuStreamWaitValue32", 11070, 0)                       \
    T(X, cuStreamWaitValue64, "cuStreamWaitValue64", 9000, 0)                           \
    T(X, cuStreamWaitValue64_v2, "cuStreamWaitValue64", 11070, 0)                       \
    T(X, cuStreamWriteValue32, "cuStreamWriteValue32", 8000, 0)                         \
    T(X, cuStreamWriteValue32_v2, "cuStreamWriteValue32", 11070, 0)                     \
    T(X, cuStreamWriteValue64, "cuStreamWriteValue64", 9000, 0)                         \
    T(X, cuStreamWriteValue64_v2, "cuStreamWriteValue64", 11070, 0)                     \
    T(X, cuStreamBatchMemOp, "cuStreamBatchMemOp", 8000, 0)                             \
    T(X, cuStreamBatchMemOp_v2, "cuStreamBatchMemOp", 11070, 0)                         \
    T(X, cuSignalExternalSemaphoresAsync, "cuSignalExternalSemaphoresAsync", 10000, 3)  \
    T(X, cuWaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync", 10000, 3)      \
    T(X, cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010, 2)                            \
    T(X, cuGraphicsMapResources, "cuGraphicsMapResources", 3000, 2)                     \
    T(X, cuGraphicsUnmapResources, "cuGraphicsUnmapResources", 3000, 2)                 \
    T(X, cuMemcpyAtoHAsync_v2, "cuMemcpyAtoHAsync", 3020, 4)                            \
    T(X, cuMemcpyHtoAAsync_v2, "cuMemcpyHtoAAsync", 3020, 4)                            \
    T(X, cuMemcpy3DBatchAsync, "cuMemcpy3DBatchAsync", 12080, 4)                        \
    T(X, cuMemcpy3DBatchAsync_v2, "cuMemcpy3DBatchAsync", 13000, 4)

/* On the default stream, whichever that is: S(X, symbol, asked, since). */
#define DURE_TOUCHED_DEFAULT(S, X)                                                      \
    S(X, cuMemsetD8_v2, "cuMemsetD8", 3020)                                             \
    S(X, cuMemsetD16_v2, "cuMemsetD16", 3020)                                           \
    S(X, cuMemsetD32_v2, "cuMemsetD32", 3020)                                           \
    S(X, cuMemsetD2D8_v2, "cuMemsetD2D8", 3020)                                         \
    S(X, cuMemsetD2D16_v2, "cuMemsetD2D16", 3020)                                       \
    S(X, cuMemsetD2D32_v2, "cuMemsetD2D32", 3020)                                       \
    S(X, cuMemcpyPeer, "cuMemcpyPeer", 4000)                                            \
    S(X, cuMemcpy3DPeer, "cuMemcpy3DPeer", 4000)                                        \
    S(X, cuMemcpyAtoH_v2, "cuMemcpyAtoH", 3020)                                         \
    S(X, cuMemcpyHtoA_v2, "cuMemcpyHtoA", 3020)                                         \
    S(X, cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020)                                         \
    S(X, cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020)                                         \
    S(X, cuMemcpyAtoA_v2, "cuMemcpyAtoA", 3020)

/* They wait for whatever still uses what they take away: A(X, symbol, since). */
#define DURE_TOUCHED_ALL(A, X)                                                          \
    A(X, cuModuleUnload, 2000)                                                          \
    A(X, cuLibraryUnload, 12000)                                                        \
    A(X, cuMemFreeHost, 2000)                                                           \
    A(X, cuMemHostUnregister, 4000)

#define DURE_STREAM_VARIANTS(X, symbol, asked, since, index)                            \
    X(symbol, fn_six, asked, since) X(symbol##_ptsz, fn_six, asked, since)
#define DURE_DEFAULT_VARIANTS(X, symbol, asked, since)                                  \
    X(symbol, fn_six, asked, since) X(symbol##_ptds, fn_six, asked, since)
#define DURE_NO_VARIANTS(X, symbol, since) X(symbol, fn_six, #symbol, since)

#define DURE_HOOKS_RESOLVE(X)                                                           \
    X(cuGetProcAddress, fn_proc, "cuGetProcAddress", 11030)                             \
    X(cuGetProcAddress_v2, fn_proc_v2, "cuGetProcAddress", 12000)                       \
    X(cuKernelGetFunction, fn_kernel_function, "cuKernelGetFunction", 12000)            \
    X(cuMemcpyBatchAsync, fn_copy_batch, "cuMemcpyBatchAsync", 12080)                   \
    X(cuMemcpyBatchAsync_ptsz, fn_copy_batch, "cuMemcpyBatchAsync", 12080)              \
    X(cuMemcpyBatchAsync_v2, fn_copy_batch_v2, "cuMemcpyBatchAsync", 13000)             \
    X(cuMemcpyBatchAsync_v2_ptsz, fn_copy_batch_v2, "cuMemcpyBatchAsync", 13000)

#define DURE_HOOKS(X)                                                                   \
    DURE_HOOKS_LAUNCH(X)                                                                \
    DURE_HOOKS_SYNC(X)                                                                  \
    DURE_HOOKS_CAPTURE(X)                                                               \
    DURE_HOOKS_GRAPH(X)                                                                 \
    DURE_HOOKS_MEMORY(X)                                                                \
    DURE_HOOKS_COPY(X)                                                                  \
    DURE_TOUCHED(DURE_STREAM_VARIANTS, X)                                               \
    DURE_TOUCHED_DEFAULT(DURE_DEFAULT_VARIANTS, X)                                      \
    DURE_TOUCHED_ALL(DURE_NO_VARIANTS, X)                                               \
    DURE_HOOKS_RESOLVE(X)

/* U(symbol, shape): called by the shim, never replaced; the first at every launch. */
#define DURE_USED_MOST(U) U(cuCtxGetCurrent, fn_get_context)
#define DURE_USED(U)                                                                    \
    U(cuCtxGetDevice, fn_get_device)                                                    \
    U(cuCtxPushCurrent_v2, fn_context)                                                  \
    U(cuCtxPopCurrent_v2, fn_get_context)                                               \
    U(cuDeviceGetUuid, fn_uuid)                                                         \
    U(cuDeviceGetUuid_v2, fn_uuid)                                                      \
    U(cuDevicePrimaryCtxGetState, fn_primary_state)                                     \
    U(cuMemHostRegister_v2, fn_host_register)                                           \
    U(cuMemHostGetDevicePointer_v2, fn_host_pointer)                                    \
    U(cuEventCreate, fn_event_create)                                                   \
    U(cuEventElapsedTime, fn_elapsed)                                                   \
    U(cuStreamIsCapturing, fn_stream_number)                                            \
    U(cuStreamGetFlags, fn_stream_flags)                                                \
    U(cuStreamGetPriority, fn_stream_number)                                            \
    U(cuThreadExchangeStreamCaptureMode, fn_exchange)                                   \
    U(cuFuncGetName, fn_function_name)                                                  \
    U(cuKernelGetName, fn_function_name)                                                \
    U(cuOccupancyMaxActiveBlocksPerMultiprocessor, fn_occupancy)                        \
    U(cuDeviceGetDevResource, fn_device_resource)                                       \
    U(cuDevSmResourceSplitByCount, fn_split)                                            \
    U(cuDevResourceGenerateDesc, fn_describe)                                           \
    U(cuGreenCtxCreate, fn_green_create)                                                \
    U(cuGreenCtxDestroy, fn_green)                                                      \
    U(cuGreenCtxStreamCreate, fn_green_stream)                                          \
    U(cuCtxFromGreenCtx, fn_green_context)                                              \
    U(cuGraphClone, fn_graph_clone)                                                     \
    U(cuGraphDestroy, fn_graph)                                                         \
    U(cuGraphGetNodes, fn_graph_nodes)                                                  \
    U(cuGraphNodeGetType, fn_node_type)                                                 \
    U(cuGraphNodeGetDependencies, fn_node_nodes)                                        \
    U(cuGraphNodeGetDependentNodes, fn_node_nodes)                                      \
    U(cuGraphAddDependencies, fn_add_edges)                                             \
    U(cuGraphDestroyNode, fn_node)                                                      \
    U(cuGraphKernelNodeCopyAttributes, fn_node_node)                                    \
    U(cuStreamGetCaptureInfo_v2, fn_capture_info)                                       \
    U(cuGraphKernelNodeGetParams_v2, fn_kernel_node_get)                                \
    U(cuGraphKernelNodeSetParams_v2, fn_kernel_node_set)

/* The driver's own functions, found when first needed; NULL where this driver lacks one. */
#define DURE_FIELD_HOOK(symbol, shape, asked, since) shape *symbol;
#define DURE_FIELD_USED(symbol, shape) shape *symbol;
struct dure_real {
    DURE_USED_MOST(DURE_FIELD_USED) /* in one cache line with launches */
    DURE_HOOKS(DURE_FIELD_HOOK)
    DURE_USED(DURE_FIELD_USED)
};
extern struct dure_real dure_real;

/* One number per hook, for the table and the counts. */
#define DURE_NUMBER(symbol, shape, asked, since) HOOK_##symbol,
enum { DURE_HOOKS(DURE_NUMBER) DURE_HOOK_COUNT };
extern uint64_t dure_hits[DURE_HOOK_COUNT];

/* Bodies are named hook_<symbol> and hidden; DURE_EXPORT gives them the driver's name as well, for
 * programs that are linked against libcuda. */
#define DURE_DECLARE(symbol, shape, asked, since) shape hook_##symbol;
DURE_HOOKS(DURE_DECLARE)
#define DURE_EXPORT(symbol)                                                             \
    extern __typeof__(hook_##symbol) symbol                                             \
        __attribute__((alias("hook_" #symbol), visibility("default")))

/* Finds the driver if it is loaded; whether it was found. */
int dure_find_driver(void);

/* First in every hook: makes sure that dure_real is filled, and counts it. */
#define DURE_ENTER(symbol)                                                              \
    do {                                                                                \
        DURE_FIND(symbol);                                                              \
        dure_count_hits(HOOK_##symbol, 1);                                              \
    } while (0)

static inline void dure_count_hits(uint32_t hook, uint64_t more)
{
    uint64_t *hits = &dure_hits[hook];
    __atomic_store_n(hits, __atomic_load_n(hits, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

/* The same without the count, which is one cold line more. */
#define DURE_FIND(symbol)                                                               \
    do {                                                                                \
        if (__builtin_expect(dure_real.symbol == NULL, 0)) {                            \
            if (!dure_find_driver() || dure_real.symbol == NULL)                        \
                return CU_NOT_SUPPORTED;                                                \
        }                                                                               \
    } while (0)

#endif
