/* Allocates until memory is out, says what it got and what the driver says is left, and holds it.
 * */
#include "gpu.h"

int run_hog(const struct options *o)
{
    size_t free_before = 0, free_after = 0, total = 0;
    uint64_t got_bytes = 0;
    uint64_t chunk = o->chunk_mib << 20;
    gpu_open(o);
    CHECK(cu.cuMemGetInfo_v2(&free_before, &total));
    CUresult result = CUDA_SUCCESS;
    while (chunk >= (1ull << 20)) {
        CUdeviceptr held;
        result = cu.cuMemAlloc_v2(&held, chunk);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            chunk /= 2; /* fill the rest with smaller ones */
            continue;
        }
        CHECK(result);
        got_bytes += chunk;
    }
    CHECK(cu.cuMemGetInfo_v2(&free_after, &total));
    printf(o->json ? "{\"program\": \"hog\", \"got_bytes\": %llu, \"free_before_bytes\": %llu, "
                     "\"free_after_bytes\": %llu, \"total_bytes\": %llu, \"last_result\": %d}\n"
                   : "got %llu bytes of %llu free; %llu of %llu left; last result %d\n",
           (unsigned long long)got_bytes, (unsigned long long)free_before,
           (unsigned long long)free_after, (unsigned long long)total, (int)result);
    fflush(stdout);
    sleep_until_ns(now_ns() + (uint64_t)(o->seconds * 1e9), false);
    return EXIT_FINE;
}

int run_idle(const struct options *o)
{
    gpu_open(o);
    printf("ready\n");
    fflush(stdout);
    sleep_until_ns(now_ns() + (uint64_t)(o->seconds * 1e9), false);
    return EXIT_FINE;
}
