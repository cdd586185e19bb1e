/* Children of a program that uses CUDA: one that only forks cannot use it, one that executes a
 * program
 * anew can; the parent's own work goes on. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

/* What a data-loading worker does: no CUDA, a little work, then the end. */
static int plain_child(void)
{
    uint32_t word = 1;
    for (uint32_t i = 0; i < 100000; i++)
        word = chase_word(word, i);
    return word != 0 ? EXIT_FINE : EXIT_WRONG;
}

/* A call in a forked child fails and does not hang; 0 where it did fail. */
static int using_child(void)
{
    CUresult result = cu.cuCtxSynchronize();
    return result != CUDA_SUCCESS ? EXIT_FINE : EXIT_WRONG;
}

static pid_t start_child(const struct options *o, uint64_t number)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    if (number % 3 == 0)
        _exit(plain_child());
    if (number % 3 == 1)
        _exit(using_child());
    execl("/proc/self/exe", o->program, "train", "--count", "5", "--work-us", "20", (char *)NULL);
    _exit(EXIT_USAGE);
}

int run_fork(const struct options *o)
{
    enum { MOST = 64 };
    pid_t children[MOST];
    uint64_t errors = 0;
    uint64_t count = o->children < MOST ? o->children : MOST;
    gpu_open(o);
    CUdeviceptr x = device_words(256);
    uint32_t out[256];
    launch_fill(o, gpu.stream, x, 256, 1);
    fflush(stdout);
    for (uint64_t i = 0; i < count; i++) {
        launch_chase(o, gpu.stream, x, 256, (uint32_t)i);
        children[i] = start_child(o, i);
    }
    for (uint64_t i = 0; i < count; i++) {
        int status = 0;
        errors += waitpid(children[i], &status, 0) < 0 || !WIFEXITED(status) ||
                  WEXITSTATUS(status) != EXIT_FINE;
    }
    CHECK(cu.cuStreamSynchronize(gpu.stream));
    CHECK(cu.cuMemcpyDtoH_v2(out, x, sizeof out));
    uint32_t word = 1;
    for (uint64_t i = 0; i < count; i++)
        word = chase_word(word, (uint32_t)i);
    errors += out[0] != word;
    printf(o->json ? "{\"program\": \"fork\", \"children\": %llu, \"errors\": %llu}\n"
                   : "%llu children, %llu wrong\n",
           (unsigned long long)count, (unsigned long long)errors);
    return errors > 0 ? EXIT_WRONG : EXIT_FINE;
}
