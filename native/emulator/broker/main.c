/* The broker process: sleeps until a client needs it or something ends in modelled time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker.h"

struct broker broker;

/* Ends are seen so late at most: sooner where somebody waits for them. */
#define POLLED_PAUSE_NS 20000ull /* a stream waits for a word in memory */
#define WAITED_PAUSE_NS 20000ull
#define UNWAITED_PAUSE_NS 200000ull
#define LONGEST_PAUSE_NS 500000000ull

static void on_signal(int number)
{
    (void)number;
    broker.quit = true;
}

/* One broker a folder: the lock is held for life. */
static bool become_the_one(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/broker.lock", emu_directory());
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static bool listen_there(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path, sizeof address.sun_path, "%s/broker.sock", emu_directory());
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return false;
    unlink(address.sun_path);
    broker.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (broker.listener < 0)
        return false;
    mode_t mask = umask(0);
    bool bound = bind(broker.listener, (struct sockaddr *)&address, sizeof address) == 0;
    umask(mask);
    return bound && listen(broker.listener, EMU_CLIENTS) == 0;
}

static void tell_clients(uint32_t sleeping, uint64_t due_ns)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client == NULL || !client->cuda)
            continue;
        __atomic_store_n(&client->channel->due_ns, due_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&client->channel->sleeping, sleeping, __ATOMIC_SEQ_CST);
    }
}

static uint64_t pause_ns(uint64_t now_ns, uint64_t next_ns)
{
    if (broker.polls)
        return POLLED_PAUSE_NS;
    if (next_ns == UINT64_MAX)
        return LONGEST_PAUSE_NS;
    uint64_t unwaited = next_ns > now_ns + UNWAITED_PAUSE_NS ? next_ns : now_ns + UNWAITED_PAUSE_NS;
    uint64_t waited = engine_waited_ns(next_ns);
    uint64_t wake = waited < unwaited ? waited : unwaited;
    uint64_t left = wake > now_ns + WAITED_PAUSE_NS ? wake - now_ns : WAITED_PAUSE_NS;
    return left > BOOKS_WINDOW_NS ? BOOKS_WINDOW_NS : left;
}

static void serve_sockets(const struct pollfd *polled, struct client *const *owner, uint32_t count)
{
    if (polled[0].revents != 0) {
        uint64_t rung;
        if (read(broker.doorbell, &rung, sizeof rung) < 0 && errno != EAGAIN)
            broker.quit = true;
    }
    if (polled[1].revents != 0)
        clients_accept();
    for (uint32_t i = 2; i < count; i++) {
        if (polled[i].revents == 0 || owner[i]->dead)
            continue;
        if (polled[i].fd == owner[i]->pidfd)
            owner[i]->dead = true;
        else if ((polled[i].revents & POLLIN) != 0)
            clients_serve(owner[i]);
        else
            owner[i]->dead = true;
    }
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL && broker.clients[i]->dead)
            clients_bury(broker.clients[i]);
}

static void sleep_and_serve(uint64_t pause)
{
    static struct pollfd polled[2 + 2 * EMU_CLIENTS];
    static struct client *owner[2 + 2 * EMU_CLIENTS];
    uint32_t count = 2;
    polled[0] = (struct pollfd){broker.doorbell, POLLIN, 0};
    polled[1] = (struct pollfd){broker.listener, POLLIN, 0};
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client == NULL)
            continue;
        owner[count] = client;
        polled[count++] = (struct pollfd){client->socket, POLLIN, 0};
        owner[count] = client;
        polled[count++] = (struct pollfd){client->pidfd, POLLIN, 0};
    }
    struct timespec left = {(time_t)(pause / 1000000000ull), (long)(pause % 1000000000ull)};
    int ready = ppoll(polled, count, &left, NULL);
    if (ready > 0) {
        engine_advance(emu_now_ns());
        serve_sockets(polled, owner, count);
    }
}

static bool lonely_too_long(uint64_t now_ns)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL)
            broker.last_client_ns = now_ns;
    return now_ns - broker.last_client_ns > broker.config.idle_exit_ns;
}

static void loop(void)
{
    while (!broker.quit) {
        uint64_t now = emu_now_ns();
        engine_advance(now);
        books_sample();
        books_update();
        engine_ring_bells();
        if (lonely_too_long(now))
            break;
        uint64_t next = engine_next_ns();
        tell_clients(1, next);
        uint64_t pause = engine_has_commands() ? 0 : pause_ns(emu_now_ns(), next);
        sleep_and_serve(pause);
        tell_clients(0, next);
    }
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    name = name != NULL ? name + 1 : argv[0];
    if (argc > 1 || strcmp(name, "nvidia-cuda-mps-control") == 0)
        return control_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    prctl(PR_SET_TIMERSLACK, 1ul);
    config_load(&broker.config);
    config_reload_mode(&broker.config);
    broker.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mkdir(emu_directory(), 0755);
    if (broker.doorbell < 0 || !become_the_one())
        return 1;
    books_open();
    if (!listen_there())
        return 1;
    broker.sim_ns = emu_now_ns();
    broker.window_ns = broker.sim_ns;
    broker.last_client_ns = broker.sim_ns;
    loop();
    return 0;
}
