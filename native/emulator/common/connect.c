/* Finding the broker, or starting it, and talking to it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

#define START_TRIES 400
#define START_PAUSE_US 5000

uint64_t emu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void emu_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec left = {(time_t)(timeout_ns / 1000000000ull),
                            (long)(timeout_ns % 1000000000ull)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &left, NULL, 0);
}

void emu_futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

const char *emu_directory(void)
{
    static char path[100];
    const char *chosen = getenv("DURE_EMULATOR_DIR");
    if (chosen != NULL && chosen[0] != '\0' && strlen(chosen) < sizeof path - 1)
        return chosen;
    if (path[0] == '\0')
        snprintf(path, sizeof path, "/tmp/dure-emulator-%u", (unsigned)getuid());
    return path;
}

static int try_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/broker.sock",
                          emu_directory());
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* The broker lies beside the library that asks for it. */
static bool broker_path(char *path, size_t size)
{
    Dl_info info;
    const char *chosen = getenv("DURE_EMULATOR_BROKER");
    if (chosen != NULL) {
        snprintf(path, size, "%s", chosen);
        return true;
    }
    if (dladdr((void *)emu_connect, &info) == 0 || info.dli_fname == NULL)
        return false;
    char real[4096];
    if (realpath(info.dli_fname, real) == NULL && realpath("/proc/self/exe", real) == NULL)
        return false; /* a program found through PATH knows only its name */
    char *slash = strrchr(real, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return snprintf(path, size, "%s/dure-broker", real) < (int)size;
}

/* The environment without preloads: the broker is no tenant. */
static char **broker_environment(void)
{
    extern char **environ;
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    if (copy == NULL)
        return environ;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            copy[kept++] = environ[i];
    return copy;
}

/* In the grandchild: nothing of the program that started it may stay behind. */
static void become_broker(const char *path, char **environment)
{
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    char *arguments[] = {(char *)path, NULL};
    execve(path, arguments, environment);
    _exit(127);
}

/* Not fork(): the handlers of the host program must not run. */
static pid_t bare_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void start_broker(void)
{
    char path[4096];
    if (!broker_path(path, sizeof path))
        return;
    char **environment = broker_environment();
    pid_t child = bare_fork();
    if (child == 0) {
        if (bare_fork() == 0)
            become_broker(path, environment);
        _exit(0);
    }
    if (child > 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
}

int emu_connect(bool start)
{
    int fd = try_connect();
    if (fd >= 0 || !start)
        return fd;
    mkdir(emu_directory(), 0755);
    char path[200];
    snprintf(path, sizeof path, "%s/start.lock", emu_directory());
    int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (lock < 0)
        return -1;
    while (flock(lock, LOCK_EX) != 0 && errno == EINTR)
        continue;
    fd = try_connect();
    if (fd < 0)
        start_broker();
    for (int i = 0; fd < 0 && i < START_TRIES; i++) {
        usleep(START_PAUSE_US);
        fd = try_connect();
    }
    close(lock);
    return fd;
}

static void take_descriptors(struct msghdr *message, int *fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

bool emu_ask(int socket, const struct emu_request *request, struct emu_answer *answer, int *fds)
{
    while (send(socket, request, sizeof *request, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return false;
    char space[CMSG_SPACE(EMU_DESCRIPTORS * sizeof(int))];
    struct iovec part = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fds != NULL) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
    }
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < (ssize_t)offsetof(struct emu_answer, pid))
        return false;
    if (fds != NULL)
        take_descriptors(&message, fds);
    return true;
}
