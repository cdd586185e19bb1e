/* Submitting commands, and waiting for what they do. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"

#define WAIT_NS 200000000ull
#define QUEUE 1024ull

void ring_doorbell(void)
{
    if (__atomic_load_n(&driver.channel->sleeping, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_store_n(&driver.channel->sleeping, 0, __ATOMIC_SEQ_CST);
    uint64_t one = 1;
    if (write(driver.doorbell, &one, sizeof one) < 0)
        return; /* full: it rings already */
}

/* Somebody polls: let the broker look where something should have ended by now. */
void poke_if_due(void)
{
    if (emu_now_ns() >= __atomic_load_n(&driver.channel->due_ns, __ATOMIC_RELAXED))
        ring_doorbell();
}

static bool broker_is_gone(void)
{
    char byte;
    return recv(driver.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void wait_for_room(void)
{
    while (driver.channel->head - __atomic_load_n(&driver.channel->tail,
                                                  __ATOMIC_ACQUIRE) >= EMU_RING) {
        ring_doorbell();
        usleep(20);
        if (driver.channel->poison != 0)
            return;
        if (broker_is_gone())
            driver.channel->poison = CUDA_ERROR_UNKNOWN;
    }
}

static bool reached(const uint64_t *word, uint64_t seq)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST) >= seq;
}

static void wait_word(const uint64_t *word, uint64_t seq, uint32_t eager)
{
    struct emu_channel *channel = driver.channel;
    if (reached(word, seq))
        return;
    __atomic_add_fetch(&channel->eager, eager, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&channel->waiters, 1, __ATOMIC_SEQ_CST);
    ring_doorbell();
    for (;;) {
        uint32_t bell = __atomic_load_n(&channel->bell, __ATOMIC_SEQ_CST);
        if (reached(word, seq) || __atomic_load_n(&channel->poison, __ATOMIC_SEQ_CST) != 0)
            break;
        emu_futex_wait(&channel->bell, bell, WAIT_NS);
        if (!reached(word, seq) && broker_is_gone())
            channel->poison = CUDA_ERROR_UNKNOWN;
    }
    __atomic_sub_fetch(&channel->waiters, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&channel->eager, eager, __ATOMIC_SEQ_CST);
}

/* A stream takes so many commands that are not finished; then a launch blocks, as on a real card.
 * Called, and returns, with the driver locked. */
static void wait_for_queue(const struct CUstream_st *stream)
{
    const uint64_t *completed = &driver.channel->completed[stream->id];
    while (stream->submitted >= QUEUE && !reached(completed, stream->submitted - QUEUE + 1) &&
           driver.channel->poison == 0) {
        uint64_t wanted = stream->submitted - QUEUE + QUEUE / 16;
        unlock_driver();
        wait_word(completed, wanted, 1);
        lock_driver();
    }
}

/* The broker needs no call where the stream has work: it looks here when that ends. */
uint64_t submit(struct CUstream_st *stream, struct emu_command *command)
{
    struct emu_channel *channel = driver.channel;
    wait_for_queue(stream);
    wait_for_room();
    command->stream = stream->id;
    command->flags = (uint8_t)stream->flags;
    command->context = (uint16_t)stream->context->id;
    command->device = (uint8_t)stream->context->device;
    command->priority = (int8_t)(stream->priority + driver.priority);
    command->seq = ++stream->submitted;
    command->stamp_ns = emu_now_ns();
    channel->ring[channel->head % EMU_RING] = *command;
    __atomic_store_n(&channel->head, channel->head + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&channel->completed[stream->id], __ATOMIC_SEQ_CST) + 1 >= command->seq)
        ring_doorbell();
    return command->seq;
}

void wait_stream(struct CUstream_st *stream, uint64_t seq)
{
    wait_word(&driver.channel->completed[stream->id], seq, seq < stream->submitted);
}

void wait_event_seq(uint32_t event, uint64_t seq)
{
    wait_word(&driver.channel->events[event].seq, seq, 1);
}

bool stream_is_done(const struct CUstream_st *stream)
{
    return reached(&driver.channel->completed[stream->id], stream->submitted);
}
