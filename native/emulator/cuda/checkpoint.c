/* Locking and checkpointing a process by its number, from any process. */
#include "driver.h"

API CUresult cuInit(unsigned int flags);

/* Works before cuInit, and for a caller that is locked itself. */
static CUresult move(uint32_t kind, int pid, int *state)
{
    struct emu_answer answer = {0};
    if (driver.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!driver.started)
        TRY(cuInit(0));
    CUresult result = ask((struct emu_request){.kind = kind, .pid = pid}, &answer);
    if (state != NULL)
        *state = (int)answer.value;
    return result;
}

API CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    (void)args; /* the lock takes effect at once, so no time-out can pass */
    return move(EMU_LOCK, pid, NULL);
}

API CUresult cuCheckpointProcessUnlock(int pid, void *args)
{
    (void)args;
    return move(EMU_UNLOCK, pid, NULL);
}

API CUresult cuCheckpointProcessCheckpoint(int pid, void *args)
{
    (void)args;
    return move(EMU_CHECKPOINT, pid, NULL);
}

API CUresult cuCheckpointProcessRestore(int pid, void *args)
{
    (void)args;
    return move(EMU_RESTORE, pid, NULL);
}

API CUresult cuCheckpointProcessGetState(int pid, int *state)
{
    return state != NULL ? move(EMU_GET_STATE, pid, state) : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *thread)
{
    if (thread == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *thread = pid;
    return move(EMU_GET_STATE, pid, NULL);
}
