/* A driver of a few lines for tests of the shim: streams are clocks, memory is a number.
 *
 * A launch takes as many microseconds as its grid has blocks in x. Times are real, so that a wait
 * waits. With DURE_FAKE_LOCKED no duration is told while a callback is due. DURE_FAKE_TRAIL
 * names a file to which every launch, record and wait is written in order.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MOST 4096
#define NOT_READY 600
#define DEVICE_BYTES (80ull << 30)

struct stream {
    uint64_t end_ns;
    int used, non_blocking, capturing, green;
};
struct event {
    uint64_t at_ns;
    int used, recorded;
};
struct graph {
    unsigned us;
    int nodes;
};

static struct stream streams[MOST];
static struct event events[MOST];
static uint64_t taken_bytes;
static __thread void *current;
static int primary, streams_open, events_open, records;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { uint64_t key, bytes; } blocks[MOST];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void trail(const char *format, ...)
{
    const char *path = getenv("DURE_FAKE_TRAIL");
    char line[200];
    va_list arguments;
    if (path == NULL)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

/* Streams 0 and 1 are the legacy one, 2 the thread's; others start at 16. */
static struct stream *stream_of(void *handle, int per_thread)
{
    uintptr_t number = (uintptr_t)handle;
    if (number == 0)
        number = per_thread ? 2 : 1;
    return number < MOST ? &streams[number] : &streams[1];
}

static long number_of(struct stream *stream)
{
    return (long)(stream - streams);
}

static void wait_until(uint64_t end_ns)
{
    while (now_ns() < end_ns)
        usleep(20);
}

API int cuInit(unsigned flags) { (void)flags; return 0; }
API int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
API int cuDeviceGetCount(int *count) { *count = 1; return 0; }
API int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal == 0 ? 0 : 101; }
API int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    memset(uuid, 0x44, 16);
    return device == 0 ? 0 : 101;
}
API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &primary;
    return device;
}
API int cuCtxSetCurrent(void *context) { current = context; return 0; }
API int cuCtxGetCurrent(void **context) { *context = current; return 0; }
API int cuCtxGetDevice(int *device) { *device = 0; return current != NULL ? 0 : 201; }
API int cuCtxDestroy_v2(void *context) { (void)context; return 0; }

API int cuStreamCreate(void **handle, unsigned flags)
{
    int result = 2;
    pthread_mutex_lock(&lock);
    for (uintptr_t number = 16; number < MOST && result != 0; number++) {
        if (streams[number].used)
            continue;
        streams[number] = (struct stream){.used = 1, .non_blocking = (int)(flags & 1)};
        streams_open++;
        *handle = (void *)number;
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
API int cuStreamDestroy_v2(void *handle)
{
    pthread_mutex_lock(&lock);
    stream_of(handle, 0)->used = 0;
    streams_open--;
    pthread_mutex_unlock(&lock);
    return 0;
}
API int cuStreamGetFlags(void *handle, unsigned *flags)
{
    *flags = (unsigned)stream_of(handle, 0)->non_blocking;
    return 0;
}
API int cuStreamIsCapturing(void *handle, int *status)
{
    *status = stream_of(handle, 0)->capturing;
    return 0;
}
API int cuThreadExchangeStreamCaptureMode(int *mode)
{
    static __thread int mine;
    int before = mine;
    mine = *mode;
    *mode = before;
    return 0;
}

static int run(struct stream *stream, unsigned us, const char *what)
{
    pthread_mutex_lock(&lock);
    uint64_t now = now_ns();
    if (!stream->capturing)
        stream->end_ns = (stream->end_ns > now ? stream->end_ns : now) + us * 1000ull;
    trail("%s %u on %ld%s\n", what, us, number_of(stream), stream->capturing ? " captured" : "");
    pthread_mutex_unlock(&lock);
    return 0;
}

#define LAUNCH(name, per_thread)                                                        \
    API int name(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, \
                 unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)   \
    {                                                                                   \
        (void)function, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared;   \
        (void)arguments, (void)extra;                                                   \
        return run(stream_of(stream, per_thread), x, #name);                            \
    }
LAUNCH(cuLaunchKernel, 0)
LAUNCH(cuLaunchKernel_ptsz, 1)

struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    void *attributes;
    unsigned count;
};
API int cuLaunchKernelEx(const struct config *config, void *function, void **arguments,
                         void **extra)
{
    (void)function, (void)arguments, (void)extra;
    return run(stream_of(config->stream, 0), config->grid[0], "cuLaunchKernelEx");
}
API int cuLaunchCooperativeKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx,
                                  unsigned by, unsigned bz, unsigned shared, void *stream,
                                  void **arguments)
{
    (void)function, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)arguments;
    return run(stream_of(stream, 0), x, "cuLaunchCooperativeKernel");
}
API int cuGraphLaunch(struct graph *exec, void *stream)
{
    return run(stream_of(stream, 0), exec->us, "cuGraphLaunch");
}
API int cuGraphInstantiateWithFlags(struct graph **exec, struct graph *graph, uint64_t flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    **exec = *graph;
    return 0;
}
API int cuGraphExecDestroy(struct graph *exec) { free(exec); return 0; }
API int cuGraphDestroy(struct graph *graph) { free(graph); return 0; }
API int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)mode;
    stream_of(stream, 0)->capturing = 1;
    return 0;
}
API int cuStreamEndCapture(void *stream, struct graph **graph)
{
    stream_of(stream, 0)->capturing = 0;
    *graph = malloc(sizeof **graph);
    (*graph)->us = 100;
    return 0;
}

static int done(struct stream *stream) { return now_ns() >= stream->end_ns; }
API int cuStreamSynchronize(void *handle)
{
    struct stream *stream = stream_of(handle, 0);
    if (stream->capturing)
        return 900;
    wait_until(stream->end_ns);
    return 0;
}
API int cuStreamSynchronize_ptsz(void *handle)
{
    wait_until(stream_of(handle, 1)->end_ns);
    return 0;
}
API int cuStreamQuery(void *handle) { return done(stream_of(handle, 0)) ? 0 : NOT_READY; }
API int cuCtxSynchronize(void)
{
    for (int number = 0; number < MOST; number++)
        wait_until(streams[number].end_ns);
    return 0;
}
API int cuEventCreate(void **handle, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    for (uintptr_t number = 1; number < MOST; number++) {
        if (events[number].used)
            continue;
        events[number] = (struct event){.used = 1};
        events_open++;
        *handle = (void *)number;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_unlock(&lock);
    return 2;
}
API int cuEventDestroy_v2(void *handle)
{
    pthread_mutex_lock(&lock);
    events[(uintptr_t)handle].used = 0;
    events_open--;
    pthread_mutex_unlock(&lock);
    return 0;
}
/* As a driver may whose own lock is held by a callback's thread, or by one that waits for it. */
static int callbacks;
static void wait_for_callbacks(void)
{
    const uint64_t until_ns = now_ns() + 3000000000ull;
    if (getenv("DURE_FAKE_LOCKED") == NULL)
        return;
    while (__atomic_load_n(&callbacks, __ATOMIC_ACQUIRE) != 0 && now_ns() < until_ns)
        usleep(50);
    if (__atomic_load_n(&callbacks, __ATOMIC_ACQUIRE) != 0)
        printf("stuck\n");
}
API int cuEventRecord(void *handle, void *stream)
{
    struct stream *on = stream_of(stream, 0);
    if (on->capturing)
        trail("record on %ld captured\n", number_of(on));
    __atomic_fetch_add(&records, 1, __ATOMIC_RELAXED);
    uint64_t now = now_ns();
    events[(uintptr_t)handle].at_ns = on->end_ns > now ? on->end_ns : now;
    return 0;
}
API int cuEventQuery(void *handle)
{
    return now_ns() >= events[(uintptr_t)handle].at_ns ? 0 : NOT_READY;
}
API int cuEventSynchronize(void *handle) { wait_until(events[(uintptr_t)handle].at_ns); return 0; }
API int cuEventElapsedTime(float *ms, void *from, void *to)
{
    wait_for_callbacks();
    uint64_t first = events[(uintptr_t)from].at_ns, last = events[(uintptr_t)to].at_ns;
    *ms = (float)((double)(last - first) / 1e6);
    return 0;
}
API int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct stream *on = stream_of(stream, 0);
    uint64_t at = events[(uintptr_t)event].at_ns;
    (void)flags;
    if (at > on->end_ns)
        on->end_ns = at;
    return 0;
}
struct host_call {
    uint64_t at_ns;
    void (*function)(void *);
    void *data;
};
static void *call_host(void *argument)
{
    struct host_call call = *(struct host_call *)argument;
    free(argument);
    wait_until(call.at_ns);
    call.function(call.data);
    __atomic_fetch_sub(&callbacks, 1, __ATOMIC_RELEASE);
    return NULL;
}
API int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    struct host_call *call = malloc(sizeof *call);
    pthread_t thread;
    *call = (struct host_call){stream_of(stream, 0)->end_ns, function, data};
    __atomic_fetch_add(&callbacks, 1, __ATOMIC_RELEASE);
    pthread_create(&thread, NULL, call_host, call);
    pthread_detach(thread);
    return 0;
}
API int cuFuncGetName(const char **name, void *function) { *name = function; return 0; }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                    size_t shared)
{
    (void)function, (void)shared;
    *blocks = threads > 0 ? 2048 / threads : 0;
    return 0;
}

static int take(uint64_t *pointer, size_t bytes)
{
    pthread_mutex_lock(&lock);
    static uint64_t next = 0x700000000000ull;
    int result = 2;
    for (int index = 0; index < MOST && taken_bytes + bytes <= DEVICE_BYTES; index++) {
        if (blocks[index].key != 0)
            continue;
        blocks[index].key = *pointer = next;
        blocks[index].bytes = bytes;
        next += 0x10000;
        taken_bytes += bytes;
        result = 0;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
static int give(uint64_t pointer)
{
    for (int index = 0; index < MOST; index++) {
        if (blocks[index].key != pointer)
            continue;
        taken_bytes -= blocks[index].bytes;
        blocks[index].key = 0;
        return 0;
    }
    return 1;
}
API int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) { return take(pointer, bytes); }
API int cuMemFree_v2(uint64_t pointer) { return give(pointer); }
API int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream)
{
    (void)stream;
    return take(pointer, bytes);
}
API int cuMemFreeAsync(uint64_t pointer, void *stream)
{
    (void)stream;
    return give(pointer);
}
API int cuMemCreate(uint64_t *handle, size_t bytes, const void *what, uint64_t flags)
{
    (void)what, (void)flags;
    return take(handle, bytes);
}
API int cuMemRelease(uint64_t handle) { return give(handle); }
API int cuMemMap(uint64_t pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
    (void)pointer, (void)bytes, (void)offset, (void)handle, (void)flags;
    return 0;
}
API int cuMemUnmap(uint64_t pointer, size_t bytes)
{
    (void)pointer, (void)bytes;
    return 0;
}
API int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    (void)address;
    *handle = blocks[0].key;
    return 0;
}
API int cuDevicePrimaryCtxReset_v2(int device)
{
    memset(blocks, 0, sizeof blocks);
    taken_bytes = 0;
    return device;
}
API int cuMemGetInfo_v2(size_t *left, size_t *all)
{
    *all = DEVICE_BYTES;
    *left = DEVICE_BYTES - taken_bytes;
    return 0;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = DEVICE_BYTES;
    return device;
}
API int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream)
{
    (void)target, (void)source;
    return run(stream_of(stream, 0), (unsigned)(bytes / 25000), "cuMemcpyHtoDAsync");
}
API int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes)
{
    (void)source;
    memset(target, 0, bytes);
    wait_until(streams[1].end_ns);
    return 0;
}

struct known {
    const char *name;
    void *function;
};
#define KNOWN(name) {#name, (void *)name}
static int resolve(const char *, void **, int, uint64_t, int *);

/* The resolver picks the variant by version and flags, as the real one does. */
API int cuGetProcAddress_v2(const char *symbol, void **answer, int version, uint64_t flags,
                            int *status)
{
    return resolve(symbol, answer, version, flags, status);
}
API int cuGetProcAddress(const char *symbol, void **answer, int version, uint64_t flags)
{
    return resolve(symbol, answer, version, flags, NULL);
}

static const struct known table[] = {
    KNOWN(cuInit), KNOWN(cuDeviceGet), KNOWN(cuDevicePrimaryCtxRetain), KNOWN(cuCtxSetCurrent),
    KNOWN(cuCtxGetCurrent), KNOWN(cuStreamCreate), KNOWN(cuLaunchKernel),
    KNOWN(cuLaunchKernel_ptsz),
    KNOWN(cuLaunchKernelEx), KNOWN(cuStreamSynchronize), KNOWN(cuStreamSynchronize_ptsz),
    KNOWN(cuMemAlloc_v2), KNOWN(cuGraphInstantiateWithFlags), KNOWN(cuGetProcAddress),
    KNOWN(cuGetProcAddress_v2), KNOWN(cuGraphLaunch), KNOWN(cuDriverGetVersion),
};

static void *entry(const char *symbol, const char *suffix)
{
    char name[100];
    snprintf(name, sizeof name, "%s%s", symbol, suffix);
    for (size_t index = 0; index < sizeof table / sizeof table[0]; index++)
        if (strcmp(table[index].name, name) == 0)
            return table[index].function;
    return NULL;
}

static int resolve(const char *symbol, void **answer, int version, uint64_t flags, int *status)
{
    static const char *const suffixes[] = {"_ptsz", "_v2", ""};
    if (strcmp(symbol, "cuGraphInstantiate") == 0 && version >= 12000)
        symbol = "cuGraphInstantiateWithFlags";
    *answer = NULL;
    for (int index = (flags & 2) != 0 ? 0 : 1; index < 3 && *answer == NULL; index++)
        if (index != 1 || version >= (strcmp(symbol, "cuGetProcAddress") == 0 ? 12000 : 3020))
            *answer = entry(symbol, suffixes[index]);
    if (status != NULL)
        *status = *answer != NULL ? 0 : 1;
    return *answer != NULL ? 0 : 500;
}

/* For tests. */
API int fake_open_events(void) { return events_open; }
API int fake_open_streams(void) { return streams_open; }
API int fake_records(void) { return __atomic_load_n(&records, __ATOMIC_RELAXED); }
API uint64_t fake_taken_bytes(void) { return taken_bytes; }
