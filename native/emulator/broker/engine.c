/* Modelled time: takes commands in the order of their stamps, starts what may start, ends what is
 * over. The clock of the model follows the real one, but what happens in it does not depend on when
 * the broker gets to run: a command counts from the moment it was submitted. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

#define NEVER UINT64_MAX
/* Work smaller than this is rounding. */
#define REST 1e-3

static struct stream *stream_of(struct client *client, uint32_t id)
{
    if (id >= EMU_STREAMS)
        return NULL;
    if (client->streams[id] == NULL) {
        client->streams[id] = calloc(1, sizeof(struct stream));
        client->streams[id]->id = id;
    }
    return client->streams[id];
}

/* ---- order ----------------------------------------------------------------------------------- */

/* What the legacy default stream waits for, and what waits for it. */
static void find_dependencies(struct client *client, const struct stream *own, struct op *op)
{
    if ((op->command.flags & (EMU_FLAG_BLOCKING | EMU_FLAG_LEGACY)) == 0)
        return;
    uint32_t count = 0;
    for (struct stream *s = client->active; s != NULL; s = s->next_active)
        count++;
    if (count == 0)
        return;
    op->after = malloc(count * sizeof *op->after);
    for (struct stream *s = client->active; s != NULL; s = s->next_active) {
        bool other_kind = s->legacy != own->legacy;
        if (s != own && s->context == own->context && s->blocking && other_kind && s->last != NULL)
            op->after[op->after_count++] = (struct dependency){s->id, s->arrived};
    }
}

static bool may_start(const struct client *client, const struct op *op)
{
    for (uint32_t i = 0; i < op->after_count; i++)
        if (client->streams[op->after[i].stream]->completed < op->after[i].seq)
            return false;
    if (op->command.op == EMU_OP_WAIT_VALUE && !values_reached(client, &op->command)) {
        broker.polls = true;
        return false;
    }
    if (op->command.op == EMU_OP_WAIT)
        return client->channel->events[op->command.event % EMU_EVENTS].seq >= op->command.event_seq;
    return true;
}

static void run(struct op *op)
{
    struct gpu *gpu = &broker.gpu[op->command.device];
    op->started = true;
    op->beside = gpu->running;
    gpu->running = op;
    gpu->dirty = true;
}

static void stop(struct op *op)
{
    struct gpu *gpu = &broker.gpu[op->command.device];
    for (struct op **at = &gpu->running; *at != NULL; at = &(*at)->beside) {
        if (*at == op) {
            *at = op->beside;
            gpu->dirty = true;
            return;
        }
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void release(struct client *client, const struct emu_command *c)
{
    uint64_t bytes = c->args[1];
    uint64_t *used = &client->used_bytes[c->device];
    *used -= bytes < *used ? bytes : *used;
    uint64_t start = c->args[0] - client->base;
    fallocate(client->arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
              (off_t)bytes);
}

static void record(struct client *client, const struct emu_command *c)
{
    struct emu_event_word *word = &client->channel->events[c->event % EMU_EVENTS];
    if (c->event_seq <= word->seq)
        return;
    __atomic_store_n(&word->ns, broker.sim_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&word->seq, c->event_seq, __ATOMIC_RELEASE);
}

static void count_copy(const struct op *op)
{
    struct gpu *gpu = &broker.gpu[op->command.device];
    double bytes = (double)op->command.args[2];
    if (op->command.args[3] == EMU_COPY_TO_DEVICE)
        gpu->to_device_bytes += bytes;
    else if (op->command.args[3] == EMU_COPY_TO_HOST)
        gpu->to_host_bytes += bytes;
}

static void finish(struct client *client, struct stream *stream, struct op *op)
{
    const struct emu_command *c = &op->command;
    bool works = c->op == EMU_OP_KERNEL || c->op == EMU_OP_COPY || c->op == EMU_OP_SET;
    if (works && op->started)
        stop(op);
    if (works && !compute_finish(op))
        __atomic_store_n(&client->channel->poison, EMU_ILLEGAL_ADDRESS, __ATOMIC_RELEASE);
    if (c->op == EMU_OP_COPY)
        count_copy(op);
    if (c->op == EMU_OP_RECORD)
        record(client, c);
    if (c->op == EMU_OP_RELEASE)
        release(client, c);
    if (c->op == EMU_OP_WRITE_VALUE)
        values_write(client, c);
    stream->first = op->next;
    if (stream->first == NULL)
        stream->last = NULL;
    stream->completed = c->seq;
    __atomic_store_n(&client->channel->completed[stream->id], c->seq, __ATOMIC_SEQ_CST);
    client->notify = true;
    free(op->after);
    free(op);
}

static void post_callback(struct client *client, struct op *op)
{
    struct emu_channel *channel = client->channel;
    op->started = true;
    channel->callbacks[channel->callback_head % EMU_CALLBACKS] = op->command;
    __atomic_store_n(&channel->callback_head, channel->callback_head + 1, __ATOMIC_SEQ_CST);
    client->notify = true;
}

/* Start or end heads of one stream as far as it goes; true where something ended. */
static bool step(struct client *client, struct stream *stream)
{
    bool ended = false;
    while (stream->first != NULL && !stream->first->started && may_start(client, stream->first)) {
        struct op *op = stream->first;
        switch (op->command.op) {
        case EMU_OP_KERNEL:
        case EMU_OP_COPY:
        case EMU_OP_SET:
            run(op);
            return ended;
        case EMU_OP_HOST:
            post_callback(client, op);
            return ended;
        default:
            finish(client, stream, op);
            ended = true;
        }
    }
    return ended;
}

static void settle(struct client *client)
{
    if (client->lock != EMU_RUNNING)
        return;
    bool again = true;
    while (again) {
        again = false;
        struct stream **at = &client->active;
        while (*at != NULL) {
            struct stream *stream = *at;
            again |= step(client, stream);
            if (stream->first == NULL) {
                *at = stream->next_active;
                stream->active = false;
            } else {
                at = &stream->next_active;
            }
        }
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

static void host_done(struct client *client, const struct emu_command *command)
{
    struct stream *stream = stream_of(client, (uint32_t)command->args[0]);
    if (stream == NULL || stream->first == NULL || stream->first->command.op != EMU_OP_HOST)
        return;
    if (stream->first->command.seq == command->args[1])
        finish(client, stream, stream->first);
}

static void take(struct client *client, const struct emu_command *command)
{
    struct stream *stream = stream_of(client, command->stream);
    if (command->op == EMU_OP_HOST_DONE) {
        host_done(client, command);
        settle(client);
        return;
    }
    if (stream == NULL || command->device >= broker.config.gpus)
        return;
    struct op *op = calloc(1, sizeof *op);
    op->command = *command;
    op->client = client;
    stream->context = command->context;
    stream->blocking = (command->flags & (EMU_FLAG_BLOCKING | EMU_FLAG_LEGACY)) != 0;
    stream->legacy = (command->flags & EMU_FLAG_LEGACY) != 0;
    find_dependencies(client, stream, op);
    compute_cost(op);
    if (stream->last == NULL)
        stream->first = op;
    else
        stream->last->next = op;
    stream->last = op;
    stream->arrived = command->seq;
    if (!stream->active) {
        stream->active = true;
        stream->next_active = client->active;
        client->active = stream;
    }
    if (stream->first == op)
        settle(client);
}

static bool has_command(const struct client *client)
{
    return client->taken != __atomic_load_n(&client->channel->head, __ATOMIC_SEQ_CST);
}

bool engine_has_commands(void)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL && broker.clients[i]->cuda && has_command(broker.clients[i]))
            return true;
    return false;
}

static struct client *earliest(uint64_t *stamp_ns)
{
    struct client *found = NULL;
    *stamp_ns = NEVER;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client == NULL || !client->cuda || !has_command(client))
            continue;
        uint64_t stamp = client->channel->ring[client->taken % EMU_RING].stamp_ns;
        if (stamp < *stamp_ns) {
            *stamp_ns = stamp;
            found = client;
        }
    }
    return found;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t ends_ns(const struct op *op)
{
    if (op->rate <= 0)
        return NEVER;
    if (op->remaining <= REST)
        return broker.sim_ns;
    return broker.sim_ns + (uint64_t)ceil(op->remaining / op->rate);
}

uint64_t engine_next_ns(void)
{
    uint64_t next = NEVER;
    for (uint32_t i = 0; i < broker.config.gpus; i++) {
        struct gpu *gpu = &broker.gpu[i];
        if (gpu->running == NULL)
            continue;
        if (gpu->dirty)
            share_find_rates(gpu);
        for (const struct op *op = gpu->running; op != NULL; op = op->beside) {
            uint64_t end = ends_ns(op);
            next = end < next ? end : next;
        }
        if (!broker.config.mps && gpu->switch_until_ns > broker.sim_ns
            && gpu->switch_until_ns < next)
            next = gpu->switch_until_ns;
        if (!broker.config.mps && gpu->contended && gpu->slice_end_ns < next)
            next = gpu->slice_end_ns;
    }
    return next < broker.sim_ns ? broker.sim_ns : next;
}

static void account(struct gpu *gpu, uint32_t device, struct op *op, double passed_ns)
{
    if (op->command.op == EMU_OP_COPY)
        return;
    double sm_ns = op->rate * passed_ns;
    double moved = op->bandwidth * op->speed * passed_ns * broker.config.bandwidth / 1e9;
    gpu->sm_ns += sm_ns;
    gpu->dram_bytes += moved;
    op->client->sm_ns[device] += sm_ns;
    op->client->dram_bytes[device] += moved;
}

static void pass_to(uint64_t t)
{
    if (t <= broker.sim_ns)
        return;
    double passed_ns = (double)(t - broker.sim_ns);
    for (uint32_t i = 0; i < broker.config.gpus; i++) {
        struct gpu *gpu = &broker.gpu[i];
        if (gpu->running == NULL)
            continue;
        bool busy = false;
        if (gpu->dirty)
            share_find_rates(gpu);
        for (struct op *op = gpu->running; op != NULL; op = op->beside) {
            op->remaining -= op->rate * passed_ns;
            busy |= op->command.op != EMU_OP_COPY && op->rate > 0;
            account(gpu, i, op, passed_ns);
        }
        gpu->busy_ns += busy ? passed_ns : 0;
        if (!broker.config.mps && (t >= gpu->slice_end_ns || t >= gpu->switch_until_ns))
            gpu->dirty = true;
    }
    broker.sim_ns = t;
}

/* End everything on one GPU that is over by now. */
static void end_due(struct gpu *gpu)
{
    if (gpu->dirty)
        share_find_rates(gpu);
    struct op *op = gpu->running;
    while (op != NULL) {
        if (op->rate > 0 && op->remaining <= REST * op->width + REST) {
            struct client *client = op->client;
            finish(client, client->streams[op->command.stream], op);
            settle(client);
            op = gpu->running; /* the list changed */
            if (gpu->dirty)
                share_find_rates(gpu);
            continue;
        }
        op = op->beside;
    }
}

static void drop_poisoned(void)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client != NULL && client->cuda && client->channel->poison != 0
            && client->active != NULL)
            engine_drop(client, client->channel->poison);
    }
}

/* Look again at the words that streams wait for. */
static void poll_values(void)
{
    if (!broker.polls)
        return;
    broker.polls = false;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] != NULL && broker.clients[i]->cuda && !broker.clients[i]->dead)
            settle(broker.clients[i]);
}

void engine_advance(uint64_t now_ns)
{
    for (;;) {
        uint64_t stamp;
        struct client *client = earliest(&stamp);
        uint64_t next = engine_next_ns();
        if (client != NULL && (stamp <= next || stamp <= broker.sim_ns)) {
            pass_to(stamp < now_ns ? stamp : now_ns);
            struct emu_command command = client->channel->ring[client->taken % EMU_RING];
            client->taken++;
            __atomic_store_n(&client->channel->tail, client->taken, __ATOMIC_SEQ_CST);
            take(client, &command);
        } else if (next <= now_ns) {
            pass_to(next);
            for (uint32_t i = 0; i < broker.config.gpus; i++)
                end_due(&broker.gpu[i]);
        } else {
            break;
        }
    }
    pass_to(now_ns);
    poll_values();
    drop_poisoned();
}

/* ---- exceptions ------------------------------------------------------------------------------ */

void engine_resume(struct client *client)
{
    for (uint32_t i = 0; i < broker.config.gpus; i++)
        broker.gpu[i].dirty = true;
    settle(client);
}

bool engine_in_kernel(const struct client *client, uint32_t device)
{
    for (const struct op *op = broker.gpu[device].running; op != NULL; op = op->beside)
        if (op->client == client && op->command.op == EMU_OP_KERNEL)
            return true;
    return false;
}

void engine_drop(struct client *client, uint32_t poison)
{
    for (struct stream *stream = client->active; stream != NULL; stream = stream->next_active) {
        while (stream->first != NULL) {
            struct op *op = stream->first;
            if (op->started)
                stop(op);
            stream->first = op->next;
            free(op->after);
            free(op);
        }
        stream->last = NULL;
        stream->active = false;
        stream->completed = stream->arrived;
        __atomic_store_n(&client->channel->completed[stream->id], stream->arrived,
                         __ATOMIC_SEQ_CST);
    }
    client->active = NULL;
    client->notify = true;
    if (poison != 0)
        __atomic_store_n(&client->channel->poison, poison, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < broker.config.gpus; i++)
        if (broker.gpu[i].owner == client && poison == 0)
            broker.gpu[i].owner = NULL;
}

/* Wake whoever waits for something that ended. */
void engine_ring_bells(void)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client == NULL || !client->cuda || !client->notify)
            continue;
        client->notify = false;
        __atomic_add_fetch(&client->channel->bell, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&client->channel->waiters, __ATOMIC_SEQ_CST) != 0)
            emu_futex_wake(&client->channel->bell);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Further ahead than this nobody looks: clients may do something else meanwhile. */
#define LOOK_AHEAD_NS 500000.0

/* A stream cannot be through before all its work has run alone. */
static double least_left_ns(const struct stream *stream)
{
    double left = 0;
    for (const struct op *op = stream->first; op != NULL && left < LOOK_AHEAD_NS; op = op->next)
        left += op->started && op->width > 0 ? op->remaining / op->width : op->solo_ns;
    return left < LOOK_AHEAD_NS ? left : LOOK_AHEAD_NS;
}

uint64_t engine_waited_ns(uint64_t next_ns)
{
    uint64_t waited = NEVER;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        const struct client *client = broker.clients[i];
        if (client == NULL || !client->cuda || client->lock != EMU_RUNNING ||
            __atomic_load_n(&client->channel->waiters, __ATOMIC_SEQ_CST) == 0)
            continue;
        if (__atomic_load_n(&client->channel->eager, __ATOMIC_SEQ_CST) != 0)
            return next_ns;
        for (const struct stream *s = client->active; s != NULL; s = s->next_active) {
            uint64_t end = broker.sim_ns + (uint64_t)least_left_ns(s);
            waited = end < waited ? end : waited;
        }
    }
    return waited < next_ns ? next_ns : waited;
}
