/* Copies of rectangles, row by row, and between devices. */
#include "driver.h"

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 };

typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "as the driver has it");

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);

static CUresult copy_rows(const CUDA_MEMCPY2D *c, CUstream stream, bool per_thread)
{
    if (c == NULL || c->srcMemoryType == MEMORY_ARRAY || c->dstMemoryType == MEMORY_ARRAY)
        return c == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    uint64_t from = c->srcMemoryType == MEMORY_HOST ? (uint64_t)c->srcHost : c->srcDevice;
    uint64_t to = c->dstMemoryType == MEMORY_HOST ? (uint64_t)c->dstHost : c->dstDevice;
    from += c->srcY * c->srcPitch + c->srcXInBytes;
    to += c->dstY * c->dstPitch + c->dstXInBytes;
    size_t rows = c->Height;
    size_t width = c->WidthInBytes;
    if (c->srcPitch == width && c->dstPitch == width) { /* nothing between the rows: one copy */
        width *= rows;
        rows = rows > 0;
    }
    for (size_t row = 0; row < rows; row++) {
        uint64_t there = to + row * c->dstPitch;
        uint64_t here = from + row * c->srcPitch;
        TRY(per_thread ? cuMemcpyAsync_ptsz(there, here, width, stream)
                       : cuMemcpyAsync(there, here, width, stream));
    }
    return CUDA_SUCCESS;
}

API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_rows(copy, stream, false);
}

API CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_rows(copy, stream, true);
}

API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    TRY(copy_rows(copy, NULL, false));
    return cuStreamSynchronize(NULL);
}

API CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
    TRY(copy_rows(copy, NULL, true));
    return cuStreamSynchronize_ptsz(NULL);
}

API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return cuMemcpy2D_v2(copy);
}

API CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
    return cuMemcpy2D_v2_ptds(copy);
}

/* All devices of a process share one arena, so a copy between them is like any other. */
API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                               size_t bytes, CUstream stream)
{
    (void)there;
    (void)here;
    return cuMemcpyAsync(to, from, bytes, stream);
}

API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                          size_t bytes)
{
    TRY(cuMemcpyPeerAsync(to, there, from, here, bytes, NULL));
    return cuStreamSynchronize(NULL);
}

API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER();
    return peer != NULL && flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
