/* Dies in mid-kernel, in the way asked for. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

/* A kernel on an address that is no memory: the error stays with the process. */
static int touch_nothing(const struct options *o)
{
    launch_fill(o, gpu.stream, 0x10, 256, 1);
    CUresult first = cu.cuStreamSynchronize(gpu.stream);
    CUresult second = cu.cuCtxSynchronize();
    printf("first %d, then %d\n", (int)first, (int)second);
    return first == CUDA_ERROR_ILLEGAL_ADDRESS && second == first ? EXIT_FINE : EXIT_WRONG;
}

int run_crash(const struct options *o)
{
    gpu_open(o);
    if (strcmp(o->how, "address") == 0)
        return touch_nothing(o);
    struct options endless = *o;
    endless.work_ns = (uint64_t)((o->after + 5) * 1e9); /* is surely running then */
    launch_spin(&endless, gpu.stream);
    printf("running\n");
    fflush(stdout);
    sleep_until_ns(now_ns() + (uint64_t)(o->after * 1e9), false);
    if (strcmp(o->how, "kill") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(o->how, "abort") == 0)
        abort();
    else if (strcmp(o->how, "segfault") == 0)
        raise(SIGSEGV);
    else if (strcmp(o->how, "exit") == 0)
        exit(7);
    fprintf(stderr, "dure-tenant: --how must be kill, abort, segfault, exit or address\n");
    return EXIT_USAGE;
}
