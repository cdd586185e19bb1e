/* How programs come to call the shim: dlsym, cuGetProcAddress, and the driver's own names.
 *
 * dlsym is interposed in assembly so that everything it does not care about is a jump: the real one
 * sees the caller's return address, which RTLD_NEXT depends on, and other preloads keep their
 * place. This file runs before sanitizers are ready, so it is not instrumented.
 */
#include <dlfcn.h>
#include <string.h>

#include "hooks.h"
#include "shim.h"

#define PLAIN __attribute__((no_sanitize("address", "undefined")))

__attribute__((aligned(64))) struct dure_real dure_real;
uint64_t dure_hits[DURE_HOOK_COUNT];

typedef void *fn_dlsym(void *, const char *);
__attribute__((visibility("hidden"))) fn_dlsym *dure_real_dlsym;

struct entry {
    const char *symbol;
    const char *asked;
    int since;
    void *hook;
    void **real;
};

#define ENTRY(symbol, shape, asked, since)                                              \
    {#symbol, asked, since, (void *)hook_##symbol, (void **)&dure_real.symbol},
static const struct entry entries[] = {DURE_HOOKS(ENTRY)};

struct used {
    const char *symbol;
    void **real;
};
#define USED(symbol, shape) {#symbol, (void **)&dure_real.symbol},
static const struct used used[] = {DURE_USED_MOST(USED) DURE_USED(USED)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

PLAIN __attribute__((visibility("hidden"))) void dure_find_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t index = 0; index < COUNT(versions) && dure_real_dlsym == NULL; index++)
        dure_real_dlsym = (fn_dlsym *)dlvsym(RTLD_NEXT, "dlsym", versions[index]);
}

PLAIN static int same(const char *left, const char *right)
{
    while (*left != '\0' && *left == *right) {
        left++;
        right++;
    }
    return *left == *right;
}

PLAIN static const struct entry *entry_of(const char *symbol)
{
    for (size_t index = 0; index < COUNT(entries); index++)
        if (same(entries[index].symbol, symbol))
            return &entries[index];
    return NULL;
}

PLAIN static int ours(const void *address)
{
    for (size_t index = 0; index < COUNT(entries); index++)
        if (entries[index].hook == address)
            return 1;
    return 0;
}

PLAIN static void fill_from(void *driver)
{
    for (size_t index = 0; index < COUNT(used); index++)
        *used[index].real = dure_real_dlsym(driver, used[index].symbol);
    for (size_t index = 0; index < COUNT(entries); index++) {
        void *real = dure_real_dlsym(driver, entries[index].symbol);
        if (real != NULL && !ours(real))
            *entries[index].real = real;
    }
}

PLAIN int dure_find_driver(void)
{
    if (dure_real.cuGetProcAddress != NULL || dure_real.cuLaunchKernel != NULL)
        return 1;
    dure_find_dlsym();
    if (dure_real_dlsym == NULL)
        return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == NULL)
        return 0;
    fill_from(driver);
    return dure_real.cuLaunchKernel != NULL;
}

#define NOTHING ((void *)1)
#define ABSENT "a function of the CUDA driver, which is not loaded"

/* What dlsym answers for a name that starts with "cu"; NULL: what the real one says; NOTHING:
 * NULL. */
PLAIN __attribute__((visibility("hidden"), used)) void *dure_dlsym_pick(void *handle,
                                                                        const char *name)
{
    const struct entry *entry = entry_of(name);
    if (entry == NULL || handle == RTLD_NEXT)
        return NULL;
    void *real = dure_real_dlsym(handle, name);
    if (real == NULL)
        return NULL;
    if (*entry->real == NULL && !dure_find_driver() && !ours(real))
        fill_from(handle); /* a driver under another name */
    if (*entry->real != NULL)
        return entry->hook;
    if (!ours(real))
        return NULL;
    dure_real_dlsym(handle, ABSENT); /* found here, but there is no driver: have dlerror say so */
    return NOTHING;
}

/* clang-format off */
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym, @function\n"
    "dlsym:\n"
    "    endbr64\n"
    "    cmpq $0, dure_real_dlsym(%rip)\n"
    "    je 3f\n"
    "1:  cmpb $'c', (%rsi)\n"
    "    jne 2f\n"
    "    cmpb $'u', 1(%rsi)\n"
    "    jne 2f\n"
    "    pushq %rdi\n"
    "    pushq %rsi\n"
    "    subq $8, %rsp\n"
    "    call dure_dlsym_pick\n"
    "    addq $8, %rsp\n"
    "    popq %rsi\n"
    "    popq %rdi\n"
    "    cmpq $1, %rax\n"
    "    ja 4f\n"
    "    je 5f\n"
    "2:  jmp *dure_real_dlsym(%rip)\n"
    "3:  pushq %rdi\n"
    "    pushq %rsi\n"
    "    subq $8, %rsp\n"
    "    call dure_find_dlsym\n"
    "    addq $8, %rsp\n"
    "    popq %rsi\n"
    "    popq %rdi\n"
    "    cmpq $0, dure_real_dlsym(%rip)\n"
    "    jne 1b\n"
    "5:  xorl %eax, %eax\n"
    "4:  ret\n"
    ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym, %function\n"
    "dlsym:\n"
    "    stp x29, x30, [sp, #-32]!\n"
    "    stp x0, x1, [sp, #16]\n"
    "    bl dure_dlsym_enter\n"
    "    mov x9, x0\n"
    "    ldp x0, x1, [sp, #16]\n"
    "    ldp x29, x30, [sp], #32\n"
    "    cbz x9, 1f\n"
    "    cmp x9, #1\n"
    "    csel x0, xzr, x9, eq\n"
    "    ret\n"
    "1:  adrp x9, dure_real_dlsym\n"
    "    ldr x9, [x9, :lo12:dure_real_dlsym]\n"
    "    cbz x9, 2f\n"
    "    br x9\n"
    "2:  mov x0, xzr\n"
    "    ret\n"
    ".size dlsym, .-dlsym\n");

PLAIN __attribute__((visibility("hidden"), used)) void *dure_dlsym_enter(void *handle,
                                                                         const char *name)
{
    if (dure_real_dlsym == NULL)
        dure_find_dlsym();
    if (dure_real_dlsym == NULL || name[0] != 'c' || name[1] != 'u')
        return NULL;
    return dure_dlsym_pick(handle, name);
}
#else
#error "dlsym has no entry for this machine: write one beside those above"
#endif
/* clang-format on */

/* ---- cuGetProcAddress ------------------------------------------------------------------------ */

static int per_thread(const char *symbol)
{
    size_t length = strlen(symbol);
    return length > 5 && (strcmp(symbol + length - 5, "_ptsz") == 0 ||
                          strcmp(symbol + length - 5, "_ptds") == 0);
}

static int goes_by(const struct entry *entry, const char *asked)
{
    return strcmp(entry->asked, asked) == 0 || strcmp(entry->symbol, asked) == 0;
}

/* The hook for what the driver answered. The driver's choice of version and variant shows in the
 * address it gives; where that is none of its exported ones, its own rules are followed.
 * Addresses alone would not do: two functions may share one. */
static void *hook_for(const char *asked, void *answer, int version, uint64_t flags)
{
    const struct entry *best = NULL;
    for (size_t index = 0; index < COUNT(entries); index++)
        if (goes_by(&entries[index], asked) &&
            (*entries[index].real == answer || entries[index].hook == answer))
            return entries[index].hook;
    for (size_t index = 0; index < COUNT(entries); index++) {
        const struct entry *entry = &entries[index];
        if (!goes_by(entry, asked) || entry->since > version || *entry->real == NULL)
            continue;
        if (per_thread(entry->symbol) && (flags & CU_PROC_PER_THREAD_STREAM) == 0)
            continue;
        if (best == NULL || entry->since > best->since || per_thread(entry->symbol))
            best = entry;
    }
    return best != NULL ? best->hook : NULL;
}

static void replace(const char *asked, void **answer, int version, uint64_t flags)
{
    if (asked == NULL || answer == NULL || *answer == NULL || strncmp(asked, "cu", 2) != 0)
        return;
    void *hook = hook_for(asked, *answer, version, flags);
    if (hook != NULL)
        *answer = hook;
    else
        dure_log_unhooked(asked);
}

cu_result hook_cuGetProcAddress(const char *asked, void **answer, int version, uint64_t flags)
{
    DURE_ENTER(cuGetProcAddress);
    cu_result result = dure_real.cuGetProcAddress(asked, answer, version, flags);
    if (result == CU_OK)
        replace(asked, answer, version, flags);
    return result;
}
DURE_EXPORT(cuGetProcAddress);

cu_result hook_cuGetProcAddress_v2(const char *asked, void **answer, int version, uint64_t flags,
                                   int *status)
{
    DURE_ENTER(cuGetProcAddress_v2);
    cu_result result = dure_real.cuGetProcAddress_v2(asked, answer, version, flags, status);
    if (result == CU_OK)
        replace(asked, answer, version, flags);
    return result;
}
DURE_EXPORT(cuGetProcAddress_v2);

void dure_each_hook(void (*show)(const char *symbol, uint64_t hits))
{
    for (size_t index = 0; index < COUNT(entries); index++)
        show(entries[index].symbol, __atomic_load_n(&dure_hits[index], __ATOMIC_RELAXED));
}
