/* An inference server: requests arrive at random moments fixed by the seed, each some kernels. How
 * many come may change while it runs: a file can hold the rate. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define WORDS 256u
#define MOST_REQUESTS 1000000u
#define LOOK_NS 100000000.0 /* between two looks at the file of the rate */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_ms(const uint64_t *sorted, uint64_t count, double share)
{
    if (count == 0)
        return 0;
    uint64_t index = (uint64_t)(share * (double)count);
    return (double)sorted[index < count ? index : count - 1] / 1e6;
}

static void print(const struct options *o, uint64_t *latencies, uint64_t count, uint64_t errors,
                  double seconds)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += (double)latencies[i];
    qsort(latencies, count, sizeof *latencies, by_value);
    double mean = count > 0 ? sum / (double)count / 1e6 : 0;
    const char *format =
        o->json ? "{\"program\": \"serve\", \"requests\": %llu, \"errors\": %llu, "
                  "\"seconds\": %.6f, \"requests_per_s\": %.3f, \"mean_ms\": %.4f, "
                  "\"p50_ms\": %.4f, \"p95_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f}\n"
                : "%llu requests, %llu wrong, %.3f s, %.1f/s, "
                  "latency ms: mean %.3f p50 %.3f p95 %.3f p99 %.3f max %.3f\n";
    printf(format, (unsigned long long)count, (unsigned long long)errors, seconds,
           (double)count / seconds, mean, percentile_ms(latencies, count, 0.50),
           percentile_ms(latencies, count, 0.95), percentile_ms(latencies, count, 0.99),
           percentile_ms(latencies, count, 1.0));
}

/* One request: a value goes in, the kernels work on it one after another, and it comes out. */
static bool serve_one(const struct options *o, CUdeviceptr x, uint32_t *out, uint32_t number)
{
    struct options quick = *o;
    uint32_t expected = number;
    quick.work_ns = 1000;
    launch_fill(&quick, gpu.stream, x, WORDS, number);
    for (uint64_t i = 0; i < o->kernels; i++) {
        if (o->bytes > 0) {
            launch_spin(o, gpu.stream);
        } else {
            launch_chase(o, gpu.stream, x, WORDS, (uint32_t)i);
            expected = chase_word(expected, (uint32_t)i);
        }
    }
    CHECK(cu.cuMemcpyDtoHAsync_v2(out, x, 4 * WORDS, gpu.stream));
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    return out[0] == expected && out[WORDS - 1] == expected;
}

/* Requests a second from here on; what a file does not say stays as it was. */
static double rate_at(const struct options *o, double at_ns, double rate)
{
    static double looked_ns;
    if (o->rate_file == NULL || at_ns - looked_ns < LOOK_NS)
        return rate;
    looked_ns = at_ns;
    double found = 0;
    FILE *file = fopen(o->rate_file, "re");
    if (file == NULL)
        return rate;
    int read = fscanf(file, "%lf", &found);
    fclose(file);
    return read == 1 && found > 0 ? found : rate;
}

int run_serve(const struct options *o)
{
    void (*report)(uint64_t) = NULL;
    if (o->report)
        *(void **)&report = dlsym(RTLD_DEFAULT, "dure_report_latency_ns");
    gpu_open(o);
    CUdeviceptr x = device_words(WORDS);
    void *out = NULL;
    CHECK(cu.cuMemHostAlloc(&out, 4 * WORDS, 0));
    uint64_t *latencies = malloc(MOST_REQUESTS * sizeof *latencies);
    uint64_t random = o->seed;
    uint64_t count = 0;
    uint64_t errors = 0;
    serve_one(o, x, out, 1); /* the first one pays for set-up */
    uint64_t begin = now_ns();
    double arrival = (double)begin;
    double rate = o->rate;
    while (count < MOST_REQUESTS) {
        rate = rate_at(o, arrival, rate);
        arrival += random_exponential(&random, 1e9 / rate);
        if (o->count > 0 ? count >= o->count : arrival - (double)begin > o->seconds * 1e9)
            break;
        sleep_until_ns((uint64_t)arrival, o->spin);
        errors += !serve_one(o, x, out, (uint32_t)count + 2);
        latencies[count] = now_ns() - (uint64_t)arrival;
        if (report != NULL)
            report(latencies[count]);
        count++;
    }
    print(o, latencies, count, errors, (double)(now_ns() - begin) / 1e9);
    free(latencies);
    return errors > 0 ? EXIT_WRONG : EXIT_FINE;
}
