/* Exercises the data plane with real threads and processes; driven by test_plane_harness.py.
 *
 *   plane_harness bench                cost of the fast path
 *   plane_harness threads SECONDS      four clients of two threads each in one process
 *   plane_harness shares SECONDS       two that always have work, with budgets of 3 to 1
 *   plane_harness processes SECONDS    clients as processes, one of them killed again and again
 *   plane_harness scribble SECONDS     the same beside one that scribbles over all it may write
 *   plane_harness agent-dies           a held thread passes when the heartbeat stops
 *   plane_harness wake                 how soon a held thread passes after what it waited for
 *   plane_harness longest              a held thread passes in the end, signals or not
 *
 * Prints "name value" lines, and exits with 1 where something is wrong. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plane/plane.h"

#define CLIENT_COUNT 4
#define MS 1000000ull
#define SECOND 1000000000ull

struct world {
    struct dure_control control;
    struct dure_rotation rotation;
    struct dure_slot slots[DURE_CLIENTS];
    uint64_t stop;
};

static struct world *world;
static struct dure_plan draft; /* the agent's */

static void fail(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

static uint64_t get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void make_world(void)
{
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED)
        fail("no memory");
    struct dure_control *control = &world->control;
    control->sms = 132;
    control->group_sms = 8;
    control->tick = 1;
    control->gated = 1;
    control->heartbeat_ns = dure_now_ns();
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        control->tenants[client].clients = 1ull << client;
        control->live_clients |= 1ull << client;
        world->slots[client].activity.tenant = client;
    }
}

static struct dure_plane view(uint32_t client)
{
    struct dure_plane plane = {.control = &world->control, .rotation = &world->rotation};
    plane.slot = &world->slots[client];
    plane.client = plane.tenant = client;
    for (uint32_t other = 0; other < DURE_CLIENTS; other++)
        plane.clients[other] = &world->slots[other].activity;
    return plane;
}

/* Two squads: all with budgets, then all but the first, which yield to it. */
static void write_draft(uint64_t epoch)
{
    draft.epoch = epoch;
    draft.squads = 2;
    draft.promised = epoch & 1;
    for (uint32_t squad = 0; squad < 2; squad++) {
        draft.duration_ns[squad] = 2 * MS;
        for (uint32_t tenant = 0; tenant < CLIENT_COUNT; tenant++) {
            struct dure_order *order = &draft.orders[squad][tenant];
            order->member = squad == 0 || tenant != 0;
            order->budget_ns = squad == 0 ? MS / 2 : 0;
            order->inflight_ns = 400000 + 1000 * (epoch % 7);
            order->yields = tenant != 0 ? 1 : 0;
            order->linger_ns = tenant == 0 ? 20000 : 0;
            order->group_first = (uint16_t)(4 * tenant);
            order->group_count = 4;
            order->beside = ~(1ull << tenant);
        }
    }
}

static void publish(uint64_t epoch)
{
    write_draft(epoch);
    dure_publish(&world->control, &world->rotation, &draft);
}

static const struct dure_activity *const *pages(void)
{
    static const struct dure_activity *all[DURE_CLIENTS];
    for (uint32_t client = 0; client < DURE_CLIENTS; client++)
        all[client] = &world->slots[client].activity;
    return all;
}

/* One round of the agent: beat, plan, end squads. */
static void agent_round(uint64_t number)
{
    const struct timespec pause = {0, (long)(2 * MS)};
    dure_store(&world->control.heartbeat_ns, dure_now_ns());
    if (number % 3 == 0)
        publish(number / 3 + 1);
    dure_turn_over(&world->control, &world->rotation, pages(), dure_now_ns());
    dure_store(&world->control.tick, number + 2);
    nanosleep(&pause, NULL);
}

/* Submitted work ends at once for this purpose; draining says so. */
struct work {
    struct dure_plane *plane;
    uint64_t outstanding_ns;
    uint64_t launches;
    uint64_t longest_hold_ns;
};

static bool drain(void *context, uint64_t now_ns)
{
    struct work *work = context;
    if (work->outstanding_ns == 0)
        return false;
    dure_finished(work->plane, work->outstanding_ns, work->outstanding_ns, now_ns);
    work->outstanding_ns = 0;
    return true;
}

static void launch_once(struct work *work, uint64_t number)
{
    struct dure_launch launch = {.kernel_class = (uint32_t)(number % DURE_CLASSES),
                                 .predicted_ns = 20000 + 1000 * (number % 5)};
    uint64_t held = dure_hold(work->plane, &launch, drain, work);
    if (held > work->longest_hold_ns)
        work->longest_hold_ns = held;
    dure_launched(work->plane, &launch, dure_now_ns());
    work->launches++;
    work->outstanding_ns += launch.predicted_ns;
    struct dure_set set = dure_set_now(work->plane, dure_now_ns());
    if (set.group_count != 0 && set.group_first + set.group_count > 16)
        fail("a set of compute units that the device does not have");
    if (number % 16 == 0) {
        struct dure_sample sample = {.function = number, .blocks = 1, .threads = 32, .resident = 1};
        sample.duration_ns = (uint32_t)launch.predicted_ns;
        sample.company = dure_company(work->plane, dure_now_ns());
        dure_sampled(work->plane, &sample);
    }
    if (number % 8 == 7)
        drain(work, dure_now_ns());
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *run_thread(void *argument)
{
    struct work work = {.plane = argument};
    for (uint64_t number = 0; get(&world->stop) == 0; number++) {
        launch_once(&work, number);
        if (number % 64 == 63) {
            drain(&work, dure_now_ns());
            dure_drained(work.plane, dure_now_ns());
            usleep(200);
        }
    }
    drain(&work, dure_now_ns());
    return (void *)(uintptr_t)work.launches;
}

static void take_all_samples(uint64_t *tails)
{
    struct dure_sample samples[DURE_SAMPLES];
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        uint32_t count = dure_take_samples(&world->slots[client], &tails[client], samples,
                                           DURE_SAMPLES);
        for (uint32_t index = 0; index < count; index++)
            if (samples[index].threads != 32 || samples[index].duration_ns < 20000)
                fail("a sample that nobody wrote");
    }
}

static void threads(double seconds)
{
    enum { PER_CLIENT = 2, COUNT = CLIENT_COUNT * PER_CLIENT };
    static struct dure_plane planes[CLIENT_COUNT];
    pthread_t running[COUNT];
    uint64_t tails[CLIENT_COUNT] = {0};
    uint64_t launches = 0;
    for (uint32_t client = 0; client < CLIENT_COUNT; client++)
        planes[client] = view(client);
    publish(1);
    for (int index = 0; index < COUNT; index++)
        pthread_create(&running[index], NULL, run_thread, &planes[index % CLIENT_COUNT]);
    uint64_t until = dure_now_ns() + (uint64_t)(seconds * 1e9);
    for (uint64_t number = 0; dure_now_ns() < until; number++) {
        agent_round(number);
        take_all_samples(tails);
    }
    dure_store(&world->stop, 1);
    for (int index = 0; index < COUNT; index++) {
        void *result;
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        pthread_join(running[index], &result);
        launches += (uintptr_t)result;
    }
    uint64_t counted = 0;
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        counted += get(&world->slots[client].counters.launches);
        dure_drained(&planes[client], dure_now_ns());
        if (get(&world->slots[client].activity.inflight_ns) != 0)
            fail("work in flight after all ended");
        if (get(&world->slots[client].activity.waiting) != 0)
            fail("somebody waits after all ended");
    }
    if (counted != launches)
        fail("launches were lost");
    if (world->rotation.sleepers != 0)
        fail("a sleeper was left behind");
    printf("launches %lu\nedges %lu\n", (unsigned long)launches,
           (unsigned long)world->rotation.edges);
}

static void *always_works(void *argument)
{
    struct work work = {.plane = argument};
    for (uint64_t number = 0; get(&world->stop) == 0; number++)
        launch_once(&work, number);
    return NULL;
}

static void shares(double seconds)
{
    static struct dure_plane planes[2];
    pthread_t running[2];
    write_draft(1);
    draft.squads = 1;
    draft.duration_ns[0] = 0;
    memset(draft.orders[0], 0, sizeof(draft.orders[0]));
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        planes[tenant] = view(tenant);
        draft.orders[0][tenant].member = 1;
        draft.orders[0][tenant].budget_ns = tenant == 0 ? 3 * MS : MS;
    }
    dure_publish(&world->control, &world->rotation, &draft);
    for (int tenant = 0; tenant < 2; tenant++)
        pthread_create(&running[tenant], NULL, always_works, &planes[tenant]);
    uint64_t until = dure_now_ns() + (uint64_t)(seconds * 1e9);
    while (dure_now_ns() < until) {
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        usleep(5000);
    }
    double first = (double)get(&world->slots[0].counters.gpu_ns);
    double second = (double)get(&world->slots[1].counters.gpu_ns);
    dure_store(&world->stop, 1);
    dure_store(&world->control.gated, 0);
    dure_wake(&world->rotation);
    for (int tenant = 0; tenant < 2; tenant++)
        pthread_join(running[tenant], NULL);
    printf("edges %lu\nratio %.3f\n", (unsigned long)world->rotation.edges, first / second);
}

/* ---- processes ------------------------------------------------------------------------------- */

static pid_t start_client(uint32_t client)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct dure_plane plane = view(client);
    struct work work = {.plane = &plane};
    for (uint64_t number = 0; get(&world->stop) == 0; number++) {
        launch_once(&work, number);
        if (number % 32 == 31) {
            drain(&work, dure_now_ns());
            dure_drained(&plane, dure_now_ns());
            usleep(300);
        }
    }
    _exit(work.longest_hold_ns > DURE_LONGEST_HOLD_NS + SECOND ? 3 : 0);
}

static uint64_t random_word(void)
{
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A tenant that writes rubbish wherever it can. */
static pid_t start_scribbler(uint32_t client)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    uint64_t *slot = (uint64_t *)&world->slots[client];
    uint64_t *rotation = (uint64_t *)&world->rotation;
    while (get(&world->stop) == 0) {
        for (int word = 0; word < 16; word++)
            slot[random_word() % (sizeof(struct dure_activity) / 8)] =
                random_word() >> (random_word() % 64);
        slot[random_word() % (sizeof(struct dure_slot) / 8)] = random_word();
        rotation[random_word() % (sizeof(struct dure_rotation) / 8)] = random_word();
        usleep(500);
    }
    _exit(0);
}

static void free_slot(uint32_t client)
{
    dure_store(&world->control.tenants[client].clients, 0);
    dure_store(&world->control.live_clients, world->control.live_clients & ~(1ull << client));
    memset(&world->slots[client], 0, sizeof(world->slots[client]));
    world->slots[client].activity.tenant = client;
}

static void take_slot(uint32_t client)
{
    dure_store(&world->control.tenants[client].clients, 1ull << client);
    dure_store(&world->control.live_clients, world->control.live_clients | 1ull << client);
}

static uint64_t progress_of(uint32_t client)
{
    return get(&world->slots[client].counters.launches);
}

/* Everybody but `victim` must have launched since; the caller gives them time. */
static void expect_progress(uint64_t *before, uint32_t victim)
{
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        if (client == victim)
            continue;
        if (progress_of(client) == before[client])
            fail("a bystander made no progress for seconds");
        before[client] = progress_of(client);
    }
}

static void processes(double seconds, bool scribbles)
{
    const uint32_t victim = CLIENT_COUNT - 1;
    pid_t children[CLIENT_COUNT];
    uint64_t before[CLIENT_COUNT] = {0};
    uint64_t kills = 0;
    publish(1);
    for (uint32_t client = 0; client < CLIENT_COUNT; client++)
        children[client] = scribbles && client == victim ? start_scribbler(client)
                                                         : start_client(client);
    uint64_t until = dure_now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t look = dure_now_ns() + 3 * SECOND;
    for (uint64_t number = 0; dure_now_ns() < until; number++) {
        agent_round(number);
        if (dure_now_ns() > look) {
            expect_progress(before, victim);
            look = dure_now_ns() + 3 * SECOND;
        }
        if (scribbles || number % 5 != 4)
            continue;
        usleep((useconds_t)(random_word() % 2000));
        kill(children[victim], SIGKILL);
        waitpid(children[victim], NULL, 0);
        kills++;
        free_slot(victim);
        take_slot(victim);
        children[victim] = start_client(victim);
    }
    expect_progress(before, victim);
    dure_store(&world->stop, 1);
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        int status;
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        waitpid(children[client], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail("a client crashed or was held for too long");
    }
    printf("kills %lu\nedges %lu\n", (unsigned long)kills, (unsigned long)world->rotation.edges);
}

/* ---- holds ----------------------------------------------------------------------------------- */

/* A plan in which client 1 has no part: it is held until something else happens. */
static void publish_without_second(void)
{
    draft.epoch = 1;
    draft.squads = 1;
    draft.orders[0][0].member = 1;
    dure_publish(&world->control, &world->rotation, &draft);
}

static void *beat_for(void *argument)
{
    uint64_t until = dure_now_ns() + *(uint64_t *)argument;
    while (dure_now_ns() < until) {
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        usleep(5000);
    }
    return NULL;
}

static uint64_t hold_while_beating(uint64_t beat_ns)
{
    struct dure_plane plane = view(1);
    struct dure_launch launch = {.kernel_class = DURE_CLASS_COMPUTE, .predicted_ns = 1000};
    pthread_t heart;
    publish_without_second();
    pthread_create(&heart, NULL, beat_for, &beat_ns);
    errno = 77;
    uint64_t held = dure_hold(&plane, &launch, NULL, NULL);
    if (errno != 77)
        fail("a hold changed errno");
    pthread_join(heart, NULL);
    const struct dure_counters *counters = &world->slots[1].counters;
    if (counters->gated_ns < held / 2 || counters->gated_ns > held)
        fail("a hold was counted wrong");
    if (counters->gated_by_ns[DURE_HELD_BY_BUDGET] != counters->gated_ns)
        fail("a hold was counted for the wrong reason");
    return held;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void longest(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 7000}, {0, 7000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    uint64_t held = hold_while_beating(4 * SECOND);
    printf("held_ns %lu\nalarms %d\n", (unsigned long)held, (int)alarms);
}

/* ---- waking ---------------------------------------------------------------------------------- */

enum { WAKES = 200 };
static uint64_t drained_ns;
static uint64_t passed_ns;

static void *hold_again(void *argument)
{
    struct work work = {.plane = argument};
    struct dure_launch launch = {.kernel_class = DURE_CLASS_COMPUTE, .predicted_ns = 1000};
    while (get(&world->stop) == 0) {
        if (dure_hold(work.plane, &launch, NULL, NULL) > 0)
            __atomic_store_n(&passed_ns, dure_now_ns(), __ATOMIC_RELEASE);
        usleep(50);
    }
    return NULL;
}

static int by_size(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Tenant 0 works for 3 ms again and again; tenant 1 yields to it. */
static void wake(void)
{
    static struct dure_plane planes[2];
    uint64_t took[WAKES];
    struct dure_launch launch = {.kernel_class = DURE_CLASS_COMPUTE, .predicted_ns = 1000};
    pthread_t held;
    write_draft(1);
    draft.squads = 1;
    draft.duration_ns[0] = 0;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        planes[tenant] = view(tenant);
        draft.orders[0][tenant].budget_ns = 0;
        draft.orders[0][tenant].linger_ns = 0;
    }
    dure_publish(&world->control, &world->rotation, &draft);
    pthread_create(&held, NULL, hold_again, &planes[1]);
    for (int round = 0; round < WAKES; round++) {
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        dure_launched(&planes[0], &launch, dure_now_ns());
        usleep(3000);
        while (get(&world->slots[1].activity.waiting) == 0)
            dure_launched(&planes[0], &launch, dure_now_ns());
        drained_ns = dure_now_ns();
        dure_drained(&planes[0], dure_now_ns());
        while (__atomic_load_n(&passed_ns, __ATOMIC_ACQUIRE) < drained_ns) {
            usleep(20);
            if (dure_now_ns() - drained_ns > 5 * SECOND)
                fail("a held thread did not pass");
        }
        took[round] = passed_ns - drained_ns;
    }
    dure_store(&world->stop, 1);
    pthread_join(held, NULL);
    qsort(took, WAKES, sizeof(took[0]), by_size);
    printf("wake_tenth_ns %lu\nwake_median_ns %lu\n", (unsigned long)took[WAKES / 10],
           (unsigned long)took[WAKES / 2]);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void *launch_all_the_time(void *argument)
{
    struct dure_plane plane = view(0);
    struct dure_launch launch = {.kernel_class = DURE_CLASS_SMALL, .predicted_ns = 1000};
    (void)argument;
    while (get(&world->stop) == 0) {
        dure_launched(&plane, &launch, dure_now_ns());
        dure_finished(&plane, launch.predicted_ns, 0, dure_now_ns());
    }
    return NULL;
}

/* The same while another client launches as fast as it can. */
static double contended_ask_ns(struct dure_plane *plane, const struct dure_launch *launch)
{
    enum { ROUNDS = 50, BATCH = 2000 };
    pthread_t other;
    uint64_t took[ROUNDS];
    pthread_create(&other, NULL, launch_all_the_time, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t held_for;
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        uint64_t began = dure_now_ns();
        for (int number = 0; number < BATCH; number++)
            if (dure_gated(plane, began))
                dure_ask(plane, launch, began, &held_for);
        took[round] = dure_now_ns() - began;
        usleep(500);
    }
    dure_store(&world->stop, 1);
    pthread_join(other, NULL);
    qsort(took, ROUNDS, sizeof(took[0]), by_size);
    return (double)took[ROUNDS / 2] / BATCH;
}

static void bench(void)
{
    enum { ROUNDS = 200, BATCH = 2000 };
    struct dure_plane plane = view(1);
    struct dure_launch launch = {.kernel_class = DURE_CLASS_SMALL, .predicted_ns = 1000};
    uint64_t best_ask = UINT64_MAX;
    uint64_t best_launched = UINT64_MAX;
    uint64_t best_alone = UINT64_MAX;
    write_draft(1);
    draft.orders[0][1].budget_ns = UINT64_MAX / 2;
    draft.orders[0][1].inflight_ns = UINT64_MAX / 2;
    draft.orders[0][1].yields = ~2ull & 15;
    draft.duration_ns[0] = 0;
    draft.corun[DURE_CLASS_SMALL][DURE_CLASS_SMALL] = 1;
    dure_publish(&world->control, &world->rotation, &draft);
    for (uint32_t client = 0; client < CLIENT_COUNT; client++) {
        struct dure_plane other = view(client);
        dure_launched(&other, &launch, dure_now_ns());
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t held_for;
        uint64_t passed = 0;
        dure_store(&world->control.heartbeat_ns, dure_now_ns());
        uint64_t began = dure_now_ns();
        for (uint32_t other = 0; other < CLIENT_COUNT; other++)
            world->slots[other].activity.expires_ns = began + SECOND;
        for (int number = 0; number < BATCH; number++)
            if (dure_gated(&plane, began))
                passed += dure_ask(&plane, &launch, began, &held_for) == DURE_PASS;
        uint64_t asked = dure_now_ns();
        for (int number = 0; number < BATCH; number++)
            dure_launched(&plane, &launch, asked);
        uint64_t ended = dure_now_ns();
        world->control.gated = 0;
        for (int number = 0; number < BATCH; number++)
            passed += dure_gated(&plane, asked);
        uint64_t alone = dure_now_ns();
        world->control.gated = 1;
        dure_finished(&plane, BATCH * launch.predicted_ns, 0, ended);
        if (passed != BATCH)
            fail("a launch of the bench was held");
        best_ask = asked - began < best_ask ? asked - began : best_ask;
        best_launched = ended - asked < best_launched ? ended - asked : best_launched;
        best_alone = alone - ended < best_alone ? alone - ended : best_alone;
    }
    printf("ask_ns %.1f\nlaunched_ns %.1f\nalone_ns %.1f\n", (double)best_ask / BATCH,
           (double)best_launched / BATCH, (double)best_alone / BATCH);
    printf("contended_ask_ns %.1f\n", contended_ask_ns(&plane, &launch));
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    double seconds = count > 2 ? atof(arguments[2]) : 1.0;
    make_world();
    if (strcmp(mode, "bench") == 0)
        bench();
    else if (strcmp(mode, "threads") == 0)
        threads(seconds);
    else if (strcmp(mode, "shares") == 0)
        shares(seconds);
    else if (strcmp(mode, "processes") == 0)
        processes(seconds, false);
    else if (strcmp(mode, "scribble") == 0)
        processes(seconds, true);
    else if (strcmp(mode, "agent-dies") == 0)
        printf("held_ns %lu\n", (unsigned long)hold_while_beating(100 * MS));
    else if (strcmp(mode, "wake") == 0)
        wake();
    else if (strcmp(mode, "longest") == 0)
        longest();
    else
        fail("no such mode");
    return 0;
}
