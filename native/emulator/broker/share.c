/* How fast each kernel and copy on a GPU runs, given who else runs there.
 *
 * A kernel wants `width` SMs spread evenly over those it may use. Where the kernels on a group of
 * SMs want more than there is, each gets its part (more urgent streams first). Kernels that
 * together want more memory bandwidth than there is are slowed in the measure in which they live
 * on it. In time-slice mode only the kernels of one process run. */
#include <string.h>

#include "broker.h"

static bool is_kernel(const struct op *op)
{
    return op->command.op == EMU_OP_KERNEL || op->command.op == EMU_OP_SET;
}

static bool runnable(const struct op *op)
{
    return is_kernel(op) && op->client->lock == EMU_RUNNING;
}

static struct client *next_owner(const struct gpu *gpu, const struct client *after)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++)
        if (broker.clients[i] == after && after != NULL)
            start = i + 1;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *candidate = broker.clients[(start + i) % EMU_CLIENTS];
        if (candidate == NULL)
            continue;
        for (const struct op *op = gpu->running; op != NULL; op = op->beside)
            if (op->client == candidate && runnable(op))
                return candidate;
    }
    return NULL;
}

/* Whose slice it is; opens a new one where the old is over or its owner has nothing to run. */
static void choose_owner(struct gpu *gpu)
{
    bool owner_has = false;
    gpu->contended = false;
    for (const struct op *op = gpu->running; op != NULL; op = op->beside) {
        if (!runnable(op))
            continue;
        if (op->client == gpu->owner)
            owner_has = true;
        else
            gpu->contended = true;
    }
    if (owner_has && (!gpu->contended || broker.sim_ns < gpu->slice_end_ns))
        return;
    struct client *owner = next_owner(gpu, gpu->owner);
    if (owner == NULL)
        return; /* the last owner keeps its place: nothing was switched */
    if (owner != gpu->owner) {
        bool first = gpu->owner == NULL;
        gpu->switch_until_ns = broker.sim_ns + (first ? 0 : broker.config.switch_ns);
        gpu->owner = owner;
        gpu->contended = false;
        for (const struct op *op = gpu->running; op != NULL; op = op->beside)
            gpu->contended |= runnable(op) && op->client != owner;
    }
    uint64_t from = gpu->switch_until_ns > broker.sim_ns ? gpu->switch_until_ns : broker.sim_ns;
    gpu->slice_end_ns = from + broker.config.slice_ns;
}

static bool has_turn(const struct gpu *gpu, const struct op *op)
{
    if (op->client->lock != EMU_RUNNING)
        return false;
    if (broker.config.mps)
        return true;
    return op->client == gpu->owner && broker.sim_ns >= gpu->switch_until_ns;
}

static uint32_t sms_allowed(const struct op *op)
{
    uint32_t sms = broker.config.sms;
    if (op->command.groups == 0)
        return sms;
    uint32_t allowed = 0;
    for (uint32_t g = 0; g < emu_groups(sms); g++)
        if (op->command.groups & (1u << g))
            allowed += emu_group_size(sms, g);
    return allowed > 0 ? allowed : sms;
}

static bool uses(const struct op *op, uint32_t group)
{
    return op->command.groups == 0 || (op->command.groups & (1u << group)) != 0;
}

/* Hand out one group of SMs among those that want it, the more urgent first. */
static void share_group(const struct gpu *gpu, uint32_t group)
{
    double size = emu_group_size(broker.config.sms, group);
    double left = 1.0;
    int done = -128;
    while (left > 1e-9) {
        int level = 128;
        double wanted = 0;
        for (const struct op *op = gpu->running; op != NULL; op = op->beside)
            if (op->density > 0 && op->command.priority > done && op->command.priority < level &&
                uses(op, group))
                level = op->command.priority;
        if (level == 128)
            return;
        for (const struct op *op = gpu->running; op != NULL; op = op->beside)
            if (op->density > 0 && op->command.priority == level && uses(op, group))
                wanted += op->density;
        double part = wanted > left ? left / wanted : 1.0;
        for (struct op *op = gpu->running; op != NULL; op = op->beside)
            if (op->density > 0 && op->command.priority == level && uses(op, group))
                op->rate += op->density * size * part;
        left -= wanted * part;
        done = level;
    }
}

static void share_bandwidth(const struct gpu *gpu)
{
    double wanted = 0;
    for (struct op *op = gpu->running; op != NULL; op = op->beside) {
        if (!is_kernel(op))
            continue;
        op->speed = op->width > 0 ? op->rate / op->width : 0;
        wanted += op->bandwidth * op->speed;
    }
    if (wanted <= 1.0)
        return;
    for (struct op *op = gpu->running; op != NULL; op = op->beside) {
        if (!is_kernel(op))
            continue;
        double bound = op->bandwidth < 1.0 ? op->bandwidth : 1.0;
        double slowed = 1.0 - bound * (1.0 - 1.0 / wanted);
        op->rate *= slowed;
        op->speed *= slowed;
    }
}

/* Copies the same way share the link. */
static void share_link(const struct gpu *gpu)
{
    uint32_t count[3] = {0, 0, 0};
    for (const struct op *op = gpu->running; op != NULL; op = op->beside)
        if (op->command.op == EMU_OP_COPY && op->client->lock == EMU_RUNNING)
            count[op->command.args[3] % 3]++;
    for (struct op *op = gpu->running; op != NULL; op = op->beside)
        if (op->command.op == EMU_OP_COPY)
            op->rate = op->client->lock == EMU_RUNNING ? 1.0 / count[op->command.args[3] % 3] : 0;
}

void share_find_rates(struct gpu *gpu)
{
    if (!broker.config.mps)
        choose_owner(gpu);
    for (struct op *op = gpu->running; op != NULL; op = op->beside) {
        op->rate = 0;
        op->density = 0;
        if (is_kernel(op) && has_turn(gpu, op)) {
            double allowed = sms_allowed(op);
            op->density = op->width < allowed ? op->width / allowed : 1.0;
        }
    }
    for (uint32_t group = 0; group < emu_groups(broker.config.sms); group++)
        share_group(gpu, group);
    share_bandwidth(gpu);
    share_link(gpu);
    gpu->dirty = false;
}
