/* Words in a client's memory that its streams wait for or write. */
#include <sys/uio.h>

#include "broker.h"

/* Whether a word is what a stream waits for; also where it cannot be read, as nothing would ever
 * end that wait. */
bool values_reached(const struct client *client, const struct emu_command *c)
{
    uint32_t word = 0, wanted = (uint32_t)c->args[1];
    struct iovec here = {&word, sizeof word};
    struct iovec there = {(void *)(uintptr_t)c->args[0], sizeof word};
    if (process_vm_readv(client->pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof word)
        return true;
    switch (c->args[2]) {
    case EMU_VALUE_GEQ:
        return (int32_t)(word - wanted) >= 0;
    case EMU_VALUE_EQ:
        return word == wanted;
    case EMU_VALUE_AND:
        return (word & wanted) != 0;
    default:
        return ~(word | wanted) != 0;
    }
}

void values_write(const struct client *client, const struct emu_command *c)
{
    uint32_t word = (uint32_t)c->args[1];
    struct iovec here = {&word, sizeof word};
    struct iovec there = {(void *)(uintptr_t)c->args[0], sizeof word};
    if (process_vm_writev(client->pid, &here, 1, &there, 1, 0) < 0)
        __atomic_store_n(&client->channel->poison, EMU_ILLEGAL_ADDRESS, __ATOMIC_RELEASE);
}
