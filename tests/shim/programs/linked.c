/* A program linked against the driver; `absent` asks for CUDA without having it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
int cuStreamSynchronize(void *);

int main(void)
{
    void *context = NULL;
    static char name[] = "linked_kernel";
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    for (int index = 0; index < 5; index++)
        if (cuLaunchKernel(name, 10, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) != 0)
            return 1;
    if (cuStreamSynchronize(NULL) != 0)
        return 1;
    puts("end");
    return 0;
}
