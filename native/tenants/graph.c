/* A captured graph with two branches, replayed; its result depends on every edge. */
#include <stdlib.h>

#include "gpu.h"

#define WORDS 512u

struct buffers {
    CUdeviceptr x, y, out;
};

/* x steps on; beside it y is made new; then both come together. `wrong` leaves the join out, which
 * a capture refuses, so there the branches share no stream and the add comes too early. */
static CUgraph capture(const struct options *o, const struct buffers *b)
{
    CUstream side;
    CUevent forked, joined;
    CUgraph graph;
    struct options slow = *o;
    slow.work_ns = 4 * o->work_ns;
    CHECK(cu.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cu.cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cu.cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cu.cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (uint64_t i = 0; i + 3 < o->kernels; i++)
        launch_chase(o, gpu.stream, b->x, WORDS, (uint32_t)i);
    CHECK(cu.cuEventRecord(forked, gpu.stream));
    CHECK(cu.cuStreamWaitEvent(side, forked, 0));
    launch_chase(&slow, side, b->y, WORDS, 7);
    launch_chase(o, gpu.stream, b->x, WORDS, 5);
    CUdeviceptr sum[3] = {b->out, b->x, b->y};
    if (o->wrong)
        launch_add(o, gpu.stream, sum, WORDS);
    CHECK(cu.cuEventRecord(joined, side));
    CHECK(cu.cuStreamWaitEvent(gpu.stream, joined, 0));
    if (!o->wrong)
        launch_add(o, gpu.stream, sum, WORDS);
    else
        launch_chase(o, gpu.stream, b->x, 0, 0);
    CHECK(cu.cuStreamEndCapture(gpu.stream, &graph));
    return graph;
}

int run_graph(const struct options *o)
{
    gpu_open(o);
    struct buffers b = {device_words(WORDS), device_words(WORDS), device_words(WORDS)};
    uint32_t x = 1, y = 2, out[WORDS];
    uint64_t replays = 0, errors = 0;
    CUgraphExec exec;
    launch_fill(o, gpu.stream, b.x, WORDS, x);
    launch_fill(o, gpu.stream, b.y, WORDS, y);
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    CHECK(cu.cuGraphInstantiateWithFlags(&exec, capture(o, &b), 0));
    uint64_t begin = now_ns();
    while (o->count > 0 ? replays < o->count : (double)(now_ns() - begin) < o->seconds * 1e9) {
        CHECK(cu.cuGraphLaunch(exec, gpu.stream));
        CHECK(cu.cuStreamSynchronize(gpu.stream));
        for (uint64_t i = 0; i + 3 < o->kernels; i++)
            x = chase_word(x, (uint32_t)i);
        x = chase_word(x, 5);
        y = chase_word(y, 7);
        replays++;
        CHECK(cu.cuMemcpyDtoH_v2(out, b.out, sizeof out));
        errors += out[0] != x + y || out[WORDS - 1] != x + y;
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    printf(o->json
           ? "{\"program\": \"graph\", \"replays\": %llu, \"errors\": %llu, \"seconds\": %.6f, "
                     "\"replays_per_s\": %.4f, \"checksum\": %u}\n"
                   : "%llu replays, %llu wrong, %.3f s, %.2f replays/s, checksum %u\n",
           (unsigned long long)replays, (unsigned long long)errors, seconds,
           (double)replays / seconds, out[0]);
    return errors > 0 ? EXIT_WRONG : EXIT_FINE;
}
