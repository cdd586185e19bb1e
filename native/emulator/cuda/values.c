/* Waiting for a word in memory, and writing one, in a stream's order.
 *
 * The broker looks at the word in this process's memory itself, so it may lie in registered memory
 * that other processes write.
 */
#include <sys/prctl.h>

#include "driver.h"

#define REGISTERED 64
#define FLAGS_KNOWN 7u /* how to compare */

static struct {
    uint64_t start, bytes;
} registered[REGISTERED];

static CUresult note(uint64_t start, uint64_t bytes)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    lock_driver();
    for (int index = 0; index < REGISTERED && result != CUDA_SUCCESS; index++) {
        if (registered[index].bytes != 0)
            continue;
        registered[index].start = start;
        registered[index].bytes = bytes;
        result = CUDA_SUCCESS;
    }
    unlock_driver();
    return result;
}

static bool is_registered(uint64_t address)
{
    bool found = false;
    lock_driver();
    for (int index = 0; index < REGISTERED; index++)
        found |= address - registered[index].start < registered[index].bytes;
    unlock_driver();
    return found;
}

/* Registered memory stays where it is: copies to it are as with pageable memory. */
API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    (void)flags;
    ENTER();
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_registered((uint64_t)pointer))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return note((uint64_t)pointer, bytes);
}

API CUresult cuMemHostUnregister(void *pointer)
{
    ENTER();
    CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    lock_driver();
    for (int index = 0; index < REGISTERED; index++) {
        if (registered[index].bytes == 0 || registered[index].start != (uint64_t)pointer)
            continue;
        registered[index].bytes = 0;
        result = CUDA_SUCCESS;
    }
    unlock_driver();
    return result;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags)
{
    (void)flags;
    ENTER();
    if (!arena_holds((uint64_t)host) && !is_registered((uint64_t)host))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (uint64_t)host;
    return CUDA_SUCCESS;
}

static CUresult value(CUstream name, bool per_thread, struct emu_command command)
{
    struct CUstream_st *stream;
    uint64_t address = command.args[0];
    ENTER();
    if (address % sizeof(uint32_t) != 0 || (!arena_holds(address) && !is_registered(address)))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(resolve_stream(name, per_thread, &stream));
    if (stream->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    prctl(PR_SET_PTRACER, (unsigned long)driver.state->broker_pid, 0, 0, 0);
    lock_driver();
    submit(stream, &command);
    unlock_driver();
    return CUDA_SUCCESS;
}

#define WAIT(name, per_thread)                                                                    \
    API CUresult name(CUstream stream, CUdeviceptr address, uint32_t wanted, unsigned int flags)  \
    {                                                                                             \
        if ((flags & FLAGS_KNOWN) > EMU_VALUE_NOR)                                                \
            return CUDA_ERROR_INVALID_VALUE;                                                      \
        return value(stream, per_thread,                                                          \
                     (struct emu_command){.op = EMU_OP_WAIT_VALUE,                                \
                                          .args = {address, wanted, flags & FLAGS_KNOWN}});       \
    }
WAIT(cuStreamWaitValue32, false)
WAIT(cuStreamWaitValue32_ptsz, true)
WAIT(cuStreamWaitValue32_v2, false)
WAIT(cuStreamWaitValue32_v2_ptsz, true)

#define WRITE(name, per_thread)                                                                   \
    API CUresult name(CUstream stream, CUdeviceptr address, uint32_t written, unsigned int flags) \
    {                                                                                             \
        (void)flags;                                                                              \
        return value(stream, per_thread,                                                          \
                     (struct emu_command){.op = EMU_OP_WRITE_VALUE, .args = {address, written}}); \
    }
WRITE(cuStreamWriteValue32, false)
WRITE(cuStreamWriteValue32_ptsz, true)
WRITE(cuStreamWriteValue32_v2, false)
WRITE(cuStreamWriteValue32_v2_ptsz, true)
