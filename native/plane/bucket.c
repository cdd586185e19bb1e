/* Latency in logarithmic buckets, eight to an octave from 1 µs on, as dure.domain.latency. */
#include "words.h"

#define FIRST_NS 1000u
#define PER_OCTAVE 8

/* 2 to the power of i/8, in units of 2^-62. */
static const uint64_t EIGHTHS[PER_OCTAVE] = {
    0x4000000000000000ull, 0x45cae0f1f545eb73ull, 0x4c1bf828c6dc54b7ull, 0x52ff6b54d8a89c75ull,
    0x5a827999fcef3242ull, 0x62b39508aa836d6eull, 0x6ba27e656b4eb57aull, 0x75606373ee921c97ull,
};

uint32_t dure_bucket(uint64_t latency_ns)
{
    if (latency_ns <= FIRST_NS)
        return 0;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(latency_ns / FIRST_NS);
    if (octave >= DURE_BUCKETS / PER_OCTAVE)
        return DURE_BUCKETS - 1;
    uint32_t eighth = PER_OCTAVE - 1;
    unsigned __int128 scaled = (unsigned __int128)latency_ns << 62;
    while (scaled < ((unsigned __int128)EIGHTHS[eighth] * FIRST_NS) << octave)
        eighth--;
    uint32_t bucket = octave * PER_OCTAVE + eighth + 1;
    return bucket < DURE_BUCKETS ? bucket : DURE_BUCKETS - 1;
}
