/* A training loop: steps of many kernels back to back, a synchronisation every few steps. */
#include <stdlib.h>

#include "gpu.h"

#define WORDS 1024u

/* The state after so many kernels, computed here: its order cannot be changed unnoticed. */
static uint64_t expected_sum(uint64_t kernels_done, uint64_t per_step)
{
    uint32_t word = 1;
    for (uint64_t i = 0; i < kernels_done; i++)
        word = chase_word(word, (uint32_t)(i % per_step) + 1);
    return (uint64_t)word * WORDS;
}

static uint64_t device_sum(const struct options *o, CUdeviceptr x, CUdeviceptr out)
{
    uint64_t sum = 0;
    struct options quick = *o;
    quick.work_ns = 1000;
    CHECK(cu.cuMemsetD32Async(out, 0, 2, gpu.stream));
    CUdeviceptr out_x[2] = {out, x};
    launch_sum(&quick, gpu.stream, out_x, WORDS);
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    CHECK(cu.cuMemcpyDtoH_v2(&sum, out, 8));
    return sum;
}

static void step(const struct options *o, CUdeviceptr x, bool moves_bytes)
{
    for (uint64_t i = 0; i < o->kernels; i++) {
        if (moves_bytes)
            launch_spin(o, gpu.stream);
        else
            launch_chase(o, gpu.stream, x, WORDS, (uint32_t)i + 1);
    }
}

int run_train(const struct options *o)
{
    gpu_open(o);
    struct options quick = *o;
    quick.work_ns = 1000;
    CUdeviceptr x = device_words(WORDS);
    CUdeviceptr out = device_words(2);
    launch_fill(&quick, gpu.stream, x, WORDS, 1);
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    bool moves_bytes = o->bytes > 0;
    uint64_t begin = now_ns();
    uint64_t steps = 0;
    while (o->count > 0 ? steps < o->count : (double)(now_ns() - begin) < o->seconds * 1e9) {
        step(o, x, moves_bytes);
        steps++;
        if (o->sync_every > 0 && steps % o->sync_every == 0)
            CHECK(cu.cuStreamSynchronize(gpu.stream));
    }
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    double seconds = (double)(now_ns() - begin) / 1e9;
    uint64_t sum = device_sum(o, x, out);
    uint64_t expected = expected_sum(moves_bytes ? 0 : steps * o->kernels, o->kernels);
    printf(o->json ? "{\"program\": \"train\", \"steps\": %llu, \"seconds\": %.6f, "
                     "\"steps_per_s\": %.4f, \"checksum\": %llu, \"correct\": %s}\n"
                   : "%llu steps, %.3f s, %.2f steps/s, checksum %llu, correct: %s\n",
           (unsigned long long)steps, seconds, (double)steps / seconds, (unsigned long long)sum,
           sum == expected ? "true" : "false");
    return sum == expected ? EXIT_FINE : EXIT_WRONG;
}
