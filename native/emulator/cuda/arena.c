/* Where things lie in the arena: first fit, with a table of what each allocation is. All calls are
 * made with the driver locked. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

#define GRAIN 512ull
#define PAGE 4096ull

struct area {
    uint64_t start;
    uint64_t bytes;
    int kind;
    int device;
    uint64_t accounted;
    uint32_t freed_id; /* free once this stream came so far */
    uint64_t freed_seq;
};

static struct area *areas; /* sorted by start */
static size_t count;
static size_t room;

static uint64_t base(void)
{
    return (uint64_t)driver.arena;
}

/* Index of the last area that starts at or before the address; -1: none. */
static long at_or_before(uint64_t address)
{
    long low = 0;
    long high = (long)count - 1;
    long found = -1;
    while (low <= high) {
        long middle = (low + high) / 2;
        if (areas[middle].start <= address) {
            found = middle;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    return found;
}

static void drop(size_t index)
{
    memmove(&areas[index], &areas[index + 1], (count - index - 1) * sizeof *areas);
    count--;
}

static void reap(void)
{
    for (size_t i = count; i-- > 0;)
        if (areas[i].freed_seq > 0 &&
            __atomic_load_n(&driver.channel->completed[areas[i].freed_id], __ATOMIC_ACQUIRE) >=
                areas[i].freed_seq)
            drop(i);
}

static bool insert(size_t index, uint64_t start, uint64_t bytes)
{
    if (count == room) {
        room = room > 0 ? 2 * room : 64;
        areas = realloc(areas, room * sizeof *areas);
        if (areas == NULL)
            abort();
    }
    memmove(&areas[index + 1], &areas[index], (count - index) * sizeof *areas);
    areas[index] = (struct area){.start = start, .bytes = bytes};
    count++;
    return true;
}

uint64_t arena_take(uint64_t bytes)
{
    reap();
    uint64_t grain = bytes >= PAGE ? PAGE : GRAIN;
    uint64_t align = bytes >= (2ull << 20) ? 2ull << 20 : grain;
    bytes = (bytes + grain - 1) & ~(grain - 1);
    uint64_t start = (base() + PAGE + align - 1) & ~(align - 1);
    for (size_t i = 0; i <= count; i++) {
        uint64_t end = i < count ? areas[i].start : base() + driver.arena_bytes;
        if (start + bytes <= end) {
            insert(i, start, bytes);
            return start;
        }
        if (i < count)
            start = (areas[i].start + areas[i].bytes + align - 1) & ~(align - 1);
    }
    return 0;
}

static struct area *area_at(uint64_t address)
{
    long index = at_or_before(address);
    if (index < 0 || areas[index].start != address || areas[index].freed_seq != 0)
        return NULL;
    return &areas[index];
}

void arena_give(uint64_t address)
{
    struct area *area = area_at(address);
    if (area == NULL)
        return;
    uint64_t first = (area->start + PAGE - 1) & ~(PAGE - 1);
    uint64_t last = (area->start + area->bytes) & ~(PAGE - 1);
    if (last > first)
        madvise((void *)first, last - first, MADV_REMOVE);
    drop((size_t)(area - areas));
}

void arena_give_later(uint64_t address, struct CUstream_st *stream, uint64_t seq)
{
    struct area *area = area_at(address);
    if (area == NULL)
        return;
    area->freed_seq = seq;
    area->freed_id = stream->id;
}

uint64_t arena_size(uint64_t address)
{
    const struct area *area = area_at(address);
    return area != NULL ? area->bytes : 0;
}

uint64_t arena_find(uint64_t address, uint64_t *bytes)
{
    long index = at_or_before(address);
    if (index < 0 || address >= areas[index].start + areas[index].bytes
        || areas[index].freed_seq != 0)
        return 0;
    *bytes = areas[index].bytes;
    return areas[index].start;
}

void arena_note(uint64_t address, int kind, int device, uint64_t accounted)
{
    struct area *area = area_at(address);
    if (area == NULL)
        return;
    area->kind = kind;
    area->device = device;
    area->accounted = accounted;
}

bool arena_told(uint64_t address, int *kind, int *device, uint64_t *accounted)
{
    const struct area *area = area_at(address);
    if (area == NULL)
        return false;
    *kind = area->kind;
    *device = area->device;
    *accounted = area->accounted;
    return true;
}

bool arena_holds(uint64_t address)
{
    return address >= base() && address < base() + driver.arena_bytes;
}
