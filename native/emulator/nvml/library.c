/* The NVML stand-in's beginning and end, and how it finds the broker's state. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int holds;
static int broker_socket = -1;
static pid_t socket_pid;
static const struct emu_state *state;

static void let_go(void)
{
    if (state != NULL)
        munmap((void *)state, sizeof *state);
    if (broker_socket >= 0)
        close(broker_socket);
    state = NULL;
    broker_socket = -1;
}

static bool get_hold(void)
{
    struct emu_answer answer;
    struct emu_request request = {.kind = EMU_OBSERVE};
    int fds[EMU_DESCRIPTORS] = {-1, -1, -1, -1};
    broker_socket = emu_connect(true);
    socket_pid = getpid();
    if (broker_socket < 0)
        return false;
    if (!emu_ask(broker_socket, &request, &answer, fds) || fds[0] < 0) {
        let_go();
        return false;
    }
    void *at = mmap(NULL, sizeof *state, PROT_READ, MAP_SHARED, fds[0], 0);
    close(fds[0]);
    if (at == MAP_FAILED) {
        let_go();
        return false;
    }
    state = at;
    return true;
}

/* Bring the state up to now: the broker publishes before it answers. One that went away is
 * replaced,
 * and so is a socket that a parent process opened. */
static bool refresh(void)
{
    struct emu_answer answer;
    struct emu_request request = {.kind = EMU_LIST};
    if (state != NULL && socket_pid == getpid() && emu_ask(broker_socket, &request, &answer, NULL))
        return true;
    let_go();
    return get_hold() && emu_ask(broker_socket, &request, &answer, NULL);
}

nvmlReturn_t library_state(const struct emu_state **to)
{
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = NVML_SUCCESS;
    if (holds == 0)
        result = NVML_ERROR_UNINITIALIZED;
    else if (!refresh())
        result = NVML_ERROR_GPU_IS_LOST;
    *to = state;
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t device_state(nvmlDevice_t device, const struct emu_gpu **gpu)
{
    const struct emu_state *all;
    nvmlReturn_t result = library_state(&all);
    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL || device->index >= all->gpus)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &all->gpu[device->index];
    return NVML_SUCCESS;
}

int64_t wall_offset_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000 - (int64_t)(emu_now_ns() / 1000);
}

API nvmlReturn_t nvmlInit_v2(void)
{
    pthread_mutex_lock(&lock);
    bool held = holds > 0 || get_hold();
    holds += held;
    pthread_mutex_unlock(&lock);
    return held ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return nvmlInit_v2();
}

API nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    bool held = holds > 0;
    if (held && --holds == 0)
        let_go();
    pthread_mutex_unlock(&lock);
    return held ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        int result;
        const char *text;
    } texts[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].result == result)
            return texts[i].text;
    return "Unknown Error";
}

static nvmlReturn_t put(char *to, unsigned int size, const char *text)
{
    NEED(to);
    if (size <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
    return put(version, size, "580.65.06");
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int size)
{
    return put(version, size, "13.580.65.06");
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    NEED(version);
    *version = 13000;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int size)
{
    char path[64];
    char line[1024];
    NEED(name);
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NVML_ERROR_NOT_FOUND;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = '\0';
    if (size > 0)
        snprintf(name, size, "%s", line);
    return got > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
