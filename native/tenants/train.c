/* A training loop: steps of many kernels back to back, a synchronisation every few steps.
 *
 * With --save FILE it resumes from that file, and saves there when a number stands in
 * $DURE_CONTROL/checkpoint: then it answers in checkpoint-done and waits for its end, since what it
 * did from there on would be done again. */
#include <stdlib.h>

#include "gpu.h"

#define WORDS 1024u
#define PATH 4096

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

/* Replace a file in one step, so that nobody reads a half. */
static bool put(const char *path, const char *text)
{
    char draft[PATH + 8];
    snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *file = fopen(draft, "we");
    if (file == NULL)
        return false;
    bool written = fputs(text, file) >= 0;
    return (fclose(file) == 0) & written && rename(draft, path) == 0;
}

/* The number in a file of the folder DURE_CONTROL; 0: there is none. */
static unsigned long long asked(char *path, const char *name)
{
    const char *folder = getenv("DURE_CONTROL");
    unsigned long long number = 0;
    if (folder == NULL)
        return 0;
    snprintf(path, PATH, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

/* Save where it stands if that is asked for; ends only by a signal then, or when it is called off. */
static void save_if_asked(const struct options *o, uint64_t steps, CUdeviceptr x)
{
    char wanted[PATH], answer[PATH], text[64];
    uint32_t word = 0;
    unsigned long long number = asked(wanted, "checkpoint");
    if (number == 0 || asked(answer, "checkpoint-done") >= number)
        return;
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    CHECK(cu.cuMemcpyDtoH_v2(&word, x, sizeof word));
    snprintf(text, sizeof text, "%llu %u\n", (unsigned long long)steps, word);
    if (!put(o->save, text))
        return;
    printf("saved at step %llu\n", (unsigned long long)steps);
    fflush(stdout);
    snprintf(text, sizeof text, "%llu\n", number);
    if (put(answer, text))
        while (asked(wanted, "checkpoint") == number)
            sleep_until_ns(now_ns() + 50000000ull, false);
}

/* Steps that an earlier run saved, and the state it left. */
static uint64_t resume(const struct options *o, uint32_t *word)
{
    unsigned long long steps = 0;
    FILE *file = o->save != NULL ? fopen(o->save, "re") : NULL;
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %u", &steps, word) != 2)
        steps = 0;
    fclose(file);
    if (steps > 0) {
        printf("resumed at step %llu\n", steps);
        fflush(stdout);
    }
    return steps;
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
    uint32_t word = 1;
    uint64_t steps = resume(o, &word);
    launch_fill(&quick, gpu.stream, x, WORDS, steps > 0 ? word : 1);
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    bool moves_bytes = o->bytes > 0;
    uint64_t begin = now_ns();
    while (o->count > 0 ? steps < o->count : (double)(now_ns() - begin) < o->seconds * 1e9) {
        step(o, x, moves_bytes);
        steps++;
        if (o->sync_every > 0 && steps % o->sync_every == 0)
            CHECK(cu.cuStreamSynchronize(gpu.stream));
        if (o->save != NULL)
            save_if_asked(o, steps, x);
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
