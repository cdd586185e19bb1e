/* dure-tenant: programs that use a GPU as tenants do, on the emulator and on a real driver alike.
 * */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define MOST_SIZE 65536u

static const struct {
    const char *name;
    int (*run)(const struct options *);
    const char *what;
    void (*prepare)(const struct options *); /* once, before the first of many rounds */
} PROGRAMS[] = {
    {"serve", run_serve, "requests that arrive at random; prints latencies from scheduled arrival", NULL},
    {"train", run_train, "steps in a closed loop; prints steps a second, checks its results", NULL},
    {"graph", run_graph, "replays of a captured graph; checks its results", NULL},
    {"streams", run_streams, "streams joined by events; checks its results", NULL},
    {"order", run_order, "a stream beside the legacy one, without waits; checks its result", NULL},
    {"threads", run_threads, "threads that each compute; checks their results", NULL},
    {"hog", run_hog, "allocates until memory is out; prints what it got", NULL},
    {"crash", run_crash, "dies in mid-kernel (--how kill|abort|segfault|exit|address)", NULL},
    {"fork", run_fork, "children with and without CUDA", NULL},
    {"idle", run_idle, "opens the device and waits", NULL},
    {"calibrate", run_calibrate, "how fast the spin loop of the others runs here", NULL},
    {"matmul", run_matmul, "a square product the plain way; prints phases, checks its result",
     prepare_matmul},
};

static void usage(FILE *to)
{
    fprintf(to, "Usage: dure-tenant PROGRAM [--option VALUE ...]\n\nPrograms:\n");
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof PROGRAMS[0]; i++)
        fprintf(to, "  %-9s %s\n", PROGRAMS[i].name, PROGRAMS[i].what);
    fprintf(to,
            "\nOptions: --seconds S, --count N (instead of a time), --kernels N (per step),\n"
            "--work-us US, --bytes N (a kernel moves), --blocks N, --threads N,\n"
            "--sync-every STEPS, --rate PER_SECOND, --seed N, --memory-mib N, --chunk-mib N,\n"
            "--children N, --streams N, --device N, --how HOW, --after S, --spin, --legacy,\n"
            "--wrong, --json, --size N (of a matrix), --turns-per-us N (of `calibrate`),\n"
            "--barrier FOLDER --index I (run in rounds that files of the folder release),\n"
            "--rate-file FILE (of `serve`: the rate is read from it again and again), --report\n"
            "(of `serve`: say latencies to Dure), --save FILE (of `train`: save and resume there).\n"
            "Exit: 0 fine, 1 a call failed, 2 usage, 3 a result is wrong, 4 no driver.\n");
}

static bool set_flag(struct options *o, const char *name)
{
    bool *flag = strcmp(name, "--json") == 0     ? &o->json
                 : strcmp(name, "--spin") == 0   ? &o->spin
                 : strcmp(name, "--legacy") == 0 ? &o->legacy
                 : strcmp(name, "--wrong") == 0  ? &o->wrong
                 : strcmp(name, "--report") == 0 ? &o->report
                                                 : NULL;
    if (flag != NULL)
        *flag = true;
    return flag != NULL;
}

static bool set_value(struct options *o, const char *name, const char *text)
{
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {
        {"--count", &o->count},           {"--kernels", &o->kernels}, {"--bytes", &o->bytes},
        {"--blocks", &o->blocks},         {"--threads", &o->threads}, {"--sync-every",
                                                                       &o->sync_every},
        {"--seed", &o->seed},             {"--memory-mib", &o->memory_mib},
        {"--chunk-mib", &o->chunk_mib},   {"--children", &o->children},
        {"--streams", &o->streams},       {"--size", &o->size},
        {"--index", &o->index},           {"--turns-per-us", &o->turns_per_us},
    };
    const struct {
        const char *name;
        const char **to;
    } words[] = {
        {"--how", &o->how},
        {"--barrier", &o->barrier},
        {"--rate-file", &o->rate_file},
        {"--save", &o->save},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(name, words[i].name) == 0) {
            *words[i].to = text;
            return true;
        }
    }
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || value < 0)
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = (uint64_t)value;
            return true;
        }
    }
    if (strcmp(name, "--seconds") == 0) {
        o->seconds = value;
    } else if (strcmp(name, "--work-us") == 0) {
        o->work_ns = (uint64_t)(value * 1000);
        o->work_given = true;
    } else if (strcmp(name, "--rate") == 0) {
        o->rate = value;
    } else if (strcmp(name, "--after") == 0) {
        o->after = value;
    } else if (strcmp(name, "--device") == 0) {
        o->device = (int)value;
    } else {
        return false;
    }
    return true;
}

static bool parse(struct options *o, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (set_flag(o, argv[i]))
            continue;
        if (i + 1 >= argc || !set_value(o, argv[i], argv[i + 1])) {
            fprintf(stderr, "dure-tenant: bad option %s\n", argv[i]);
            return false;
        }
        i++;
    }
    if (o->blocks == 0 || o->threads == 0 || o->threads > 1024 || o->rate <= 0
        || o->chunk_mib == 0) {
        fprintf(stderr, "dure-tenant: blocks, threads (to 1024), rate and chunk must be above 0\n");
        return false;
    }
    if (o->size == 0 || o->size % 8 != 0 || o->size > MOST_SIZE) {
        fprintf(stderr, "dure-tenant: a size is a multiple of 8 up to %u\n", MOST_SIZE);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {
        .program = argv[0], .seconds = 1, .kernels = 20, .work_ns = 50000, .blocks = 1056,
        .threads = 256, .sync_every = 4, .rate = 100, .seed = 1, .chunk_mib = 256, .children = 3,
        .streams = 4, .how = "kill", .after = 0.2, .size = 1024,
    };
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
        return EXIT_FINE;
    }
    for (size_t i = 0; argc > 1 && i < sizeof PROGRAMS / sizeof PROGRAMS[0]; i++) {
        if (strcmp(argv[1], PROGRAMS[i].name) != 0)
            continue;
        if (!parse(&o, argc, argv))
            return EXIT_USAGE;
        if (o.barrier != NULL)
            return run_rounds(&o, PROGRAMS[i].run, PROGRAMS[i].prepare);
        return PROGRAMS[i].run(&o);
    }
    usage(stderr);
    return EXIT_USAGE;
}
