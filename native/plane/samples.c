/* Timed launches: a ring that any thread of the client writes and the agent empties.
 *
 * A sample goes word by word, its sequence last; a reader believes it if the sequence is the
 * expected one before and after. */
#include "words.h"

#define WORDS (sizeof(struct dure_sample) / sizeof(uint64_t))
_Static_assert(offsetof(struct dure_sample, sequence) == (WORDS - 1) * sizeof(uint64_t), "last");

void dure_sampled(struct dure_plane *plane, const struct dure_sample *sample)
{
    if (plane->control == NULL)
        return;
    struct dure_slot *slot = plane->slot;
    uint64_t number = __atomic_fetch_add(&slot->sample_head, 1, __ATOMIC_ACQ_REL);
    struct dure_sample *place = &slot->samples[number % DURE_SAMPLES];
    const uint64_t *from = (const uint64_t *)sample;
    uint64_t *to = (uint64_t *)place;
    store(&place->sequence, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t word = 0; word < WORDS - 1; word++)
        store(&to[word], from[word]);
    store_last(&place->sequence, number + 1);
    keep_tick(plane);
    if (!sample->graph)
        raise_to(&slot->counters.longest_kernel_ns, sample->duration_ns);
}

/* Copy one sample; false where it is being written or was overwritten. */
static bool take(const struct dure_sample *place, uint64_t number, struct dure_sample *out)
{
    const uint64_t *from = (const uint64_t *)place;
    uint64_t *to = (uint64_t *)out;
    if (load_first(&place->sequence) != number + 1)
        return false;
    for (size_t word = 0; word < WORDS - 1; word++)
        to[word] = load(&from[word]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    out->sequence = number + 1;
    return load(&place->sequence) == number + 1;
}

uint32_t dure_take_samples(const struct dure_slot *slot, uint64_t *tail, struct dure_sample *out,
                           uint32_t most)
{
    uint64_t head = load_first(&slot->sample_head);
    if (head < *tail) /* scribbled, or another client's */
        *tail = head;
    if (head - *tail > DURE_SAMPLES)
        *tail = head - DURE_SAMPLES;
    uint32_t taken = 0;
    for (; *tail < head && taken < most; ++*tail)
        if (take(&slot->samples[*tail % DURE_SAMPLES], *tail, &out[taken]))
            taken++;
    return taken;
}
