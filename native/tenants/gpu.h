/* What every tenant program shares: the driver through dlopen, kernels, options, clocks, reports.
 * */
#ifndef TENANT_GPU_H
#define TENANT_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../emulator/common/cuda_api.h"

/* Exit codes. */
enum { EXIT_FINE = 0, EXIT_CUDA = 1, EXIT_USAGE = 2, EXIT_WRONG = 3, EXIT_NO_DRIVER = 4 };

/* The driver's calls, found by name: `(since)` is the version cuGetProcAddress is asked for. */
#define DRIVER_CALLS(X)                                                                           \
    X(cuInit, (unsigned int))                                                                     \
    X(cuDriverGetVersion, (int *))                                                                \
    X(cuGetErrorName, (CUresult, const char **))                                                  \
    X(cuDeviceGetCount, (int *))                                                                  \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                               \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                          \
    X(cuCtxSetCurrent, (CUcontext))                                                               \
    X(cuCtxSynchronize, (void))                                                                   \
    X(cuModuleLoadData, (CUmodule *, const void *))                                               \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                     \
    X(cuMemFree_v2, (CUdeviceptr))                                                                \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                      \
    X(cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t, CUstream))                            \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                       \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                             \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                              \
    X(cuMemHostAlloc, (void **, size_t, unsigned int))                                            \
    X(cuStreamCreate, (CUstream *, unsigned int))                                                 \
    X(cuStreamSynchronize, (CUstream))                                                            \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int))                                       \
    X(cuStreamBeginCapture_v2, (CUstream, int))                                                   \
    X(cuStreamEndCapture, (CUstream, CUgraph *))                                                  \
    X(cuEventCreate, (CUevent *, unsigned int))                                                   \
    X(cuEventRecord, (CUevent, CUstream))                                                         \
    X(cuEventSynchronize, (CUevent))                                                              \
    X(cuEventElapsedTime, (float *, CUevent, CUevent))                                            \
    X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,        \
                       unsigned int, unsigned int, unsigned int, CUstream, void **, void **))     \
    X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                  \
    X(cuGraphLaunch, (CUgraphExec, CUstream))

struct driver_calls {
#define X(name, arguments) CUresult(*name) arguments;
    DRIVER_CALLS(X)
#undef X
};
extern struct driver_calls cu;

struct options {
    const char *program;
    double seconds;
    uint64_t count;       /* steps, requests or rounds; 0: by time */
    uint64_t kernels;     /* per step or request */
    uint64_t work_ns;     /* of each kernel */
    uint64_t bytes;       /* each kernel moves */
    uint64_t blocks;
    uint64_t threads;
    uint64_t sync_every;  /* steps */
    double rate;          /* requests a second */
    uint64_t seed;
    uint64_t memory_mib;  /* held beside what the program needs */
    uint64_t chunk_mib;
    uint64_t children;
    uint64_t streams;
    int device;
    bool json;
    bool spin;            /* wait by polling the clock */
    bool legacy;          /* launch on the legacy default stream */
    bool wrong;           /* leave dependencies out: results must come out wrong */
    bool work_given;      /* work_ns was asked for */
    bool report;          /* say request latencies to Dure, where its shim is loaded */
    const char *rate_file; /* holds the present rate; NULL: `rate` throughout */
    const char *save;     /* file of the last checkpoint; NULL: none is made */
    uint64_t size;        /* rows and columns of a matrix; a multiple of 8 */
    uint64_t turns_per_us; /* of the spin loop, if it is known; 0: measured at the start */
    const char *barrier;  /* folder where rounds are released; NULL: start at once */
    uint64_t index;       /* of this member at the barrier */
    const char *how;      /* of crash: kill, abort, segfault, exit, address */
    double after;         /* seconds until a crash */
};

struct gpu {
    CUfunction spin, fill, add, axpy, sum, chase;
    CUstream stream;
    uint64_t iterations_per_us; /* of the spin loop, measured on this device */
    int sms;
};
extern struct gpu gpu;

uint64_t now_ns(void);
void sleep_until_ns(uint64_t when_ns, bool spin);
uint64_t random_next(uint64_t *state);
double random_exponential(uint64_t *state, double mean);

/* Ends the program with EXIT_CUDA and says which call failed. */
void check(CUresult result, const char *call);
#define CHECK(call) check((call), #call)

void gpu_load(void); /* the driver library alone */
void gpu_open(const struct options *options);
void launch_spin(const struct options *o, CUstream stream);
void launch_fill(const struct options *o, CUstream stream, CUdeviceptr x, uint64_t n,
                 uint32_t value);
void launch_add(const struct options *o, CUstream stream, const CUdeviceptr *out_a_b, uint64_t n);
void launch_axpy(const struct options *o, CUstream stream, const CUdeviceptr *y_x, uint64_t n,
                 uint32_t a);
void launch_sum(const struct options *o, CUstream stream, const CUdeviceptr *out_x, uint64_t n);
void launch_chase(const struct options *o, CUstream stream, CUdeviceptr x, uint64_t n,
                  uint32_t addend);
CUdeviceptr device_words(uint64_t words);
uint32_t chase_word(uint32_t word, uint32_t addend);

/* Programs that run in rounds: see rounds.c. Without a barrier nothing waits. */
void wait_for_start(const struct options *o);
int run_rounds(const struct options *o, int (*run)(const struct options *),
               void (*prepare)(const struct options *));

extern const char KERNELS_PTX[];

int run_serve(const struct options *o);
int run_train(const struct options *o);
int run_graph(const struct options *o);
int run_streams(const struct options *o);
int run_order(const struct options *o);
int run_hog(const struct options *o);
int run_crash(const struct options *o);
int run_fork(const struct options *o);
int run_threads(const struct options *o);
int run_idle(const struct options *o);
int run_calibrate(const struct options *o);
int run_matmul(const struct options *o);
void prepare_matmul(const struct options *o);

#endif
