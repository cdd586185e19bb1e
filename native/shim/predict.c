/* How long a launch will take, and of which class it is: learned from timed launches, per
 * signature.
 *
 * A signature is a function with its grid, block and dynamic shared memory, or one executable
 * graph.
 */
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define WAYS 4
#define LONG_NS 1000000.0       /* as dure.domain.kernel: longer kernels are a class of their own */
#define FIRST_GUESS_NS 20000.0  /* before anything was timed: a typical kernel of a training step */
#define GRAPH_GUESS_NS 500000.0
#define WEIGHT_ALONE 0.25
#define WEIGHT_LONGER 0.08 /* a thread that lost its core between two marks stretches what they time */
#define MOST_LONGER 2.0
#define WEIGHT_IN_COMPANY 0.0625
#define WEIGHT_IN_BATCH 0.03125
#define WEIGHT_OF_MEAN 0.02
#define LONGEST_NS 4.0e9

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash ^= word;
    hash *= 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
}

static uint64_t key_of(const struct dure_shape *shape)
{
    if (shape->graph != 0)
        return mix(mix(0x67726170685full, shape->graph), shape->set_sms) | 1;
    uint64_t hash = mix(0x6b65726e656cull, (uint64_t)(uintptr_t)shape->function);
    hash = mix(hash, (uint64_t)shape->grid[0] << 32 | shape->grid[1]);
    hash = mix(hash, (uint64_t)shape->grid[2] << 32 | shape->block[0]);
    hash = mix(hash, (uint64_t)shape->block[1] << 32 | shape->block[2]);
    return mix(hash, (uint64_t)shape->set_sms << 32 | shape->shared_bytes) | 1;
}

static const char *name_of(cu_function function)
{
    const char *name = NULL;
    if (dure_real.cuFuncGetName != NULL && dure_real.cuFuncGetName(&name, function) == CU_OK &&
        name != NULL)
        return name;
    /* newer programs pass kernels that belong to no context in a function's place */
    if (dure_real.cuKernelGetName != NULL && dure_real.cuKernelGetName(&name, function) == CU_OK)
        return name;
    return NULL;
}

static bool has_any(const char *name, const char *const *hints, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (strstr(name, hints[index]) != NULL)
            return true;
    return false;
}

/* Names of kernels that move more than they compute; matrix kernels come first as their names hold
 * pieces of the others (a fused epilogue, a transposed operand). */
static bool memory_bound_by_name(const char *name)
{
    static const char *const compute[] = {"gemm", "Gemm", "conv", "attention", "flash", "mma",
                                          "cutlass", "fprop", "dgrad", "wgrad"};
    static const char *const memory[] = {
        "elementwise", "copy",  "Copy",   "fill",    "reduce",    "softmax", "Softmax",
        "norm",        "Norm",  "pool",   "Cat",     "transpose", "gather",  "scatter",
        "multi_tensor", "adam", "dropout", "mbedding", "index",   "memset",  "bn_",
        "nchwTo",      "nhwcTo", "stream", "memory",
    };
    if (has_any(name, compute, sizeof compute / sizeof compute[0]))
        return false;
    return has_any(name, memory, sizeof memory / sizeof memory[0]);
}

/* Ask the driver once what it knows of a kernel; outside the lock. */
static void describe(const struct dure_shape *shape, struct dure_signature *signature)
{
    int resident = 0;
    signature->graph = shape->graph != 0;
    if (signature->graph) {
        signature->function = shape->graph;
        return;
    }
    signature->function = (uint64_t)(uintptr_t)shape->function;
    signature->blocks = shape->grid[0] * shape->grid[1] * shape->grid[2];
    signature->threads = shape->block[0] * shape->block[1] * shape->block[2];
    if (dure_real.cuOccupancyMaxActiveBlocksPerMultiprocessor != NULL &&
        dure_real.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &resident, shape->function, (int)signature->threads, shape->shared_bytes) == CU_OK &&
        resident > 0)
        signature->resident = (uint32_t)resident;
    const char *name = name_of(shape->function);
    if (name == NULL)
        return;
    signature->memory_bound = memory_bound_by_name(name);
    signature->collective = strncmp(name, "nccl", 4) == 0;
}

static struct dure_signature *find(struct dure_device *device, uint64_t key)
{
    struct dure_signature *set = &device->signatures[(key >> 7) & (DURE_SIGNATURES - WAYS)];
    for (int way = 0; way < WAYS; way++)
        if (set[way].key == key)
            return &set[way];
    return NULL;
}

static struct dure_signature *place(struct dure_device *device, uint64_t key)
{
    struct dure_signature *set = &device->signatures[(key >> 7) & (DURE_SIGNATURES - WAYS)];
    struct dure_signature *oldest = &set[0];
    for (int way = 0; way < WAYS; way++) {
        if (set[way].key == 0 || set[way].key == key)
            return &set[way];
        if (set[way].seen < oldest->seen)
            oldest = &set[way];
    }
    return oldest;
}

/* On fewer compute units than it was seen on, a kernel takes longer by as much, until it is
 * timed. */
static double scaled_ns(struct dure_device *device, const struct dure_shape *shape)
{
    struct dure_shape whole = *shape;
    whole.set_sms = 0;
    const struct dure_signature *known = find(device, key_of(&whole));
    if (shape->set_sms == 0 || known == NULL || known->ns <= 0.0)
        return 0.0;
    return known->ns * (double)device->sms / (double)shape->set_sms;
}

static double expected_ns(const struct dure_device *device, const struct dure_signature *signature)
{
    if (signature->ns > 0.0)
        return signature->ns;
    if (signature->graph)
        return GRAPH_GUESS_NS;
    return device->mean_ns > 0.0 ? device->mean_ns : FIRST_GUESS_NS;
}

static uint32_t class_of(const struct dure_device *device, const struct dure_signature *signature,
                         double ns)
{
    if (!signature->graph && ns >= LONG_NS)
        return DURE_CLASS_LONG;
    if (signature->resident != 0 && device->sms != 0) {
        uint32_t width = (signature->blocks + signature->resident - 1) / signature->resident;
        if (width * 2 < device->sms)
            return DURE_CLASS_SMALL;
    }
    return signature->memory_bound ? DURE_CLASS_MEMORY : DURE_CLASS_COMPUTE;
}

void dure_predict(struct dure_device *device, const struct dure_shape *shape,
                  struct dure_guess *guess)
{
    uint64_t key = key_of(shape);
    struct dure_signature *signature = find(device, key);
    if (signature == NULL) {
        struct dure_signature fresh = {.key = key};
        pthread_mutex_unlock(&device->lock);
        describe(shape, &fresh);
        pthread_mutex_lock(&device->lock);
        signature = place(device, key);
        fresh.ns = scaled_ns(device, shape);
        if (signature->key != key)
            *signature = fresh;
        device->collective = device->collective || fresh.collective;
    }
    double ns = expected_ns(device, signature);
    signature->seen = ++device->launches;
    guess->index = (uint32_t)(signature - device->signatures);
    guess->key = key;
    guess->ns = (uint64_t)ns;
    guess->known = signature->ns > 0.0;
    guess->timed = signature->timed;
    guess->kernel_class = class_of(device, signature, ns);
    guess->collective = device->collective;
    guess->unmovable = signature->unmovable;
}

void dure_learn(struct dure_device *device, uint32_t index, uint64_t key, uint64_t took_ns,
                bool alone)
{
    struct dure_signature *signature = &device->signatures[index & (DURE_SIGNATURES - 1)];
    double took = (double)took_ns < LONGEST_NS ? (double)took_ns : LONGEST_NS;
    if (signature->key != key || took_ns == 0)
        return;
    double weight = alone ? WEIGHT_ALONE : WEIGHT_IN_COMPANY;
    if (signature->timed == 0) {
        weight = 1.0;
    } else if (alone && took > signature->ns) {
        double most = MOST_LONGER * signature->ns;
        weight = WEIGHT_LONGER;
        took = took < most ? took : most;
    }
    signature->ns += weight * (took - signature->ns);
    signature->timed++;
    weight = device->mean_ns > 0.0 ? WEIGHT_OF_MEAN : 1.0;
    if (!signature->graph)
        device->mean_ns += weight * (took - device->mean_ns);
}

/* A batch took `ratio` times what was predicted: its members move towards their part of that. It
 * is the prediction they were launched with that was wrong so far; meanwhile it may have been
 * corrected. */
void dure_correct(struct dure_device *device, const struct dure_marker *marker, double ratio)
{
    double step = ratio < 0.25 ? 0.25 : ratio > 4.0 ? 4.0 : ratio;
    for (uint32_t index = 0; index < marker->batch_count; index++) {
        struct dure_signature *signature = &device->signatures[marker->batch[index]];
        if (signature->key != marker->batch_keys[index])
            continue;
        if (signature->ns <= 0.0)
            signature->ns = expected_ns(device, signature);
        signature->ns += WEIGHT_IN_BATCH * (marker->batch_guess_ns[index] * step - signature->ns);
    }
}

void dure_unmovable(struct dure_device *device, const struct dure_guess *guess)
{
    pthread_mutex_lock(&device->lock);
    if (device->signatures[guess->index].key == guess->key)
        device->signatures[guess->index].unmovable = true;
    pthread_mutex_unlock(&device->lock);
}
