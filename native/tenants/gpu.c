/* The driver through dlopen, the kernels loaded, launches of each. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu.h"

struct driver_calls cu;
struct gpu gpu;

#define CALIBRATION_ITERATIONS 100000ull
#define CALIBRATION_NS 1000000ull

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void sleep_until_ns(uint64_t when_ns, bool spin)
{
    if (spin) {
        while (now_ns() < when_ns)
            continue;
        return;
    }
    struct timespec when = {(time_t)(when_ns / 1000000000ull), (long)(when_ns % 1000000000ull)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0)
        continue;
}

/* splitmix64: the same arrivals for the same seed everywhere. */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

double random_exponential(uint64_t *state, double mean)
{
    double uniform = ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
    return -mean * log(uniform);
}

void check(CUresult result, const char *call)
{
    const char *name = NULL;
    if (result == CUDA_SUCCESS)
        return;
    if (cu.cuGetErrorName != NULL)
        cu.cuGetErrorName(result, &name);
    char shown[40];
    size_t length = strcspn(call, "(");
    snprintf(shown, sizeof shown, "%.*s", (int)(length < 39 ? length : 39), call);
    fprintf(stderr, "dure-tenant: %s failed: %s (%d)\n", shown, name != NULL ? name : "?",
            (int)result);
    fflush(stdout);
    exit(EXIT_CUDA);
}

void gpu_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "dure-tenant: no CUDA driver: %s\n", dlerror());
        exit(EXIT_NO_DRIVER);
    }
#define X(name, arguments)                                                                        \
    cu.name = (CUresult(*) arguments)dlsym(library, #name);                                       \
    if (cu.name == NULL) {                                                                        \
        fprintf(stderr, "dure-tenant: the driver has no %s\n", #name);                            \
        exit(EXIT_NO_DRIVER);                                                                     \
    }
    DRIVER_CALLS(X)
#undef X
}

static void launch(CUfunction f, const struct options *o, CUstream stream, void **params)
{
    CHECK(cu.cuLaunchKernel(f, (unsigned)o->blocks, 1, 1, (unsigned)o->threads, 1, 1, 0, stream,
                            params,
                            NULL));
}

static uint64_t iterations(const struct options *o)
{
    return o->work_ns * gpu.iterations_per_us / 1000;
}

void launch_spin(const struct options *o, CUstream stream)
{
    uint64_t work = o->work_ns;
    uint64_t bytes = o->bytes;
    uint64_t turns = iterations(o);
    void *params[] = {&work, &bytes, &turns};
    launch(gpu.spin, o, stream, params);
}

void launch_fill(const struct options *o, CUstream stream, CUdeviceptr x, uint64_t n,
                 uint32_t value)
{
    uint64_t work = o->work_ns;
    uint64_t turns = iterations(o);
    void *params[] = {&x, &n, &value, &work, &turns};
    launch(gpu.fill, o, stream, params);
}

void launch_add(const struct options *o, CUstream stream, const CUdeviceptr *out_a_b, uint64_t n)
{
    uint64_t work = o->work_ns;
    uint64_t turns = iterations(o);
    CUdeviceptr p[3] = {out_a_b[0], out_a_b[1], out_a_b[2]};
    void *params[] = {&p[0], &p[1], &p[2], &n, &work, &turns};
    launch(gpu.add, o, stream, params);
}

void launch_axpy(const struct options *o, CUstream stream, const CUdeviceptr *y_x, uint64_t n,
                 uint32_t a)
{
    uint64_t work = o->work_ns;
    uint64_t turns = iterations(o);
    CUdeviceptr p[2] = {y_x[0], y_x[1]};
    void *params[] = {&p[0], &p[1], &n, &a, &work, &turns};
    launch(gpu.axpy, o, stream, params);
}

void launch_sum(const struct options *o, CUstream stream, const CUdeviceptr *out_x, uint64_t n)
{
    uint64_t work = o->work_ns;
    uint64_t turns = iterations(o);
    CUdeviceptr p[2] = {out_x[0], out_x[1]};
    void *params[] = {&p[0], &p[1], &n, &work, &turns};
    launch(gpu.sum, o, stream, params);
}

void launch_chase(const struct options *o, CUstream stream, CUdeviceptr x, uint64_t n,
                  uint32_t addend)
{
    uint64_t work = o->work_ns;
    uint64_t turns = iterations(o);
    void *params[] = {&x, &n, &addend, &work, &turns};
    launch(gpu.chase, o, stream, params);
}

CUdeviceptr device_words(uint64_t words)
{
    CUdeviceptr made = 0;
    CHECK(cu.cuMemAlloc_v2(&made, 4 * words));
    return made;
}

uint32_t chase_word(uint32_t word, uint32_t addend)
{
    return word * 1664525u + addend;
}

/* How many turns of the spin loop a kernel of this grid makes in a microsecond: the best of five, as
 * others may use the device meanwhile. The emulator goes by the stated time and does not care. */
static void calibrate(uint64_t blocks, uint64_t threads)
{
    CUevent begin, end;
    float best_ms = 0;
    struct options o = {.work_ns = CALIBRATION_NS, .blocks = blocks, .threads = threads};
    CHECK(cu.cuEventCreate(&begin, 0));
    CHECK(cu.cuEventCreate(&end, 0));
    gpu.iterations_per_us = CALIBRATION_ITERATIONS * 1000 / CALIBRATION_NS;
    for (int i = 0; i < 5; i++) {
        float ms;
        CHECK(cu.cuEventRecord(begin, gpu.stream));
        launch_spin(&o, gpu.stream);
        CHECK(cu.cuEventRecord(end, gpu.stream));
        CHECK(cu.cuEventSynchronize(end));
        CHECK(cu.cuEventElapsedTime(&ms, begin, end));
        best_ms = i == 0 || ms < best_ms ? ms : best_ms;
    }
    gpu.iterations_per_us = (uint64_t)((double)CALIBRATION_ITERATIONS / (1000.0 * best_ms) + 0.5);
}

void gpu_open(const struct options *options)
{
    CUcontext context;
    CUmodule module;
    gpu_load();
    CHECK(cu.cuInit(0));
    CHECK(cu.cuDevicePrimaryCtxRetain(&context, options->device));
    CHECK(cu.cuCtxSetCurrent(context));
    CHECK(cu.cuDeviceGetAttribute(&gpu.sms, 16, options->device));
    CHECK(cu.cuModuleLoadData(&module, KERNELS_PTX));
    CHECK(cu.cuModuleGetFunction(&gpu.spin, module, "dure_spin"));
    CHECK(cu.cuModuleGetFunction(&gpu.fill, module, "dure_fill"));
    CHECK(cu.cuModuleGetFunction(&gpu.add, module, "dure_add"));
    CHECK(cu.cuModuleGetFunction(&gpu.axpy, module, "dure_axpy"));
    CHECK(cu.cuModuleGetFunction(&gpu.sum, module, "dure_sum"));
    CHECK(cu.cuModuleGetFunction(&gpu.chase, module, "dure_chase"));
    if (options->legacy)
        gpu.stream = NULL;
    else
        CHECK(cu.cuStreamCreate(&gpu.stream, 0));
    if (options->turns_per_us > 0)
        gpu.iterations_per_us = options->turns_per_us;
    else
        calibrate(1, 32);
    if (options->memory_mib > 0) {
        CUdeviceptr held;
        CHECK(cu.cuMemAlloc_v2(&held, options->memory_mib << 20));
    }
}

/* For programs that start while others compute: measure once alone, then pass it on. With the grid
 * they will have, as warps that share an SM take several times as long for each turn. */
int run_calibrate(const struct options *o)
{
    gpu_open(o);
    calibrate(o->blocks, o->threads);
    printf(o->json ? "{\"program\": \"calibrate\", \"turns_per_us\": %llu}\n"
                   : "%llu turns/us\n",
           (unsigned long long)gpu.iterations_per_us);
    return EXIT_FINE;
}
