/* Own declarations of the part of NVML that the stand-in answers: numbers and layouts as it has
 * them. */
#ifndef EMU_NVML_H
#define EMU_NVML_H

#include "../common/protocol.h"

#define API __attribute__((visibility("protected")))

typedef int nvmlReturn_t;
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_UNKNOWN = 999,
};

/* A device handle points into a table of these. */
struct nvmlDevice_st {
    unsigned int index;
};
typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

/* The state of a device, brought up to now; what is wrong where there is none. */
nvmlReturn_t device_state(nvmlDevice_t device, const struct emu_gpu **gpu);
nvmlReturn_t library_state(const struct emu_state **state);
/* Wall-clock time, in which NVML stamps samples, minus the broker's clock; in microseconds. */
int64_t wall_offset_us(void);

#define DEVICE(device, gpu)                                                                       \
    const struct emu_gpu *gpu;                                                                    \
    do {                                                                                          \
        nvmlReturn_t found_ = device_state((device), &(gpu));                                     \
        if (found_ != NVML_SUCCESS)                                                               \
            return found_;                                                                        \
    } while (0)
#define NEED(pointer)                                                                             \
    do {                                                                                          \
        if ((pointer) == NULL)                                                                    \
            return NVML_ERROR_INVALID_ARGUMENT;                                                   \
    } while (0)

#endif
