/* Devices: handles, names, memory, clocks, power and the rest of what does not change much. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

/* A figure older than this says nothing about now. */
#define WINDOW_STALE_NS 1000000000ull
#define IDLE_MW 75000.0
#define FULL_MW 700000.0
#define IDLE_C 32.0
#define FULL_C 70.0
#define SM_CLOCK_MHZ 1980u
#define MEMORY_CLOCK_MHZ 3201u

static struct nvmlDevice_st handles[EMU_GPUS] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};

static void format_uuid(const struct emu_gpu *gpu, char *to)
{
    int at = sprintf(to, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(to + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      gpu->uuid[i]);
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    const struct emu_state *state;
    nvmlReturn_t result = library_state(&state);
    NEED(count);
    if (result == NVML_SUCCESS)
        *count = state->gpus;
    return result;
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    NEED(device);
    if (index >= EMU_GPUS)
        return NVML_ERROR_INVALID_ARGUMENT;
    DEVICE(&handles[index], gpu);
    (void)gpu;
    *device = &handles[index];
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    const struct emu_state *state;
    nvmlReturn_t result = library_state(&state);
    NEED(device);
    NEED(uuid);
    if (result != NVML_SUCCESS)
        return result;
    for (uint32_t i = 0; i < state->gpus; i++) {
        char name[64];
        format_uuid(&state->gpu[i], name);
        if (strcmp(name, uuid) == 0) {
            *device = &handles[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
    NEED(bus);
    const char *colon = strchr(bus, ':');
    long number = colon != NULL ? strtol(colon + 1, NULL, 16) - 0x10 : -1;
    if (number < 0 || number >= EMU_GPUS)
        return NVML_ERROR_NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2((unsigned int)number, device);
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size)
{
    DEVICE(device, gpu);
    NEED(name);
    if (size <= strlen(gpu->name))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(name, gpu->name);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size)
{
    char text[64];
    DEVICE(device, gpu);
    NEED(uuid);
    format_uuid(gpu, text);
    if (size <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(uuid, text);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(info);
    memset(info, 0, sizeof *info);
    info->bus = 0x10 + device->index;
    info->pciDeviceId = 0x233510de;
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", info->bus);
    snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", info->bus);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    DEVICE(device, gpu);
    NEED(memory);
    *memory = (nvmlMemory_t){gpu->total_bytes, gpu->total_bytes - gpu->used_bytes, gpu->used_bytes};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    DEVICE(device, gpu);
    NEED(memory);
    memory->total = gpu->total_bytes;
    memory->reserved = 0;
    memory->used = gpu->used_bytes;
    memory->free = gpu->total_bytes - gpu->used_bytes;
    return NVML_SUCCESS;
}

static unsigned int busy_percent(const struct emu_gpu *gpu)
{
    return emu_now_ns() - gpu->window_end_ns < WINDOW_STALE_NS ? gpu->window_busy_percent : 0;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    DEVICE(device, gpu);
    NEED(utilization);
    utilization->gpu = busy_percent(gpu);
    utilization->memory = utilization->gpu > 0 ? gpu->window_memory_percent : 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *mw)
{
    DEVICE(device, gpu);
    NEED(mw);
    *mw = (unsigned int)(IDLE_MW + (FULL_MW - IDLE_MW) * busy_percent(gpu) / 100.0);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *mj)
{
    DEVICE(device, gpu);
    NEED(mj);
    double busy_s = (double)gpu->busy_ns / 1e9;
    *mj = (unsigned long long)(IDLE_MW * (double)emu_now_ns() / 1e9 + (FULL_MW - IDLE_MW) * busy_s);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *c)
{
    (void)sensor;
    DEVICE(device, gpu);
    NEED(c);
    *c = (unsigned int)(IDLE_C + (FULL_C - IDLE_C) * busy_percent(gpu) / 100.0);
    return NVML_SUCCESS;
}

/* A figure that is the same for every device. */
#define FIXED(call, type, figure)                                                                 \
    API nvmlReturn_t call(nvmlDevice_t device, type *value)                                       \
    {                                                                                             \
        DEVICE(device, gpu);                                                                      \
        (void)gpu;                                                                                \
        NEED(value);                                                                              \
        *value = (figure);                                                                        \
        return NVML_SUCCESS;                                                                      \
    }
FIXED(nvmlDeviceGetIndex, unsigned int, device->index)
FIXED(nvmlDeviceGetMinorNumber, unsigned int, device->index)
FIXED(nvmlDeviceGetPowerManagementLimit, unsigned int, (unsigned int)FULL_MW)
FIXED(nvmlDeviceGetEnforcedPowerLimit, unsigned int, (unsigned int)FULL_MW)
FIXED(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, (unsigned int)FULL_MW)
FIXED(nvmlDeviceGetComputeMode, unsigned int, 0)
FIXED(nvmlDeviceGetPersistenceMode, unsigned int, 1)
FIXED(nvmlDeviceGetPerformanceState, unsigned int, 0)
FIXED(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 0)
FIXED(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 0)
FIXED(nvmlDeviceGetBrand, unsigned int, 14)
FIXED(nvmlDeviceGetArchitecture, unsigned int, 9)
FIXED(nvmlDeviceGetNumGpuCores, unsigned int, gpu->sms * 128)
FIXED(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, 5)
FIXED(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
FIXED(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, 5)
FIXED(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
FIXED(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)

static unsigned int clock_mhz(int type)
{
    return type == 2 ? MEMORY_CLOCK_MHZ : SM_CLOCK_MHZ;
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(mhz);
    *mhz = clock_mhz(type);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
    return nvmlDeviceGetClockInfo(device, type, mhz);
}

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                      unsigned int *pending)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(current);
    NEED(pending);
    *current = *pending = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(major);
    NEED(minor);
    *major = 9;
    *minor = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                          unsigned int *active)
{
    const struct emu_state *state;
    DEVICE(device, gpu);
    (void)gpu;
    NEED(active);
    if (link >= 18)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = library_state(&state);
    if (result == NVML_SUCCESS)
        *active = state->gpus > 1;
    return result;
}

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current,
                                      unsigned int *pending)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(current);
    NEED(pending);
    *current = *pending = 1;
    return NVML_SUCCESS;
}
