/* A CUDA program in small: does what its arguments say, through the driver it finds.
 *
 *   via=dlsym|proc|proc_ptsz|nested   how it finds the functions
 *   launch:US  ex:US  coop:US  graph:N  capture  sync  ctxsync  event  poll  callback  called
 *   stream  sleep:MS  say:TEXT
 *   alloc:MIB  create:MIB  free  info  copyin:BYTES  copyout  fork  exec ...  threads:N:US:COUNT
 *   burn:COUNT:US  train:COUNT:US  cold:COUNT:US  deep:COUNT:US  fds  leftovers  report:NS
 *   mix:COUNT:SHAPES  records
 *   progress:DONE
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);
struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    void *attributes;
    unsigned count;
};

static void *driver;
static int (*proc)(const char *, void **, int, uint64_t, int *);
static uint64_t proc_flags;
static char kernel_name[] = "test_kernel";

static void *find(const char *exported, const char *asked)
{
    void *found = NULL;
    if (proc != NULL)
        proc(asked, &found, 13000, proc_flags, NULL);
    return found != NULL ? found : dlsym(driver, exported);
}

#define CALL(exported, asked, type, ...) ((int (*) type)find(exported, asked))(__VA_ARGS__)

static void check(int result, const char *what)
{
    if (result != 0)
        printf("%s failed %d\n", what, result);
}

static void set_up(const char *via)
{
    int device = 0;
    void *context = NULL;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    if (strncmp(via, "proc", 4) == 0) {
        *(void **)&proc = dlsym(driver, "cuGetProcAddress_v2");
        proc_flags = strcmp(via, "proc_ptsz") == 0 ? 2 : 0;
    }
    if (strcmp(via, "nested") == 0) { /* the resolver as the resolver gives it, before cuInit */
        *(void **)&proc = dlsym(driver, "cuGetProcAddress_v2");
        void *again = NULL;
        check(proc("cuGetProcAddress", &again, 13000, 0, NULL), "resolver");
        *(void **)&proc = again;
    }
    check(CALL("cuInit", "cuInit", (unsigned), 0), "init");
    check(CALL("cuDeviceGet", "cuDeviceGet", (int *, int), &device, 0), "device");
    check(CALL("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", (void **, int), &context,
               device),
          "retain");
    check(CALL("cuCtxSetCurrent", "cuCtxSetCurrent", (void *), context), "current");
}

static void *stream_now;
static void *graph_exec;
#define MAPPED_AT 0x500000000000ull
static uint64_t handle;
static uint64_t memory[64];
static int allocations;

static void launch(unsigned us)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    check(go(kernel_name, us, 1, 1, 256, 1, 1, 0, stream_now, NULL, NULL), "launch");
}

static void capture(void)
{
    void *stream, *graph;
    check(CALL("cuStreamCreate", "cuStreamCreate", (void **, unsigned), &stream, 1), "stream");
    check(CALL("cuStreamBeginCapture_v2", "cuStreamBeginCapture", (void *, int), stream, 0),
          "begin");
    void *before = stream_now;
    stream_now = stream;
    launch(50);
    launch(50);
    stream_now = before;
    check(CALL("cuStreamEndCapture", "cuStreamEndCapture", (void *, void **), stream, &graph),
          "end");
    check(CALL("cuGraphInstantiateWithFlags", "cuGraphInstantiate", (void **, void *, uint64_t),
               &graph_exec, graph, 0),
          "instantiate");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct worker {
    unsigned us, count;
    void *context;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    CALL("cuCtxSetCurrent", "cuCtxSetCurrent", (void *), worker->context);
    void *stream;
    CALL("cuStreamCreate", "cuStreamCreate", (void **, unsigned), &stream, 1);
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    for (unsigned index = 0; index < worker->count; index++) {
        go(kernel_name, worker->us, 1, 1, 256, 1, 1, 0, stream, NULL, NULL);
        if (index % 16 == 15)
            CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream);
    }
    CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream);
    CALL("cuStreamDestroy_v2", "cuStreamDestroy", (void *), stream);
    return NULL;
}

static void threads(int count, unsigned us, unsigned launches)
{
    pthread_t ids[64];
    struct worker worker = {us, launches, NULL};
    CALL("cuCtxGetCurrent", "cuCtxGetCurrent", (void **), &worker.context);
    for (int index = 0; index < count; index++)
        pthread_create(&ids[index], NULL, work, &worker);
    for (int index = 0; index < count; index++)
        pthread_join(ids[index], NULL);
}

/* Median-like figure: the best of several runs, as the machine is shared. */
static void burn(unsigned count, unsigned us)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    double best = 1e9;
    for (int run = 0; run < 7; run++) {
        double began = seconds();
        for (unsigned index = 0; index < count; index++)
            go(kernel_name, us, 1, 1, 256, 1, 1, 0, stream_now, NULL, NULL);
        double took = (seconds() - began) / count;
        best = took < best ? took : best;
        CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream_now);
    }
    printf("burn %.1f ns\n", best * 1e9);
}

static void train(unsigned long count, unsigned us)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    for (unsigned long index = 0; index < count; index++)
        go(kernel_name, us, 1, 1, 256, 1, 1, 0, stream_now, NULL, NULL);
}

/* As training does: the same many kernels, over and over, some 10 us each, and seldom a wait. */
static void mix(unsigned long count, unsigned shapes)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    for (unsigned long index = 0; index < count; index++) {
        unsigned shape = (unsigned)(index % 1000) * 7 % shapes;
        go(kernel_name, 5 + shape % 10, 1, 1, 32, 1 + shape / 10, 1, 0, stream_now, NULL, NULL);
        if (index % 4000 == 3999)
            CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream_now);
    }
}

#define COLD_BYTES (64u << 20)
#define COLD_LINES 16384u

static int by_size(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return first < second ? -1 : first > second;
}

/* A launch in a program that used the caches for something else since the last one. */
static void cold(unsigned count, unsigned us)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    volatile char *other = calloc(1, COLD_BYTES);
    double *took = calloc(count, sizeof *took), sum = 0;
    uint32_t place = 1;
    for (unsigned index = 0; index < count; index++) {
        for (unsigned line = 0; line < COLD_LINES; line++) {
            place = place * 1664525u + 1013904223u;
            other[(size_t)(place >> 6) * 64 % COLD_BYTES]++;
        }
        double began = seconds();
        go(kernel_name, us, 1, 1, 256, 1, 1, 0, stream_now, NULL, NULL);
        took[index] = seconds() - began;
        sum += took[index];
    }
    CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream_now);
    qsort(took, count, sizeof *took, by_size);
    printf("cold median %.0f mean %.0f ns\n", took[count / 2] * 1e9, sum / count * 1e9);
    free((void *)other);
    free(took);
}

/* How deep the queue gets: from a launch that returns to the end of its work, in microseconds. */
static void deep(unsigned count, unsigned us)
{
    launch_fn *go = (launch_fn *)find("cuLaunchKernel", "cuLaunchKernel");
    double began = seconds();
    for (unsigned index = 0; index < count; index++)
        go(kernel_name, us, 1, 1, 256, 1, 1, 0, stream_now, NULL, NULL);
    double launched = seconds();
    CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream_now);
    printf("deep %.0f of %.0f\n", (seconds() - launched) * 1e6, (seconds() - began) * 1e6);
}

static void count_descriptors(void)
{
    int open_now = 0;
    for (int number = 0; number < 1024; number++)
        open_now += fcntl(number, F_GETFD) >= 0;
    printf("fds %d\n", open_now);
}

static void report(const char *what, unsigned long number)
{
    int result = -2;
    int (*latency)(uint64_t) = (int (*)(uint64_t))dlsym(RTLD_DEFAULT, "dure_report_latency_ns");
    int (*progress)(double, double) =
        (int (*)(double, double))dlsym(RTLD_DEFAULT, "dure_report_progress");
    if (strcmp(what, "report") == 0 && latency != NULL)
        result = latency(number);
    if (strcmp(what, "progress") == 0 && progress != NULL)
        result = progress((double)number, 10.0);
    printf("%s %d\n", what, result);
}

static void events(int poll)
{
    void *event;
    check(CALL("cuEventCreate", "cuEventCreate", (void **, unsigned), &event, 0), "event");
    check(CALL("cuEventRecord", "cuEventRecord", (void *, void *), event, stream_now), "record");
    if (!poll)
        check(CALL("cuEventSynchronize", "cuEventSynchronize", (void *), event), "event wait");
    while (poll && CALL("cuEventQuery", "cuEventQuery", (void *), event) == 600)
        usleep(50);
    check(CALL("cuEventDestroy_v2", "cuEventDestroy", (void *), event), "event destroy");
}

static int called;

static void be_called(void *data)
{
    __atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
}

static void order_callback(void)
{
    called = 0;
    check(CALL("cuLaunchHostFunc", "cuLaunchHostFunc", (void *, void (*)(void *), void *),
               stream_now, be_called, &called),
          "callback");
}

static void callback(void)
{
    order_callback();
    while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
        usleep(50);
}

static void child(char *const *rest)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", rest);
        _exit(127);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static void memory_info(void)
{
    size_t left, all;
    check(CALL("cuMemGetInfo_v2", "cuMemGetInfo", (size_t *, size_t *), &left, &all), "info");
    printf("info %zu %zu\n", left >> 20, all >> 20);
}

static int plain_fork(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { /* what a DataLoader's worker does: nothing of CUDA, then launches by mistake */
        launch(10);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void step(const char *what, const char *value)
{
    unsigned long number = strtoul(value, NULL, 10);
    char *more = strchr(value, ':');
    if (strcmp(what, "launch") == 0)
        launch((unsigned)number);
    else if (strcmp(what, "ex") == 0) {
        struct config config = {{(unsigned)number, 1, 1}, {256, 1, 1}, 0, stream_now, NULL, 0};
        check(CALL("cuLaunchKernelEx", "cuLaunchKernelEx",
                   (struct config *, void *, void **, void **), &config, kernel_name, NULL, NULL),
              "ex");
    } else if (strcmp(what, "coop") == 0)
        check(CALL("cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel",
                   (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    void *, void **),
                   kernel_name, (unsigned)number, 1, 1, 256, 1, 1, 0, stream_now, NULL),
              "coop");
    else if (strcmp(what, "graph") == 0)
        for (unsigned long index = 0; index < number; index++)
            check(CALL("cuGraphLaunch", "cuGraphLaunch", (void *, void *), graph_exec, stream_now),
                  "graph");
    else if (strcmp(what, "capture") == 0)
        capture();
    else if (strcmp(what, "stream") == 0)
        check(CALL("cuStreamCreate", "cuStreamCreate", (void **, unsigned), &stream_now, 1),
              "stream");
    else if (strcmp(what, "sync") == 0)
        check(CALL("cuStreamSynchronize", "cuStreamSynchronize", (void *), stream_now), "sync");
    else if (strcmp(what, "ctxsync") == 0)
        check(CALL("cuCtxSynchronize", "cuCtxSynchronize", (void), ), "ctxsync");
    else if (strcmp(what, "event") == 0)
        events(0);
    else if (strcmp(what, "poll") == 0)
        events(1);
    else if (strcmp(what, "callback") == 0)
        callback();
    else if (strcmp(what, "called") == 0) /* not waited for */
        order_callback();
    else if (strcmp(what, "alloc") == 0) {
        int result = CALL("cuMemAlloc_v2", "cuMemAlloc", (uint64_t *, size_t),
                          &memory[allocations], number << 20);
        allocations += result == 0;
        printf("alloc %lu %d\n", number, result);
    } else if (strcmp(what, "free") == 0)
        check(CALL("cuMemFree_v2", "cuMemFree", (uint64_t), memory[--allocations]), "free");
    else if (strcmp(what, "info") == 0)
        memory_info();
    else if (strcmp(what, "fork") == 0)
        printf("fork %d\n", plain_fork());
    else if (strcmp(what, "sleep") == 0)
        usleep((unsigned)number * 1000);
    else if (strcmp(what, "threads") == 0 && more != NULL)
        threads((int)number, (unsigned)atoi(more + 1), (unsigned)atoi(strchr(more + 1, ':') + 1));
    else if (strcmp(what, "burn") == 0 && more != NULL)
        burn((unsigned)number, (unsigned)atoi(more + 1));
    else if (strcmp(what, "train") == 0 && more != NULL)
        train(number, (unsigned)atoi(more + 1));
    else if (strcmp(what, "mix") == 0 && more != NULL)
        mix(number, (unsigned)atoi(more + 1));
    else if (strcmp(what, "cold") == 0 && more != NULL)
        cold((unsigned)number, (unsigned)atoi(more + 1));
    else if (strcmp(what, "deep") == 0 && more != NULL)
        deep((unsigned)number, (unsigned)atoi(more + 1));
    else if (strcmp(what, "reset") == 0) {
        check(CALL("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", (int), 0), "reset");
        allocations = 0;
    } else if (strcmp(what, "map") == 0)
        check(CALL("cuMemMap", "cuMemMap", (uint64_t, size_t, size_t, uint64_t, uint64_t),
                   MAPPED_AT + (more != NULL ? strtoul(more + 1, NULL, 10) * number << 20 : 0),
                   number << 20, 0, handle, 0),
              "map");
    else if (strcmp(what, "unmap") == 0)
        check(CALL("cuMemUnmap", "cuMemUnmap", (uint64_t, size_t), MAPPED_AT, number << 20),
              "unmap");
    else if (strcmp(what, "retain") == 0)
        check(CALL("cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle",
                   (uint64_t *, void *), &handle, NULL),
              "retain");
    else if (strcmp(what, "release") == 0)
        check(CALL("cuMemRelease", "cuMemRelease", (uint64_t), handle), "release");
    else if (strcmp(what, "create") == 0) {
        const int what_for[8] = {1, 0, 1, 0};
        int result = CALL("cuMemCreate", "cuMemCreate", (uint64_t *, size_t, const int *, uint64_t),
                          &handle, number << 20, what_for, 0);
        printf("create %lu %d\n", number, result);
    } else if (strcmp(what, "copyin") == 0)
        check(CALL("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", (uint64_t, void *, size_t, void *),
                   memory[0], kernel_name, number, stream_now),
              "copyin");
    else if (strcmp(what, "copyout") == 0) {
        char target[16];
        check(CALL("cuMemcpyDtoH_v2", "cuMemcpyDtoH", (void *, uint64_t, size_t), target, memory[0],
                   sizeof target),
              "copyout");
    } else if (strcmp(what, "fds") == 0)
        count_descriptors();
    else if (strcmp(what, "leftovers") == 0)
        printf("leftovers %d %d\n", CALL("fake_open_events", "", (void), ),
               CALL("fake_open_streams", "", (void), ));
    else if (strcmp(what, "records") == 0)
        printf("records %d\n", CALL("fake_records", "", (void), ));
    else if (strcmp(what, "report") == 0 || strcmp(what, "progress") == 0)
        report(what, number);
    else if (strcmp(what, "say") == 0)
        puts(value);
    else
        printf("unknown step %s\n", what);
    fflush(stdout);
}

int main(int count, char **arguments)
{
    const char *via = "dlsym";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1 && strncmp(arguments[1], "via=", 4) == 0)
        via = arguments[1] + 4;
    set_up(via);
    for (int index = 1; index < count; index++) {
        char name[64];
        if (strncmp(arguments[index], "via=", 4) == 0)
            continue;
        if (strcmp(arguments[index], "exec") == 0) {
            arguments[index] = arguments[0];
            child(&arguments[index]);
            break;
        }
        snprintf(name, sizeof name, "%s", arguments[index]);
        char *value = strchr(arguments[index], ':');
        if (strchr(name, ':') != NULL)
            *strchr(name, ':') = '\0';
        step(name, value != NULL ? value + 1 : "");
    }
    puts("end");
    return 0;
}
