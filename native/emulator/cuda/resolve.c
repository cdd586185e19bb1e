/* cuGetProcAddress: calls by name, version and kind of default stream. */
#include <stdint.h>
#include <string.h>

/* Only addresses are needed here, so the calls are declared without their parameters. */
#define API __attribute__((visibility("protected")))
#define X(base, since, per_thread, call) int call();
#include "calls.h"
#undef X

typedef int (*call_type)();

struct call {
    const char *base;
    const char *name;
    int since;
    int per_thread;
    call_type address;
};

static const struct call CALLS[] = {
#define X(base, since, per_thread, call) {#base, #call, since, per_thread, (call_type)call},
#include "calls.h"
#undef X
};

#define PER_THREAD_DEFAULT_STREAM 2u
enum { FOUND, NO_SUCH_SYMBOL, VERSION_TOO_OLD };
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500 };

/* The newest variant that is not newer than the version asked for; per-thread ones come first where
 * they are wanted. A name with its suffix means just that call. */
static const struct call *find(const char *name, int version, int per_thread, int *status)
{
    const struct call *best = NULL;
    *status = NO_SUCH_SYMBOL;
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        const struct call *call = &CALLS[i];
        if (strcmp(call->name, name) == 0 && strcmp(call->base, name) != 0) {
            *status = FOUND;
            return call;
        }
        if (strcmp(call->base, name) != 0)
            continue;
        if (call->since > version) {
            *status = *status == FOUND ? FOUND : VERSION_TOO_OLD;
            continue;
        }
        if (call->per_thread && !per_thread)
            continue;
        *status = FOUND;
        if (best == NULL || call->per_thread > best->per_thread ||
            (call->per_thread == best->per_thread && call->since > best->since))
            best = call;
    }
    return best;
}

API int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags,
                            int *status)
{
    int found = NO_SUCH_SYMBOL;
    if (name == NULL || address == NULL || flags > 3)
        return INVALID_VALUE;
    const struct call *call = find(name, version, (flags & PER_THREAD_DEFAULT_STREAM) != 0, &found);
    *address = call != NULL ? (void *)call->address : NULL;
    if (status != NULL)
        *status = found;
    return call != NULL ? SUCCESS : NOT_FOUND;
}

API int cuGetProcAddress(const char *name, void **address, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, address, version, flags, NULL);
}
