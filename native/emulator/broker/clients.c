/* Clients: who they are, what they ask over the socket, what is left to do when they die. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker.h"

/* Device memory of all GPUs, and as much again for pinned host memory and address reservations. */
uint64_t arena_bytes(void)
{
    return 2 * broker.config.memory_bytes * broker.config.gpus + (1ull << 30);
}

static struct client *client_of(int32_t pid)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL && broker.clients[i]->cuda && broker.clients[i]->pid == pid)
            return broker.clients[i];
    return NULL;
}

void clients_accept(void)
{
    int fd = accept4(broker.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        if (broker.clients[i] != NULL)
            continue;
        struct client *client = calloc(1, sizeof *client);
        client->socket = fd;
        client->pid = peer.pid;
        client->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
        client->arena_fd = -1;
        broker.clients[i] = client;
        return;
    }
    close(fd);
}

static void send_answer(const struct client *client, const struct emu_answer *answer,
                        const int *fds,
                        uint32_t count)
{
    char space[CMSG_SPACE(EMU_DESCRIPTORS * sizeof(int))] = {0};
    struct iovec part = {(void *)answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = space;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    sendmsg(client->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *shared(const char *name, uint64_t bytes, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void hello(struct client *client, struct emu_answer *answer)
{
    int channel_fd = -1;
    int arena_fd = -1;
    if (client->cuda)
        return;
    client->channel = shared("dure-emulator-channel", sizeof(struct emu_channel), &channel_fd);
    client->arena = shared("dure-emulator-arena", arena_bytes(), &arena_fd);
    if (client->channel == NULL || client->arena == NULL) {
        answer->result = EMU_OUT_OF_MEMORY;
        send_answer(client, answer, NULL, 0);
        return;
    }
    client->arena_fd = arena_fd;
    answer->bytes = arena_bytes();
    int fds[EMU_DESCRIPTORS] = {channel_fd, arena_fd, broker.doorbell, broker.state_fd};
    send_answer(client, answer, fds, EMU_DESCRIPTORS);
    close(channel_fd);
}

static int32_t attach(struct client *client, const struct emu_request *request,
                      struct emu_answer *answer)
{
    uint32_t device = request->device;
    if (emu_now_ns() < broker.gpu[device].unavailable_until_ns)
        return EMU_DEVICE_UNAVAILABLE;
    if (broker.state->gpu[device].used_bytes + broker.config.context_bytes >
        broker.config.memory_bytes)
        return EMU_OUT_OF_MEMORY;
    client->contexts[device]++;
    if (client->contexts[device] == 1) {
        client->used_bytes[device] += broker.config.context_bytes;
        answer->bytes = broker.config.context_ns;
    }
    return EMU_OK;
}

static int32_t detach(struct client *client, const struct emu_request *request)
{
    uint32_t device = request->device;
    if (client->contexts[device] == 0)
        return EMU_INVALID_VALUE;
    if (--client->contexts[device] == 0)
        client->used_bytes[device] = 0;
    return EMU_OK;
}

static int32_t take_memory(struct client *client, const struct emu_request *request)
{
    uint64_t free = broker.config.memory_bytes - broker.state->gpu[request->device].used_bytes;
    if (request->bytes > free)
        return EMU_OUT_OF_MEMORY;
    client->used_bytes[request->device] += request->bytes;
    return EMU_OK;
}

static int32_t give_memory(struct client *client, const struct emu_request *request)
{
    uint64_t *used = &client->used_bytes[request->device];
    *used -= request->bytes < *used ? request->bytes : *used;
    return EMU_OK;
}

/* ---- checkpoint ------------------------------------------------------------------------------ */

static void set_lock(struct client *target, uint32_t lock)
{
    target->lock = lock;
    __atomic_store_n(&target->channel->locked, lock != EMU_RUNNING, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < broker.config.gpus; i++)
        broker.gpu[i].dirty = true;
    if (lock == EMU_RUNNING) {
        emu_futex_wake(&target->channel->locked);
        engine_resume(target);
    }
}

static int32_t checkpoint(const struct emu_request *request, struct emu_answer *answer)
{
    struct client *target = client_of(request->pid);
    if (target == NULL)
        return EMU_INVALID_VALUE;
    static const struct {
        uint32_t kind, from, to;
    } moves[] = {
        {EMU_LOCK, EMU_RUNNING, EMU_LOCKED},
        {EMU_CHECKPOINT, EMU_LOCKED, EMU_CHECKPOINTED},
        {EMU_RESTORE, EMU_CHECKPOINTED, EMU_LOCKED},
        {EMU_UNLOCK, EMU_LOCKED, EMU_RUNNING},
    };
    answer->value = target->lock;
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        if (moves[i].kind != request->kind)
            continue;
        if (target->lock != moves[i].from)
            return EMU_ILLEGAL_STATE;
        for (uint32_t gpu = 0; gpu < broker.config.gpus; gpu++) {
            if (request->kind == EMU_CHECKPOINT) {
                target->checkpointed_bytes[gpu] = target->used_bytes[gpu];
                target->used_bytes[gpu] = 0;
            } else if (request->kind == EMU_RESTORE) {
                target->used_bytes[gpu] = target->checkpointed_bytes[gpu];
            }
        }
        set_lock(target, moves[i].to);
    }
    return EMU_OK;
}

static int32_t terminate(struct client *client, const struct emu_request *request)
{
    struct client *target = request->pid != 0 ? client_of(request->pid) : client;
    if (target == NULL || !target->cuda)
        return EMU_INVALID_VALUE;
    target->terminated = true;
    engine_drop(target, EMU_CLIENT_TERMINATED);
    return EMU_OK;
}

static void list(struct emu_answer *answer)
{
    answer->value = broker.config.mps;
    answer->bytes = (uint64_t)getpid();
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL && broker.clients[i]->cuda)
            answer->pid[answer->pids++] = broker.clients[i]->pid;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int32_t serve(struct client *client, const struct emu_request *request,
                     struct emu_answer *answer)
{
    switch (request->kind) {
    case EMU_ATTACH:
        return attach(client, request, answer);
    case EMU_DETACH:
        return detach(client, request);
    case EMU_TAKE:
        return take_memory(client, request);
    case EMU_GIVE:
        return give_memory(client, request);
    case EMU_LOCK:
    case EMU_UNLOCK:
    case EMU_CHECKPOINT:
    case EMU_RESTORE:
    case EMU_GET_STATE:
        return checkpoint(request, answer);
    case EMU_TERMINATE:
        return terminate(client, request);
    case EMU_SET_MPS:
        broker.config.mps = request->value != 0;
        config_remember_mps(broker.config.mps);
        for (uint32_t i = 0; i < broker.config.gpus; i++)
            broker.gpu[i].dirty = true;
        return EMU_OK;
    case EMU_LIST:
        list(answer);
        return EMU_OK;
    case EMU_QUIT:
        broker.quit = true;
        return EMU_OK;
    default:
        return EMU_INVALID_VALUE;
    }
}

void clients_serve(struct client *client)
{
    struct emu_request request;
    struct emu_answer answer = {0};
    ssize_t got = recv(client->socket, &request, sizeof request, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got != (ssize_t)sizeof request) {
        client->dead = true;
        return;
    }
    config_reload_mode(&broker.config);
    if (request.kind == EMU_HELLO && request.base == 0) {
        hello(client, &answer);
        return;
    }
    if (request.kind == EMU_OBSERVE) {
        send_answer(client, &answer, &broker.state_fd, 1);
        return;
    }
    if (request.kind == EMU_HELLO) {
        client->base = request.base;
        client->cuda = true;
    } else if (request.device >= broker.config.gpus) {
        answer.result = EMU_INVALID_VALUE;
    } else {
        answer.result = serve(client, &request, &answer);
    }
    books_update();
    send_answer(client, &answer, NULL, 0);
}

/* Under MPS all clients share one hardware context: one that is killed in mid-kernel faults it. */
static void spread_fault(const struct client *dead)
{
    for (uint32_t device = 0; device < broker.config.gpus; device++) {
        if (!engine_in_kernel(dead, device))
            continue;
        broker.gpu[device].unavailable_until_ns = emu_now_ns() + broker.config.unavailable_ns;
        for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
            struct client *other = broker.clients[i];
            if (other != NULL && other != dead && other->cuda && other->contexts[device] > 0)
                engine_drop(other, EMU_ILLEGAL_ADDRESS);
        }
    }
}

void clients_bury(struct client *client)
{
    if (client->cuda) {
        if (broker.config.mps && broker.config.shared_fate && !client->terminated)
            spread_fault(client);
        engine_drop(client, 0);
    }
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] == client)
            broker.clients[i] = NULL;
    for (uint32_t i = 0; i < EMU_STREAMS; i++)
        free(client->streams[i]);
    if (client->channel != NULL)
        munmap(client->channel, sizeof *client->channel);
    if (client->arena != NULL)
        munmap(client->arena, arena_bytes());
    if (client->arena_fd >= 0)
        close(client->arena_fd);
    if (client->pidfd >= 0)
        close(client->pidfd);
    close(client->socket);
    free(client);
    books_update();
}
