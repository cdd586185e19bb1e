/* One square float32 product the plain way: one thread an element, blocks of 16 by 16, loads from
 * global memory. Phases are timed one by one: context, allocation, input, kernel, output, free.
 *
 * Entries are small whole numbers, so that sums are exact in any order. A sample of the elements is
 * computed here and compared; the emulator computes the same sample and no more. */
#include <stdlib.h>
#include <string.h>

#include "../emulator/common/protocol.h"
#include "gpu.h"

#define BLOCK 16u
/* Of the kernel below on one H200: 19,456 squared takes 2.93 s. The emulator goes by it. */
#define FLOPS_PER_NS 5027.0

#define DOWN(next, last) "  add.u64 %down" next ", %down" last ", %down1;\n"
#define AT(step) "  add.u64 %at" step ", %rd8, %down" step ";\n"
#define LOADS(f, bytes, g, at)                              \
    "  ld.global.f32 %f" f ", [%rd6+" bytes "];\n"          \
    "  ld.global.f32 %f" g ", [%at" at "];\n"
#define ADDS(f, g) "  fma.rn.f32 %f1, %f" f ", %f" g ", %f1;\n"

static const char MATMUL_PTX[] =
    ".version 7.8\n.target sm_70\n.address_size 64\n"
    ".visible .entry dure_matmul(.param .u64 c, .param .u64 a, .param .u64 b, .param .u64 n,"
    " .param .u64 work_ns)\n{\n"
    "  .reg .pred %p<4>;\n  .reg .b32 %r<16>;\n  .reg .f32 %f<18>;\n  .reg .b64 %rd<11>;\n"
    "  .reg .b64 %down<9>;\n  .reg .b64 %at<8>;\n"
    "  ld.param.u64 %rd1, [c];\n  ld.param.u64 %rd2, [a];\n  ld.param.u64 %rd3, [b];\n"
    "  ld.param.u64 %rd4, [n];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n  cvta.to.global.u64 %rd2, %rd2;\n"
    "  cvta.to.global.u64 %rd3, %rd3;\n"
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r1, %r2, %r3;\n" /* column */
    "  mov.u32 %r5, %ctaid.y;\n  mov.u32 %r6, %ntid.y;\n  mov.u32 %r7, %tid.y;\n"
    "  mad.lo.u32 %r8, %r5, %r6, %r7;\n" /* row */
    "  cvt.u32.u64 %r9, %rd4;\n"
    "  setp.ge.u32 %p1, %r4, %r9;\n  setp.ge.u32 %p2, %r8, %r9;\n  or.pred %p3, %p1, %p2;\n"
    "  @%p3 bra done;\n"
    "  mul.wide.u32 %rd5, %r8, %r9;\n  shl.b64 %rd5, %rd5, 2;\n"
    "  add.u64 %rd6, %rd2, %rd5;\n" /* the row of a */
    "  mul.wide.u32 %rd7, %r4, 4;\n  add.u64 %rd8, %rd3, %rd7;\n" /* the column of b */
    "  add.u64 %rd10, %rd1, %rd5;\n  add.u64 %rd10, %rd10, %rd7;\n"
    "  mov.f32 %f1, 0f00000000;\n"
    "  mul.wide.u32 %down1, %r9, 4;\n" /* from there to the elements below */
    DOWN("2", "1") DOWN("3", "2") DOWN("4", "3") DOWN("5", "4") DOWN("6", "5") DOWN("7", "6")
    DOWN("8", "7")
    "loop:\n" /* eight at a time, all loads first, as a compiler unrolls it */
    AT("1") AT("2") AT("3") AT("4") AT("5") AT("6") AT("7")
    "  ld.global.f32 %f2, [%rd6];\n  ld.global.f32 %f10, [%rd8];\n"
    LOADS("3", "4", "11", "1") LOADS("4", "8", "12", "2") LOADS("5", "12", "13", "3")
    LOADS("6", "16", "14", "4") LOADS("7", "20", "15", "5") LOADS("8", "24", "16", "6")
    LOADS("9", "28", "17", "7")
    ADDS("2", "10") ADDS("3", "11") ADDS("4", "12") ADDS("5", "13") ADDS("6", "14")
    ADDS("7", "15") ADDS("8", "16") ADDS("9", "17")
    "  add.u64 %rd6, %rd6, 32;\n  add.u64 %rd8, %rd8, %down8;\n  sub.u32 %r9, %r9, 8;\n"
    "  setp.ne.u32 %p1, %r9, 0;\n  @%p1 bra loop;\n"
    "  st.global.f32 [%rd10], %f1;\n"
    "done:\n  ret;\n}\n";

/* What one run took, in nanoseconds; of several runs the sums. */
struct phases {
    uint64_t setup, allocate, input, kernel, output, give_back;
};

static float *input_a;
static float *input_b;

static float *host_matrix(uint64_t n)
{
    float *made = malloc(n * n * sizeof *made);
    if (made == NULL) {
        fprintf(stderr, "dure-tenant: no host memory for a matrix of %llu squared\n",
                (unsigned long long)n);
        exit(EXIT_CUDA);
    }
    return made;
}

/* Whole numbers from 0 to 3 in no simple order; sums stay exact up to some million columns. */
static void fill(float *matrix, uint64_t n, uint32_t seed)
{
    uint32_t word = seed;
    for (uint64_t i = 0; i < n * n; i++) {
        word = word * 1664525u + 1013904223u;
        matrix[i] = (float)(word >> 30);
    }
}

void prepare_matmul(const struct options *o)
{
    input_a = host_matrix(o->size);
    input_b = host_matrix(o->size);
    fill(input_a, o->size, (uint32_t)o->seed);
    fill(input_b, o->size, (uint32_t)o->seed + 1);
}

/* The elements the emulator computes, too; in the order in which the inputs lie in memory. */
static bool sample_is_right(const float *c, uint64_t n)
{
    float sum[2 * EMU_MATMUL_SAMPLES][2 * EMU_MATMUL_SAMPLES] = {{0}};
    uint64_t step = emu_matmul_step(n);
    uint64_t samples = (n + step - 1) / step;
    for (uint64_t k = 0; k < n; k++)
        for (uint64_t column = 0; column < samples; column++)
            for (uint64_t row = 0; row < samples; row++)
                sum[row][column] += input_a[row * step * n + k] * input_b[k * n + column * step];
    for (uint64_t row = 0; row < samples; row++)
        for (uint64_t column = 0; column < samples; column++)
            if (c[row * step * n + column * step] != sum[row][column])
                return false;
    return true;
}

static void open_device(const struct options *o, CUfunction *kernel)
{
    CUcontext context;
    CUmodule module;
    gpu_load();
    CHECK(cu.cuInit(0));
    CHECK(cu.cuDevicePrimaryCtxRetain(&context, o->device));
    CHECK(cu.cuCtxSetCurrent(context));
    CHECK(cu.cuModuleLoadData(&module, MATMUL_PTX));
    CHECK(cu.cuModuleGetFunction(kernel, module, "dure_matmul"));
}

static uint64_t lap(uint64_t *last)
{
    uint64_t now = now_ns();
    uint64_t passed = now - *last;
    *last = now;
    return passed;
}

static void multiply(const struct options *o, CUfunction kernel, float *c, struct phases *took)
{
    CUdeviceptr held = 0;
    CUdeviceptr m[3]; /* c, a, b */
    uint64_t n = o->size;
    size_t bytes = n * n * sizeof(float);
    uint64_t work = o->work_given ? o->work_ns
                                  : (uint64_t)(2.0 * (double)n * (double)n * (double)n
                                               / FLOPS_PER_NS);
    unsigned int blocks = (unsigned int)((n + BLOCK - 1) / BLOCK);
    void *params[] = {&m[0], &m[1], &m[2], &n, &work};
    uint64_t last = now_ns();
    for (int i = 0; i < 3; i++)
        CHECK(cu.cuMemAlloc_v2(&m[i], bytes));
    if (o->memory_mib > 0)
        CHECK(cu.cuMemAlloc_v2(&held, o->memory_mib << 20));
    took->allocate += lap(&last);
    CHECK(cu.cuMemcpyHtoD_v2(m[1], input_a, bytes));
    CHECK(cu.cuMemcpyHtoD_v2(m[2], input_b, bytes));
    took->input += lap(&last);
    CHECK(cu.cuLaunchKernel(kernel, blocks, blocks, 1, BLOCK, BLOCK, 1, 0, NULL, params, NULL));
    CHECK(cu.cuCtxSynchronize());
    took->kernel += lap(&last);
    CHECK(cu.cuMemcpyDtoH_v2(c, m[0], bytes));
    took->output += lap(&last);
    for (int i = 0; i < 3; i++)
        CHECK(cu.cuMemFree_v2(m[i]));
    if (held != 0)
        CHECK(cu.cuMemFree_v2(held));
    took->give_back += lap(&last);
}

int run_matmul(const struct options *o)
{
    struct phases took = {0};
    CUfunction kernel;
    if (input_a == NULL)
        prepare_matmul(o);
    float *c = host_matrix(o->size);
    memset(c, 0, o->size * o->size * sizeof *c); /* its pages are there before time counts */
    wait_for_start(o);
    uint64_t begin = now_ns();
    uint64_t last = begin;
    open_device(o, &kernel);
    took.setup = lap(&last);
    uint64_t times = o->count > 0 ? o->count : 1;
    for (uint64_t i = 0; i < times; i++)
        multiply(o, kernel, c, &took);
    uint64_t done = now_ns();
    bool correct = sample_is_right(c, o->size);
    printf(o->json ? "{\"program\": \"matmul\", \"size\": %llu, \"runs\": %llu, "
                     "\"begin_ns\": %llu, \"done_ns\": %llu, \"setup_s\": %.6f, "
                     "\"allocate_s\": %.6f, \"input_s\": %.6f, \"kernel_s\": %.6f, "
                     "\"output_s\": %.6f, \"free_s\": %.6f, \"correct\": %s}\n"
                   : "size %llu, %llu runs, from %llu to %llu ns: setup %.3f s, allocate %.3f s, "
                     "input %.3f s, kernel %.3f s, output %.3f s, free %.3f s, correct: %s\n",
           (unsigned long long)o->size, (unsigned long long)times, (unsigned long long)begin,
           (unsigned long long)done, (double)took.setup / 1e9, (double)took.allocate / 1e9,
           (double)took.input / 1e9, (double)took.kernel / 1e9, (double)took.output / 1e9,
           (double)took.give_back / 1e9, correct ? "true" : "false");
    free(c);
    return correct ? EXIT_FINE : EXIT_WRONG;
}
