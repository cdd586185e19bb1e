/* Processes on a GPU: which, how much memory, how much of the SMs over time. */
#include "nvml.h"

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                         nvmlProcessInfo_t *infos)
{
    DEVICE(device, gpu);
    NEED(count);
    unsigned int there = __atomic_load_n(&gpu->processes, __ATOMIC_ACQUIRE);
    unsigned int room = *count;
    *count = there;
    if (there == 0)
        return NVML_SUCCESS;
    if (infos == NULL || room < there)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < there; i++)
        infos[i] = (nvmlProcessInfo_t){(unsigned int)gpu->process[i].pid,
                                       gpu->process[i].used_bytes,
                                       0xffffffffu, 0xffffffffu};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                         nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

/* Under MPS the same processes are listed in both places. */
API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                            unsigned int *count,
                                                            nvmlProcessInfo_t *infos)
{
    const struct emu_state *state;
    NEED(count);
    nvmlReturn_t result = library_state(&state);
    if (result != NVML_SUCCESS)
        return result;
    if (state->mps)
        return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
    *count = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                          nvmlProcessInfo_t *infos)
{
    (void)infos;
    DEVICE(device, gpu);
    (void)gpu;
    NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

static unsigned int newer_than(const struct emu_gpu *gpu, uint64_t last_us, int64_t offset_us,
                               nvmlProcessUtilizationSample_t *to, unsigned int room)
{
    uint64_t head = __atomic_load_n(&gpu->sample_head, __ATOMIC_ACQUIRE);
    uint64_t first = head > EMU_SAMPLES - 8 ? head - (EMU_SAMPLES - 8) : 0;
    unsigned int found = 0;
    for (uint64_t i = first; i < head; i++) {
        const struct emu_sample *sample = &gpu->samples[i % EMU_SAMPLES];
        uint64_t stamp_us = (uint64_t)((int64_t)sample->stamp_us + offset_us);
        if (stamp_us <= last_us)
            continue;
        if (to != NULL && found < room)
            to[found] = (nvmlProcessUtilizationSample_t){(unsigned int)sample->pid, stamp_us,
                                                         sample->sm_percent, sample->memory_percent,
                                                         0, 0};
        found++;
    }
    return found;
}

API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                 nvmlProcessUtilizationSample_t *samples,
                                                 unsigned int *count, unsigned long long last_us)
{
    DEVICE(device, gpu);
    NEED(count);
    unsigned int room = samples != NULL ? *count : 0;
    unsigned int found = newer_than(gpu, last_us, wall_offset_us(), samples, room);
    *count = found;
    if (found == 0)
        return NVML_ERROR_NOT_FOUND;
    if (found > room) {
        *count = samples != NULL ? room : found;
        return samples != NULL ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return NVML_SUCCESS;
}
