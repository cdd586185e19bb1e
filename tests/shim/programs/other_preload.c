/* Another preload: it wraps a C function and a CUDA function with what comes after it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))

API int puts(const char *text)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    next("other puts");
    return next(text);
}

API int cuStreamSynchronize(void *stream)
{
    int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cuStreamSynchronize");
    fputs("other sync\n", stdout);
    return next != NULL ? next(stream) : 1;
}
