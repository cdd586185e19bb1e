/* What operations cost, and what they do to memory when they end.
 *
 * Kernels work on 32-bit words that wrap around, so that the emulator and a GPU agree bit by bit,
 * and read their input when they end: a dependency somebody forgot changes the result. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "broker.h"

#define CHASE_FACTOR 1664525u
#define PUNCH_BYTES (1ull << 21)
/* What a fill reaches of the memory's bandwidth. */
#define SET_BANDWIDTH_SHARE 0.9

extern uint64_t arena_bytes(void);

static void *translate(const struct client *client, uint64_t address, uint64_t bytes)
{
    uint64_t size = arena_bytes();
    if (address < client->base || bytes > size || address - client->base > size - bytes)
        return NULL;
    return client->arena + (address - client->base);
}

static uint64_t kernel_work_ns(const struct emu_command *c)
{
    switch (c->function) {
    case EMU_KERNEL_SPIN:
        return c->args[0];
    case EMU_KERNEL_FILL:
    case EMU_KERNEL_SUM:
    case EMU_KERNEL_CHASE:
        return c->args[3];
    case EMU_KERNEL_ADD:
    case EMU_KERNEL_AXPY:
    case EMU_KERNEL_MATMUL:
        return c->args[4];
    default:
        return (uint64_t)EMU_UNKNOWN_NS;
    }
}

static uint64_t kernel_bytes(const struct emu_command *c)
{
    switch (c->function) {
    case EMU_KERNEL_SPIN:
        return c->args[1];
    case EMU_KERNEL_FILL:
        return 4 * c->args[1];
    case EMU_KERNEL_CHASE:
        return 8 * c->args[1];
    case EMU_KERNEL_SUM:
        return 4 * c->args[2];
    case EMU_KERNEL_ADD:
        return 12 * c->args[3];
    case EMU_KERNEL_AXPY:
        return 12 * c->args[2];
    case EMU_KERNEL_MATMUL:
        return 12 * c->args[3] * c->args[3];
    default:
        return 0;
    }
}

static void cost_kernel(struct op *op)
{
    const struct config *config = &broker.config;
    const struct emu_command *c = &op->command;
    uint32_t resident = c->resident > 0 ? c->resident : 1;
    double width = (c->blocks + resident - 1) / resident;
    double ns = (double)kernel_work_ns(c) / config->speed;
    double moving_ns = (double)kernel_bytes(c) / config->bandwidth * 1e9;
    op->width = width < 1 ? 1 : width > config->sms ? config->sms : width;
    ns = ns < (double)config->launch_ns ? (double)config->launch_ns : ns;
    ns = ns < moving_ns ? moving_ns : ns;
    op->bandwidth = moving_ns / ns;
    op->remaining = ns * op->width;
    op->solo_ns = ns;
}

static void cost_set(struct op *op)
{
    const uint64_t *a = op->command.args;
    double bytes = (double)a[2] * (double)a[3] * (double)(a[5] > 0 ? a[5] : 1);
    double ns = bytes / (SET_BANDWIDTH_SHARE * broker.config.bandwidth) * 1e9;
    op->width = broker.config.sms;
    op->bandwidth = SET_BANDWIDTH_SHARE;
    op->solo_ns = ns < (double)broker.config.launch_ns ? (double)broker.config.launch_ns : ns;
    op->remaining = op->solo_ns * op->width;
}

static void cost_copy(struct op *op)
{
    const struct config *config = &broker.config;
    double speed = op->command.args[3] == EMU_COPY_ON_DEVICE ? config->bandwidth / 2
                                                             : config->link_bandwidth;
    op->solo_ns = (double)config->launch_ns + (double)op->command.args[2] / speed * 1e9;
    op->remaining = op->solo_ns;
}

void compute_cost(struct op *op)
{
    if (op->command.op == EMU_OP_KERNEL)
        cost_kernel(op);
    else if (op->command.op == EMU_OP_SET)
        cost_set(op);
    else if (op->command.op == EMU_OP_COPY)
        cost_copy(op);
}

static bool finish_two(const struct op *op, uint32_t *out, const uint32_t *in)
{
    const uint64_t *a = op->command.args;
    if (out == NULL || in == NULL)
        return false;
    uint32_t factor = (uint32_t)a[3];
    for (uint64_t i = 0; i < a[2]; i++)
        out[i] += factor * in[i];
    return true;
}

static bool finish_add(const struct op *op)
{
    const uint64_t *a = op->command.args;
    uint32_t *out = translate(op->client, a[0], 4 * a[3]);
    const uint32_t *x = translate(op->client, a[1], 4 * a[3]);
    const uint32_t *y = translate(op->client, a[2], 4 * a[3]);
    if (out == NULL || x == NULL || y == NULL)
        return false;
    for (uint64_t i = 0; i < a[3]; i++)
        out[i] = x[i] + y[i];
    return true;
}

static bool finish_sum(const struct op *op)
{
    const uint64_t *a = op->command.args;
    uint64_t *out = translate(op->client, a[0], 8);
    const uint32_t *x = translate(op->client, a[1], 4 * a[2]);
    if (out == NULL || x == NULL)
        return false;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < a[2]; i++)
        sum += x[i];
    *out += sum;
    return true;
}

/* All of n cubed would hold up the broker: a sample of the rows and columns is enough to check. */
static bool finish_matmul(const struct op *op)
{
    uint64_t n = op->command.args[3];
    uint64_t bytes = 4 * n * n;
    float *c = translate(op->client, op->command.args[0], bytes);
    const float *a = translate(op->client, op->command.args[1], bytes);
    const float *b = translate(op->client, op->command.args[2], bytes);
    uint64_t step = emu_matmul_step(n);
    if (c == NULL || a == NULL || b == NULL)
        return false;
    for (uint64_t row = 0; row < n; row += step) {
        for (uint64_t column = 0; column < n; column += step) {
            float sum = 0;
            for (uint64_t k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
            c[row * n + column] = sum;
        }
    }
    return true;
}

static bool finish_kernel(const struct op *op)
{
    const uint64_t *a = op->command.args;
    uint32_t *x;
    switch (op->command.function) {
    case EMU_KERNEL_FILL:
    case EMU_KERNEL_CHASE:
        x = translate(op->client, a[0], 4 * a[1]);
        if (x == NULL)
            return false;
        for (uint64_t i = 0; i < a[1]; i++)
            x[i] = op->command.function == EMU_KERNEL_FILL ? (uint32_t)a[2]
                                                           : x[i] * CHASE_FACTOR + (uint32_t)a[2];
        return true;
    case EMU_KERNEL_ADD:
        return finish_add(op);
    case EMU_KERNEL_AXPY:
        return finish_two(op, translate(op->client, a[0], 4 * a[2]),
                          translate(op->client, a[1], 4 * a[2]));
    case EMU_KERNEL_SUM:
        return finish_sum(op);
    case EMU_KERNEL_MATMUL:
        return finish_matmul(op);
    default:
        return true;
    }
}

static void set_row(uint8_t *row, uint64_t value, uint64_t element, uint64_t count)
{
    if (element == 1 || value == 0) {
        memset(row, (int)value, element * count);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        memcpy(row + i * element, &value, element);
}

/* Zero without touching pages that nobody has touched. */
static void zero(const struct client *client, uint8_t *from, uint64_t bytes)
{
    uint64_t start = (uint64_t)(from - client->arena);
    uint64_t first = (start + 4095) & ~4095ull;
    uint64_t last = (start + bytes) & ~4095ull;
    if (bytes < PUNCH_BYTES || fallocate(client->arena_fd,
                                         FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                         (off_t)first, (off_t)(last - first)) != 0) {
        memset(from, 0, bytes);
        return;
    }
    memset(from, 0, first - start);
    memset(client->arena + last, 0, start + bytes - last);
}

static bool finish_set(const struct op *op)
{
    const uint64_t *a = op->command.args;
    uint64_t rows = a[5] > 0 ? a[5] : 1;
    uint64_t row_bytes = a[2] * a[3];
    for (uint64_t row = 0; row < rows; row++) {
        uint8_t *to = translate(op->client, a[0] + row * a[4], row_bytes);
        if (to == NULL)
            return false;
        if (a[1] == 0)
            zero(op->client, to, row_bytes);
        else
            set_row(to, a[1], a[2], a[3]);
    }
    return true;
}

bool compute_finish(const struct op *op)
{
    const uint64_t *a = op->command.args;
    if (op->command.op == EMU_OP_KERNEL)
        return finish_kernel(op);
    if (op->command.op == EMU_OP_SET)
        return finish_set(op);
    void *to = translate(op->client, a[0], a[2]);
    const void *from = translate(op->client, a[1], a[2]);
    if (to == NULL || from == NULL)
        return false;
    memmove(to, from, a[2]);
    return true;
}
