/* Streams in a chain: each waits by event for the one before it, across many rounds. With --wrong
 * the waits are left out, and the result must show it. */
#include <pthread.h>
#include <stdlib.h>

#include "gpu.h"

#define WORDS 256u
#define MOST_STREAMS 32u

/* One round: stream i turns buffer i - 1 into buffer i; slow ones first, so order matters. */
static void play_round(const struct options *o, const CUstream *streams, const CUevent *events,
                       const CUdeviceptr *buffers, uint32_t round)
{
    uint64_t count = o->streams;
    launch_fill(o, streams[0], buffers[0], WORDS, round);
    CHECK(cu.cuEventRecord(events[0], streams[0]));
    for (uint64_t i = 1; i < count; i++) {
        struct options now = *o;
        now.work_ns = o->work_ns / (i + 1);
        if (!o->wrong)
            CHECK(cu.cuStreamWaitEvent(streams[i], events[i - 1], 0));
        CUdeviceptr sum[3] = {buffers[i], buffers[i - 1], buffers[i - 1]};
        launch_add(&now, streams[i], sum, WORDS);
        launch_chase(&now, streams[i], buffers[i], WORDS, (uint32_t)i);
        CHECK(cu.cuEventRecord(events[i], streams[i]));
    }
    if (!o->wrong)
        CHECK(cu.cuStreamWaitEvent(streams[0], events[count - 1], 0));
}

static uint32_t expected(uint64_t count, uint32_t round)
{
    uint32_t word = round;
    for (uint64_t i = 1; i < count; i++)
        word = chase_word(word + word, (uint32_t)i);
    return word;
}

int run_streams(const struct options *o)
{
    CUstream streams[MOST_STREAMS];
    CUevent events[MOST_STREAMS];
    CUdeviceptr buffers[MOST_STREAMS];
    uint32_t out[WORDS];
    uint64_t rounds = 0, errors = 0;
    if (o->streams < 2 || o->streams > MOST_STREAMS)
        return EXIT_USAGE;
    gpu_open(o);
    for (uint64_t i = 0; i < o->streams; i++) {
        CHECK(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CHECK(cu.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        buffers[i] = device_words(WORDS);
    }
    uint64_t begin = now_ns();
    while (o->count > 0 ? rounds < o->count : (double)(now_ns() - begin) < o->seconds * 1e9) {
        uint32_t round = (uint32_t)++rounds;
        play_round(o, streams, events, buffers, round);
        CHECK(cu.cuCtxSynchronize());
        CHECK(cu.cuMemcpyDtoH_v2(out, buffers[o->streams - 1], sizeof out));
        errors += out[0] != expected(o->streams, round);
    }
    printf(o->json ? "{\"program\": \"streams\", \"rounds\": %llu, \"errors\": %llu}\n"
                   : "%llu rounds, %llu wrong\n",
           (unsigned long long)rounds, (unsigned long long)errors);
    return errors > 0 ? EXIT_WRONG : EXIT_FINE;
}

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    const struct options *o;
    CUcontext context;
    uint32_t number;
    bool right;
};

static CUcontext shared_context(int device)
{
    CUcontext context;
    CHECK(cu.cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

static void *work(void *data)
{
    struct worker *worker = data;
    CUstream stream;
    uint32_t out[WORDS];
    uint32_t word = worker->number;
    uint64_t steps = worker->o->count > 0 ? worker->o->count : 50;
    CHECK(cu.cuCtxSetCurrent(worker->context));
    CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr x = device_words(WORDS);
    launch_fill(worker->o, stream, x, WORDS, word);
    for (uint64_t i = 0; i < steps; i++) {
        launch_chase(worker->o, stream, x, WORDS, (uint32_t)i);
        word = chase_word(word, (uint32_t)i);
        if (i % 8 == 7)
            CHECK(cu.cuStreamSynchronize(stream));
    }
    CHECK(cu.cuStreamSynchronize(stream));
    CHECK(cu.cuMemcpyDtoH_v2(out, x, sizeof out));
    worker->right = out[0] == word && out[WORDS - 1] == word;
    return NULL;
}

int run_threads(const struct options *o)
{
    pthread_t threads[MOST_STREAMS];
    struct worker workers[MOST_STREAMS];
    uint64_t errors = 0;
    if (o->streams < 1 || o->streams > MOST_STREAMS)
        return EXIT_USAGE;
    gpu_open(o);
    for (uint64_t i = 0; i < o->streams; i++) {
        workers[i] = (struct worker){o, shared_context(o->device), (uint32_t)i + 1, false};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            return EXIT_USAGE;
    }
    for (uint64_t i = 0; i < o->streams; i++) {
        pthread_join(threads[i], NULL);
        errors += !workers[i].right;
    }
    printf(o->json ? "{\"program\": \"threads\", \"threads\": %llu, \"errors\": %llu}\n"
                   : "%llu threads, %llu wrong\n",
           (unsigned long long)o->streams, (unsigned long long)errors);
    return errors > 0 ? EXIT_WRONG : EXIT_FINE;
}
