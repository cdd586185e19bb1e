/* A stream and the legacy stream, which are in order with each other without events, and no wait
 * before the end: a program the shim sees nothing of but launches. With --wrong the stream does not
 * wait for the legacy one, and the result must show it. */
#include "gpu.h"

#define WORDS 256u
#define BEFORE 4 /* launches on the stream before each on the legacy one */

int run_order(const struct options *o)
{
    CUstream stream;
    uint32_t out[WORDS];
    uint32_t word = 1, step = 0;
    gpu_open(o);
    CHECK(cu.cuStreamCreate(&stream, o->wrong ? CU_STREAM_NON_BLOCKING : 0));
    CUdeviceptr x = device_words(WORDS);
    launch_fill(o, NULL, x, WORDS, word);
    uint64_t begin = now_ns();
    while (o->count > 0 ? step < o->count : (double)(now_ns() - begin) < o->seconds * 1e9) {
        step++;
        launch_chase(o, step % (BEFORE + 1) == 0 ? NULL : stream, x, WORDS, step);
        word = chase_word(word, step);
    }
    CHECK(cu.cuCtxSynchronize());
    CHECK(cu.cuMemcpyDtoH_v2(out, x, sizeof out));
    bool right = out[0] == word && out[WORDS - 1] == word;
    printf(o->json ? "{\"program\": \"order\", \"launches\": %llu, \"correct\": %s}\n"
                   : "%llu launches, correct: %s\n",
           (unsigned long long)step, right ? "true" : "false");
    return right ? EXIT_FINE : EXIT_WRONG;
}
