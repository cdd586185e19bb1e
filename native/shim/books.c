/* The books of memory: what this process allocated, by address or handle, and what holds it. */
#include <stdlib.h>

#include "shim.h"

#define BOOKS_FIRST 4096u
#define BOOKS_MOST (1u << 21) /* allocations of one process that are remembered */
#define GRANULE (2ull << 20)  /* of addresses at which physical memory is mapped */

/* Open addressing, never more than half full. */
static struct {
    pthread_mutex_t lock;
    struct dure_allocation *table; /* key 0: free, 1: was taken */
    uint32_t size, used;           /* places that were ever taken, so that searches stay short */
} books = {.lock = PTHREAD_MUTEX_INITIALIZER};

void dure_books_forget(void)
{
    pthread_mutex_init(&books.lock, NULL);
    free(books.table);
    books.table = NULL;
    books.size = books.used = 0;
}

static struct dure_allocation *find(uint64_t key, bool make)
{
    struct dure_allocation *free_one = NULL;
    uint64_t hash = key * 0x9e3779b97f4a7c15ull >> 32;
    for (uint32_t step = 0; step < books.size; step++) {
        struct dure_allocation *entry = &books.table[(hash + step) & (books.size - 1)];
        if (entry->key == key)
            return entry;
        if (entry->key == 1 && free_one == NULL)
            free_one = entry;
        if (entry->key == 0)
            return make ? (free_one != NULL ? free_one : entry) : NULL;
    }
    return make ? free_one : NULL;
}

static struct dure_allocation *known(uint64_t key)
{
    return books.size != 0 && key > 1 ? find(key, false) : NULL;
}

static bool room(void)
{
    if (books.used * 2 < books.size)
        return true;
    struct dure_allocation *before = books.table;
    uint32_t size_before = books.size, live = 0;
    for (uint32_t index = 0; index < size_before; index++)
        live += before[index].key > 1;
    uint32_t size = size_before == 0 ? BOOKS_FIRST : live * 4 < size_before ? size_before
                                                                            : size_before * 2;
    if (size > BOOKS_MOST)
        return false;
    struct dure_allocation *table = calloc(size, sizeof *table);
    if (table == NULL)
        return false;
    books.table = table;
    books.size = size;
    books.used = 0;
    for (uint32_t index = 0; index < size_before; index++) {
        if (before[index].key <= 1)
            continue;
        *find(before[index].key, true) = before[index];
        books.used++;
    }
    free(before);
    return true;
}

static struct dure_allocation enter(struct dure_allocation made)
{
    struct dure_allocation before = {0};
    if (made.key <= 1 || !room())
        return before;
    struct dure_allocation *entry = find(made.key, true);
    books.used += entry->key == 0;
    if (entry->key == made.key)
        before = *entry;
    *entry = made;
    return before;
}

/* One hold less; the allocation where that was the last. */
static struct dure_allocation let_go(struct dure_allocation *entry)
{
    if (entry == NULL || --entry->holds > 0)
        return (struct dure_allocation){0};
    struct dure_allocation found = *entry;
    entry->key = 1;
    return found;
}

struct dure_allocation dure_books_enter(uint64_t key, uint64_t bytes, struct dure_device *device,
                                        cu_context context)
{
    pthread_mutex_lock(&books.lock);
    struct dure_allocation before = enter((struct dure_allocation){
        .key = key, .bytes = bytes, .device = device, .context = context, .holds = 1});
    pthread_mutex_unlock(&books.lock);
    return before;
}

struct dure_allocation dure_books_leave(uint64_t key)
{
    pthread_mutex_lock(&books.lock);
    struct dure_allocation found = let_go(known(key));
    pthread_mutex_unlock(&books.lock);
    return found;
}

void dure_books_hold(uint64_t handle)
{
    pthread_mutex_lock(&books.lock);
    struct dure_allocation *entry = known(handle);
    if (entry != NULL)
        entry->holds++;
    pthread_mutex_unlock(&books.lock);
}

void dure_books_map(uint64_t address, uint64_t bytes, uint64_t handle)
{
    pthread_mutex_lock(&books.lock);
    struct dure_allocation *entry = known(handle);
    if (entry != NULL && address > 1 && room()) {
        known(handle)->holds++; /* the books may have grown */
        enter((struct dure_allocation){
            .key = address, .bytes = bytes, .maps = handle, .holds = 1});
    }
    pthread_mutex_unlock(&books.lock);
}

struct dure_allocation dure_books_unmap(uint64_t *address, uint64_t end)
{
    struct dure_allocation found = {0};
    pthread_mutex_lock(&books.lock);
    while (*address < end && found.device == NULL) {
        struct dure_allocation *entry = known(*address);
        bool maps = entry != NULL && entry->maps != 0;
        *address += maps && entry->bytes >= GRANULE ? entry->bytes : GRANULE;
        if (!maps)
            continue;
        uint64_t handle = entry->maps;
        entry->key = 1;
        found = let_go(known(handle));
    }
    pthread_mutex_unlock(&books.lock);
    return found;
}

uint64_t dure_books_end(cu_context context, struct dure_device *device)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&books.lock);
    for (uint32_t index = 0; index < books.size; index++) {
        struct dure_allocation *entry = &books.table[index];
        if (entry->key <= 1 || entry->context != context || entry->device != device)
            continue;
        bytes += entry->bytes;
        entry->key = 1;
    }
    pthread_mutex_unlock(&books.lock);
    return bytes;
}
