/* The emulated driver's beginning: connecting to the broker, the checks every call makes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"

struct driver driver = {
    .socket = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .ask_lock = PTHREAD_MUTEX_INITIALIZER,
    .sm_share = 1.0,
};

void lock_driver(void)
{
    pthread_mutex_lock(&driver.lock);
}

void unlock_driver(void)
{
    pthread_mutex_unlock(&driver.lock);
}

static void before_fork(void)
{
    lock_driver();
}

static void after_fork(void)
{
    unlock_driver();
}

/* As with the real driver, a child of a process that uses CUDA cannot use it. */
static void in_child(void)
{
    unlock_driver();
    if (driver.started) {
        driver.forked = true;
        close(driver.socket);
        driver.socket = -1;
    }
}

static bool matches_uuid(const char *text, int device)
{
    char name[48];
    const uint8_t *u = driver.state->gpu[device].uuid;
    int at = snprintf(name, sizeof name, "GPU-");
    for (int i = 0; i < 16; i++)
        at += snprintf(name + at, sizeof name - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    return strncmp(text, name, strlen(text)) == 0;
}

static int device_named(const char *text)
{
    if (strncmp(text, "GPU-", 4) == 0) {
        for (int i = 0; i < (int)driver.state->gpus; i++)
            if (matches_uuid(text, i))
                return i;
        return -1;
    }
    char *end;
    long index = strtol(text, &end, 10);
    bool valid = end != text && *end == '\0' && index >= 0 && index < (long)driver.state->gpus;
    return valid ? (int)index : -1;
}

/* CUDA_VISIBLE_DEVICES chooses and orders devices; the first bad entry ends the list. */
static void find_devices(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    driver.devices = 0;
    if (list == NULL) {
        for (uint32_t i = 0; i < driver.state->gpus; i++)
            driver.device[driver.devices++] = (int)i;
        return;
    }
    char *copy = strdup(list);
    char *rest = NULL;
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        int device = device_named(word);
        if (device < 0 || driver.devices == EMU_GPUS)
            break;
        driver.device[driver.devices++] = device;
    }
    free(copy);
}

static bool map_all(const struct emu_answer *answer, const int *fds)
{
    driver.arena_bytes = answer->bytes;
    driver.channel = mmap(NULL, sizeof *driver.channel, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0],
                          0);
    driver.arena = mmap(NULL, driver.arena_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, fds[1], 0);
    driver.state = mmap(NULL, sizeof *driver.state, PROT_READ, MAP_SHARED, fds[3], 0);
    driver.doorbell = fds[2];
    close(fds[0]);
    close(fds[1]);
    close(fds[3]);
    return driver.channel != MAP_FAILED && driver.arena != MAP_FAILED && driver.state != MAP_FAILED;
}

static CUresult start(void)
{
    struct emu_answer answer;
    int fds[EMU_DESCRIPTORS] = {-1, -1, -1, -1};
    driver.socket = emu_connect(true);
    if (driver.socket < 0)
        return CUDA_ERROR_NO_DEVICE;
    struct emu_request request = {.kind = EMU_HELLO};
    if (!emu_ask(driver.socket, &request, &answer, fds) || answer.result != 0)
        return CUDA_ERROR_NO_DEVICE;
    if (!map_all(&answer, fds))
        return CUDA_ERROR_OUT_OF_MEMORY;
    request.base = (uint64_t)driver.arena;
    if (!emu_ask(driver.socket, &request, &answer, NULL))
        return CUDA_ERROR_NO_DEVICE;
    find_devices();
    if (driver.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    const char *priority = getenv("CUDA_MPS_CLIENT_PRIORITY");
    const char *share = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    driver.priority = priority != NULL ? atoi(priority) : 0;
    if (driver.state->mps && share != NULL && atof(share) > 0 && atof(share) <= 100)
        driver.sm_share = atof(share) / 100;
    driver.pid = getpid();
    pthread_atfork(before_fork, after_fork, in_child);
    return CUDA_SUCCESS;
}

API CUresult cuInit(unsigned int flags)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (driver.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&once);
    CUresult result = driver.started ? CUDA_SUCCESS : start();
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&driver.started, true, __ATOMIC_RELEASE);
    else if (driver.socket >= 0) {
        close(driver.socket);
        driver.socket = -1;
    }
    pthread_mutex_unlock(&once);
    return result;
}

API CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult enter_without_lock(void)
{
    if (!__atomic_load_n(&driver.started, __ATOMIC_ACQUIRE) || driver.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    return (CUresult)__atomic_load_n(&driver.channel->poison, __ATOMIC_ACQUIRE);
}

CUresult enter(void)
{
    if (!__atomic_load_n(&driver.started, __ATOMIC_ACQUIRE) || driver.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    while (__builtin_expect(__atomic_load_n(&driver.channel->locked, __ATOMIC_ACQUIRE), 0))
        emu_futex_wait(&driver.channel->locked, 1, 100000000ull);
    return (CUresult)__atomic_load_n(&driver.channel->poison, __ATOMIC_ACQUIRE);
}

/* A program that ends in order takes its work off the device first; one that is killed does not. */
__attribute__((destructor)) static void take_leave(void)
{
    struct emu_request request = {.kind = EMU_TERMINATE};
    struct emu_answer answer;
    if (!driver.started || driver.forked || driver.pid != getpid())
        return;
    if (pthread_mutex_trylock(&driver.ask_lock) != 0)
        return;
    emu_ask(driver.socket, &request, &answer, NULL);
    pthread_mutex_unlock(&driver.ask_lock);
}

CUresult ask(struct emu_request request, struct emu_answer *answer)
{
    static struct emu_answer ignored;
    pthread_mutex_lock(&driver.ask_lock);
    struct emu_answer *to = answer != NULL ? answer : &ignored;
    bool answered = emu_ask(driver.socket, &request, to, NULL);
    CUresult result = answered ? (CUresult)to->result : CUDA_ERROR_UNKNOWN;
    pthread_mutex_unlock(&driver.ask_lock);
    return result;
}
