/* The bell that held threads sleep on: a futex in shared memory. */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "words.h"

/* Wake everybody held, if anybody is: what the caller wrote before is seen by who sleeps after. */
void ring(struct dure_rotation *rotation)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (load(&rotation->sleepers) == 0)
        return;
    add(&rotation->bell, 1u);
    syscall(SYS_futex, &rotation->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until the bell is no longer what it was, a signal, or a time at most. */
void sleep_on(struct dure_rotation *rotation, uint32_t bell, uint64_t most_ns)
{
    struct timespec most = {(time_t)(most_ns / 1000000000ull), (long)(most_ns % 1000000000ull)};
    syscall(SYS_futex, &rotation->bell, FUTEX_WAIT, bell, &most, NULL, 0);
}
