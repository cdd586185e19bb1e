/* Which devices this process uses, and when and how it registers for each with the agent.
 *
 * A process registers for a device at its first launch or allocation there. What fails is tried
 * again at a launch, at most once a second, so that an agent that comes back is found without a
 * thread of our own. A child after fork starts with nothing and registers itself at its first CUDA
 * call.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hooks.h"
#include "shim.h"

#define RETRY_NS 1000000000ull
#define RETRY_SLOW_NS 2000000000ull /* where the last answer took long, doubled each time up to */
#define SLOWEST_DOUBLED 4           /* as often: a try must not cost much */
#define SLOW_NS 100000000ull
#define CONTEXTS 64

bool dure_enabled;

static struct dure_device *devices[DURE_DEVICES];
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

/* Contexts seen, and the device of each; a context is looked up once per thread. */
static struct {
    cu_context context;
    struct dure_device *device;
} contexts[CONTEXTS];
static uint64_t contexts_generation = 1;
static __thread __attribute__((tls_model("initial-exec"))) struct {
    cu_context context;
    struct dure_device *device;
    uint64_t generation;
} here;

/* Reads 1; the kernel wipes it in a child, also where no fork handler runs. */
static uint64_t *alive;

/* ---- fork ------------------------------------------------------------------------------------ */

static void forget_everything(void)
{
    for (int index = 0; index < DURE_DEVICES; index++) {
        struct dure_device *device = devices[index];
        if (device == NULL)
            continue;
        for (int link = 0; link < DURE_LINKS; link++)
            if (device->links[link].in_use)
                dure_detach(&device->links[link].plane);
        free(device->signatures);
        free(device->split);
        free(device);
        devices[index] = NULL;
    }
    memset(contexts, 0, sizeof contexts);
    pthread_mutex_init(&devices_lock, NULL);
    dure_events_forget();
    dure_books_forget();
    dure_graphs_forget();
    dure_kernels_forget();
    dure_lights_forget();
    dure_waits_forget();
    dure_captures = 0;
    dure_moved_streams = 0;
    contexts_generation++;
    *alive = 1;
}

static void before_fork(void)
{
    pthread_mutex_lock(&devices_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&devices_lock);
}

__attribute__((constructor)) static void set_up(void)
{
    const char *socket_path = getenv("DURE_SOCKET");
    alive = mmap(NULL, DURE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED || socket_path == NULL || *socket_path == '\0')
        return;
    *alive = 1;
    madvise(alive, DURE_PAGE_BYTES, MADV_WIPEONFORK);
    pthread_atfork(before_fork, after_fork_in_parent, forget_everything);
    dure_enabled = true;
}

/* ---- devices --------------------------------------------------------------------------------- */

static struct dure_device *make_device(cu_device ordinal)
{
    struct dure_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    size_t bytes = DURE_SIGNATURES * sizeof *device->signatures;
    device->signatures = aligned_alloc(sizeof *device->signatures, bytes);
    if (device->signatures == NULL) {
        free(device);
        return NULL;
    }
    memset(device->signatures, 0, bytes);
    pthread_mutex_init(&device->lock, NULL);
    device->ordinal = ordinal;
    device->credit = DURE_CREDIT;
    const char *world = getenv("WORLD_SIZE");
    device->collective = world != NULL && atoi(world) > 1;
    return device;
}

struct dure_device *dure_device_at(cu_device ordinal)
{
    if (!dure_enabled || ordinal < 0 || ordinal >= DURE_DEVICES)
        return NULL;
    struct dure_device *device = __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE);
    if (device != NULL)
        return device;
    pthread_mutex_lock(&devices_lock);
    device = devices[ordinal];
    if (device == NULL) {
        device = make_device(ordinal);
        __atomic_store_n(&devices[ordinal], device, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&devices_lock);
    return device;
}

struct dure_device *dure_device_known(cu_device ordinal)
{
    return __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE);
}

static struct dure_device *device_of(cu_context context)
{
    cu_device ordinal = -1;
    for (int index = 0; index < CONTEXTS; index++)
        if (__atomic_load_n(&contexts[index].context, __ATOMIC_ACQUIRE) == context)
            return contexts[index].device;
    if (dure_real.cuCtxGetDevice == NULL || dure_real.cuCtxGetDevice(&ordinal) != CU_OK)
        return NULL;
    struct dure_device *device = dure_device_at(ordinal);
    if (device == NULL)
        return NULL;
    pthread_mutex_lock(&devices_lock);
    for (int index = 0; index < CONTEXTS; index++) {
        if (contexts[index].context != NULL)
            continue;
        contexts[index].device = device;
        __atomic_store_n(&contexts[index].context, context, __ATOMIC_RELEASE);
        break;
    }
    pthread_mutex_unlock(&devices_lock);
    return device;
}

struct dure_device *dure_here(cu_context *context)
{
    if (!dure_enabled || dure_real.cuCtxGetCurrent == NULL)
        return NULL;
    if (__builtin_expect(__atomic_load_n(alive, __ATOMIC_RELAXED) == 0, 0))
        forget_everything();
    if (dure_real.cuCtxGetCurrent(context) != CU_OK || *context == NULL)
        return NULL;
    uint64_t generation = __atomic_load_n(&contexts_generation, __ATOMIC_RELAXED);
    if (here.context != *context || here.generation != generation) {
        here.device = device_of(*context);
        here.context = *context;
        here.generation = generation;
    }
    return here.device;
}

void dure_context_gone(cu_context context, bool alive)
{
    if (!dure_enabled || context == NULL)
        return;
    pthread_mutex_lock(&devices_lock);
    for (int index = 0; index < CONTEXTS; index++)
        if (contexts[index].context == context)
            __atomic_store_n(&contexts[index].context, NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&devices_lock);
    __atomic_add_fetch(&contexts_generation, 1, __ATOMIC_RELAXED);
    for (int index = 0; index < DURE_DEVICES; index++) {
        if (devices[index] == NULL)
            continue;
        dure_streams_forget(devices[index], context, alive);
        dure_green_forget(devices[index], context, alive);
        dure_waits_context_gone(devices[index], context);
        dure_memory_context_gone(devices[index], context);
    }
}

void dure_stream_ends(cu_stream stream)
{
    for (int index = 0; dure_enabled && index < DURE_DEVICES; index++) {
        struct dure_device *device = __atomic_load_n(&devices[index], __ATOMIC_ACQUIRE);
        if (device != NULL)
            dure_stream_gone(device, stream);
    }
}

/* ---- attachment ------------------------------------------------------------------------------ */

static void name_program(char *name)
{
    ssize_t length = readlink("/proc/self/exe", name, DURE_NAME_BYTES - 1);
    name[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(name, '/');
    if (slash != NULL)
        memmove(name, slash + 1, strlen(slash + 1) + 1);
}

static bool say_hello(struct dure_device *device, struct dure_hello *hello)
{
    struct cu_uuid uuid;
    fn_uuid *ask = dure_real.cuDeviceGetUuid_v2 != NULL ? dure_real.cuDeviceGetUuid_v2
                                                        : dure_real.cuDeviceGetUuid;
    if (ask == NULL || ask(&uuid, device->ordinal) != CU_OK)
        return false;
    memset(hello, 0, sizeof *hello);
    hello->magic = DURE_ABI_MAGIC;
    hello->version = DURE_ABI_VERSION;
    hello->plan_bytes = (uint32_t)sizeof(struct dure_control);
    hello->slot_bytes = (uint32_t)sizeof(struct dure_slot);
    memcpy(hello->uuid, uuid.bytes, sizeof uuid.bytes);
    const char *tenant = getenv("DURE_TENANT");
    snprintf(hello->tenant, sizeof hello->tenant, "%s", tenant != NULL ? tenant : "");
    name_program(hello->program);
    return true;
}

/* An attachment that no thread uses any more, given back first where it was replaced. */
static struct dure_link *free_link(struct dure_device *device)
{
    struct dure_link *found = NULL;
    for (int index = 0; index < DURE_LINKS; index++) {
        struct dure_link *link = &device->links[index];
        if (link == device->link || __atomic_load_n(&link->users, __ATOMIC_ACQUIRE) != 0)
            continue;
        if (link->in_use) {
            dure_detach(&link->plane);
            dure_waits_reset(link);
            link->in_use = false;
        }
        found = link;
    }
    return found;
}

static void announce(struct dure_device *device, const char *reason)
{
    if (!device->announced)
        dure_log("not attached (%s): passing everything through on GPU %d", reason,
                 device->ordinal);
    device->announced = true;
}

static void put_in_force(struct dure_device *device, struct dure_link *link)
{
    pthread_mutex_lock(&device->lock);
    dure_lights_close(device, NULL);
    dure_streams_reset(device);
    struct dure_link *before = device->link;
    __atomic_store_n(&device->link, link, __ATOMIC_SEQ_CST);
    device->sms = link->plane.control->sms;
    if (device->memory_bytes != 0)
        dure_memory_took(&link->plane, device->memory_bytes);
    dure_flag(link, DURE_FLAG_COLLECTIVE, device->collective);
    if (device->announced)
        dure_log("attached on GPU %d", device->ordinal);
    device->announced = false;
    pthread_mutex_unlock(&device->lock);
    if (before != NULL)
        dure_waits_leave(before);
}

static void try_attach(struct dure_device *device)
{
    struct dure_hello hello;
    char reason[128] = "";
    struct dure_link *link = free_link(device);
    if (link == NULL || !say_hello(device, &hello))
        return;
    memset(&link->plane, 0, sizeof link->plane);
    int status = dure_attach(&link->plane, getenv("DURE_SOCKET"), &hello, reason);
    if (status != 0) {
        if (status < 0 && reason[0] == '\0')
            snprintf(reason, sizeof reason, "%s", strerror(-status));
        announce(device, reason);
        return;
    }
    link->in_use = true;
    put_in_force(device, link);
    free_link(device); /* the one before, where nobody uses it */
}

/* Whether the agent behind a stale attachment is gone for good. One that only hangs keeps its
 * end of the socket, and goes on with this client where it left off. */
static bool abandoned(const struct dure_link *link)
{
    struct pollfd end = {.fd = (int)link->plane.socket - 1, .events = POLLIN};
    int error_before = errno;
    bool gone = poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    errno = error_before;
    return gone;
}

/* Whether the agent behind an attachment lives. */
static bool fresh(const struct dure_link *link, uint64_t now_ns)
{
    uint64_t beat_ns = __atomic_load_n(&link->plane.control->heartbeat_ns, __ATOMIC_RELAXED);
    return now_ns < beat_ns + DURE_STALE_NS;
}

static struct dure_link *use(struct dure_device *device)
{
    for (;;) {
        struct dure_link *link = __atomic_load_n(&device->link, __ATOMIC_SEQ_CST);
        if (link == NULL)
            return NULL;
        __atomic_add_fetch(&link->users, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&device->link, __ATOMIC_SEQ_CST) == link)
            return link;
        dure_link_drop(link);
    }
}

static void attach_if_due(struct dure_device *device, const struct dure_link *stale,
                          uint64_t now_ns)
{
    if (now_ns < __atomic_load_n(&device->next_attach_ns, __ATOMIC_RELAXED))
        return;
    if (__atomic_exchange_n(&device->attaching, true, __ATOMIC_ACQUIRE))
        return;
    if (now_ns >= device->next_attach_ns) {
        __atomic_store_n(&device->next_attach_ns, now_ns + RETRY_NS, __ATOMIC_RELAXED);
        if (stale == NULL || abandoned(stale))
            try_attach(device);
        uint64_t ended_ns = dure_now_ns();
        bool slow = ended_ns - now_ns > SLOW_NS;
        if (slow)
            __atomic_store_n(&device->next_attach_ns,
                             ended_ns + (RETRY_SLOW_NS << device->slow_attaches), __ATOMIC_RELAXED);
        if (!slow)
            device->slow_attaches = 0;
        else if (device->slow_attaches < SLOWEST_DOUBLED)
            device->slow_attaches++;
    }
    __atomic_store_n(&device->attaching, false, __ATOMIC_RELEASE);
}

struct dure_link *dure_link_take(struct dure_device *device, uint64_t now_ns)
{
    struct dure_link *link = use(device);
    if (__builtin_expect(link != NULL && fresh(link, now_ns), 1))
        return link;
    attach_if_due(device, link, now_ns);
    if (link != NULL)
        dure_link_drop(link);
    return use(device);
}

struct dure_link *dure_link_peek(struct dure_device *device)
{
    return use(device);
}

struct dure_link *dure_link_any(void)
{
    for (int index = 0; dure_enabled && index < DURE_DEVICES; index++) {
        struct dure_device *device = __atomic_load_n(&devices[index], __ATOMIC_ACQUIRE);
        struct dure_link *link = device != NULL ? use(device) : NULL;
        if (link != NULL)
            return link;
    }
    return NULL;
}

void dure_link_drop(struct dure_link *link)
{
    __atomic_sub_fetch(&link->users, 1, __ATOMIC_RELEASE);
}

void dure_flag(struct dure_link *link, uint64_t flag, bool on)
{
    uint64_t *flags = &link->plane.slot->counters.flags;
    if (on)
        __atomic_or_fetch(flags, flag, __ATOMIC_RELAXED);
    else
        __atomic_and_fetch(flags, ~flag, __ATOMIC_RELAXED);
}
