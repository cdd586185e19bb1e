/* The client's side of registration: say hello, receive the descriptors, map them.
 *
 * The mappings are not inherited by children: a forked child is no client. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "words.h"

#define REASON_BYTES 128
#define DESCRIPTORS (3 + DURE_CLIENTS)
/* An agent answers in well under a millisecond; a program must not wait for one that hangs. */
#define ANSWER_WITHIN_US 500000

enum { PLAN, ROTATION, OWN_SLOT, SLOTS };

struct received {
    struct dure_welcome welcome;
    int descriptors[DESCRIPTORS];
    size_t count;
};

static int refuse(char *reason, int status, const char *what)
{
    if (status < 0)
        snprintf(reason, REASON_BYTES, "%s: %s", what, strerror(-status));
    else
        snprintf(reason, REASON_BYTES, "%s", what);
    return status;
}

static void close_all(const struct received *received)
{
    for (size_t index = 0; index < received->count; index++)
        close(received->descriptors[index]);
}

/* Whether a call that a signal ended is to be made again. Its own time limit begins anew then, so
 * that a program with a timer would wait for ever where nobody answers. */
static bool again(uint64_t began_ns)
{
    return errno == EINTR && dure_now_ns() - began_ns < ANSWER_WITHIN_US * 1000ull;
}

static int open_socket(const char *path)
{
    uint64_t began_ns = dure_now_ns();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int handle = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (handle < 0)
        return -errno;
    struct timeval within = {0, ANSWER_WITHIN_US};
    setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &within, sizeof(within));
    setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof(within));
    int done;
    do {
        done = connect(handle, (const struct sockaddr *)&address, sizeof(address));
    } while (done < 0 && again(began_ns));
    if (done < 0) {
        int error = errno;
        close(handle);
        return -error;
    }
    return handle;
}

/* One message with the descriptors it carries; 0 or -errno. */
static int receive(int handle, struct received *received)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(received->descriptors))];
    } control;
    struct iovec words = {&received->welcome, sizeof(received->welcome)};
    struct msghdr message = {.msg_iov = &words, .msg_iovlen = 1, .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    uint64_t began_ns = dure_now_ns();
    ssize_t bytes;
    received->count = 0;
    do {
        bytes = recvmsg(handle, &message, MSG_CMSG_CLOEXEC);
    } while (bytes < 0 && again(began_ns));
    if (bytes < 0)
        return -errno;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (received->count + count > DESCRIPTORS)
            count = DESCRIPTORS - received->count;
        memcpy(&received->descriptors[received->count], CMSG_DATA(header), count * sizeof(int));
        received->count += count;
    }
    if (message.msg_flags & MSG_CTRUNC)
        return -EMFILE;
    return bytes == sizeof(received->welcome) ? 0 : bytes == 0 ? -ECONNRESET : -EPROTO;
}

/* The first bytes of a shared memory; NULL where it is too small or cannot be mapped. */
static void *map(int descriptor, size_t bytes, int protection)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0 || about.st_size < (off_t)bytes)
        return NULL;
    void *mapped = mmap(NULL, bytes, protection, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    madvise(mapped, bytes, MADV_DONTFORK);
    return mapped;
}

static bool map_all(struct dure_plane *plane, const struct received *received)
{
    const int *descriptors = received->descriptors;
    plane->control = map(descriptors[PLAN], sizeof(struct dure_control), PROT_READ);
    plane->rotation = map(descriptors[ROTATION], sizeof(struct dure_rotation),
                          PROT_READ | PROT_WRITE);
    plane->slot = map(descriptors[OWN_SLOT], sizeof(struct dure_slot), PROT_READ | PROT_WRITE);
    bool complete = plane->control != NULL && plane->rotation != NULL && plane->slot != NULL;
    for (size_t client = 0; client < DURE_CLIENTS; client++) {
        if (client == plane->client) {
            plane->clients[client] = &plane->slot->activity;
            continue;
        }
        plane->clients[client] = map(descriptors[SLOTS + client], DURE_PAGE_BYTES, PROT_READ);
        complete = complete && plane->clients[client] != NULL;
    }
    return complete;
}

static void unmap(const void *mapped, size_t bytes)
{
    if (mapped != NULL)
        munmap((void *)(uintptr_t)mapped, bytes);
}

void dure_detach(struct dure_plane *plane)
{
    if (plane->pid == (uint32_t)getpid()) {
        if (plane->rotation != NULL && plane->control != NULL)
            open_word(plane, closed_word(plane)); /* nobody waits for who left */
        unmap(plane->control, sizeof(struct dure_control));
        if (!plane->keeps_rotation)
            unmap(plane->rotation, sizeof(struct dure_rotation));
        unmap(plane->slot, sizeof(struct dure_slot));
        for (size_t client = 0; client < DURE_CLIENTS; client++)
            if (client != plane->client)
                unmap(plane->clients[client], DURE_PAGE_BYTES);
        if (plane->socket != 0)
            close((int)plane->socket - 1);
    }
    memset(plane, 0, sizeof(*plane));
}

static bool same_build(const struct dure_control *control)
{
    return load_first(&control->magic) == DURE_ABI_MAGIC && control->version == DURE_ABI_VERSION &&
           control->plan_bytes == sizeof(struct dure_control) &&
           control->slot_bytes == sizeof(struct dure_slot);
}

static void introduce(struct dure_plane *plane)
{
    struct dure_slot *slot = plane->slot;
    store(&slot->activity.tenant, plane->tenant);
    store(&slot->activity.pid, plane->pid);
    store(&slot->counters.mark, load(&plane->control->tick));
    store(&slot->version, DURE_ABI_VERSION);
    store_last(&slot->magic, DURE_ABI_MAGIC);
}

static int check_welcome(const struct received *received, char *reason)
{
    const struct dure_welcome *welcome = &received->welcome;
    if (welcome->magic != DURE_ABI_MAGIC)
        return refuse(reason, -EPROTO, "the answer is not an agent's");
    if (welcome->status != DURE_WELCOME) {
        snprintf(reason, REASON_BYTES, "%.*s", REASON_BYTES - 1, welcome->reason);
        return welcome->status <= DURE_REFUSED_DEVICE ? (int)welcome->status : -EPROTO;
    }
    if (welcome->version != DURE_ABI_VERSION)
        return refuse(reason, DURE_REFUSED_VERSION, "the agent is of another version");
    if (received->count != DESCRIPTORS || welcome->client >= DURE_CLIENTS ||
        welcome->tenant >= DURE_TENANTS)
        return refuse(reason, -EPROTO, "the agent's answer is incomplete");
    return 0;
}

static int join(struct dure_plane *plane, int handle, const struct dure_hello *hello, char *reason)
{
    struct received received;
    uint64_t began_ns = dure_now_ns();
    ssize_t sent;
    do {
        sent = send(handle, hello, sizeof(*hello), MSG_NOSIGNAL);
    } while (sent < 0 && again(began_ns));
    if (sent < 0)
        return refuse(reason, -errno, "no hello could be said to the agent");
    int status = receive(handle, &received);
    if (status < 0)
        refuse(reason, status, "the agent did not answer");
    else
        status = check_welcome(&received, reason);
    if (status == 0) {
        plane->pid = (uint32_t)getpid();
        plane->client = received.welcome.client;
        plane->tenant = received.welcome.tenant;
        if (!map_all(plane, &received))
            status = refuse(reason, -ENOMEM, "the agent's memory cannot be mapped");
        else if (!same_build(plane->control))
            status = refuse(reason, DURE_REFUSED_VERSION, "the agent is of another build");
        else
            introduce(plane);
    }
    close_all(&received);
    return status;
}

int dure_attach(struct dure_plane *plane, const char *socket_path, const struct dure_hello *hello,
                char *reason)
{
    struct dure_plane attached = {0};
    int handle = open_socket(socket_path);
    reason[0] = '\0';
    if (handle < 0)
        return refuse(reason, handle, "no agent can be reached");
    int status = join(&attached, handle, hello, reason);
    if (status != 0) {
        dure_detach(&attached);
        close(handle);
        return status;
    }
    attached.socket = (uint32_t)handle + 1;
    *plane = attached;
    return 0;
}
