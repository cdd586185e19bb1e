/* Devices: how many, what they are called, what they can do. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

static CUresult check(CUdevice device)
{
    CUresult result = enter_without_lock();
    if (result == CUDA_ERROR_NOT_INITIALIZED)
        return result;
    return device >= 0 && (uint32_t)device < driver.devices ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_DEVICE;
}

static const struct emu_gpu *gpu_of(CUdevice device)
{
    return &driver.state->gpu[driver.device[device]];
}

API CUresult cuDeviceGetCount(int *count)
{
    if (enter_without_lock() == CUDA_ERROR_NOT_INITIALIZED)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)driver.devices;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    TRY(check(ordinal));
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    TRY(check(device));
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", gpu_of(device)->name);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    TRY(check(device));
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, gpu_of(device)->uuid, 16);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    TRY(check(device));
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = gpu_of(device)->total_bytes;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *name, int length, CUdevice device)
{
    TRY(check(device));
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "00000000:%02X:00.0", 0x10 + driver.device[device]);
    return CUDA_SUCCESS;
}

/* Numbers of CUdevice_attribute that programs ask for, and what an H200 answers. */
static const struct {
    int attribute;
    int value;
} ATTRIBUTES[] = {
    {1, 1024},       /* threads per block */
    {2, 1024},       /* block x */
    {3, 1024},       /* block y */
    {4, 64},         /* block z */
    {5, 2147483647}, /* grid x */
    {6, 65535},      /* grid y */
    {7, 65535},      /* grid z */
    {8, 49152},      /* shared memory per block */
    {9, 65536},      /* constant memory */
    {10, 32},        /* warp */
    {12, 65536},     /* registers per block */
    {13, 1980000},   /* clock, kHz */
    {15, 1},         /* overlaps copies and kernels */
    {17, 0},         /* no time-out of kernels */
    {18, 0},         /* not integrated */
    {19, 1},         /* maps host memory */
    {20, 0},         /* compute mode: default */
    {31, 1},         /* concurrent kernels */
    {32, 1},         /* error correction */
    {34, 0},         /* PCI device */
    {36, 3201000},   /* memory clock, kHz */
    {37, 6144},      /* memory bus, bits */
    {38, 62914560},  /* second-level cache */
    {39, 2048},      /* threads per SM */
    {40, 3},         /* copy engines */
    {41, 1},         /* unified addressing */
    {50, 0},         /* PCI domain */
    {75, 9},         /* compute capability */
    {76, 0},
    {78, 1},         /* stream priorities */
    {81, 233472},    /* shared memory per SM */
    {82, 65536},     /* registers per SM */
    {83, 1},         /* managed memory */
    {88, 1},         /* pageable memory access */
    {89, 1},         /* concurrent managed access */
    {90, 1},         /* compute preemption */
    {95, 1},         /* cooperative launch */
    {97, 232448},    /* shared memory per block, opted in */
    {102, 1},        /* virtual memory management */
    {106, 32},       /* blocks per SM */
    {115, 1},        /* memory pools */
    {120, 1},        /* cluster launch */
};

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    TRY(check(device));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    if (attribute == 16)
        *value = (int)gpu_of(device)->sms;
    else if (attribute == 33)
        *value = 0x10 + driver.device[device];
    else
        for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof ATTRIBUTES[0]; i++)
            if (ATTRIBUTES[i].attribute == attribute)
                *value = ATTRIBUTES[i].value;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    TRY(check(device));
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    TRY(check(device));
    TRY(check(peer));
    *can = device != peer;
    return CUDA_SUCCESS;
}
