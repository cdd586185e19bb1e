/* The tenants' kernels as PTX text. Each spins `iterations` times before it touches memory (work
 * that
 * slows down when SMs are shared) and takes its stated duration in ns too, which the emulator
 * reads. */
#include "gpu.h"

/* A loop of dependent multiply-adds; the result goes nowhere but cannot be dropped. */
#define SPIN(label)                                                                               \
    "  cvt.u32.u64 %r20, %rd20;\n"                                                                \
    "  mov.u32 %r21, %tid.x;\n"                                                                   \
    "  setp.eq.u64 %p9, %rd20, 0;\n"                                                              \
    "  @%p9 bra " label "_end;\n" label ":\n"                                                     \
    "  mad.lo.u32 %r21, %r21, 1664525, %r20;\n"                                                   \
    "  mad.lo.u32 %r21, %r21, 1664525, %r20;\n"                                                   \
    "  mad.lo.u32 %r21, %r21, 1664525, %r20;\n"                                                   \
    "  mad.lo.u32 %r21, %r21, 1664525, %r20;\n"                                                   \
    "  sub.u64 %rd20, %rd20, 1;\n"                                                                \
    "  setp.ne.u64 %p9, %rd20, 0;\n"                                                              \
    "  @%p9 bra " label ";\n" label "_end:\n"                                                     \
    "  setp.eq.u32 %p9, %r21, 0x5eed1234;\n"                                                      \
    "  @%p9 membar.cta;\n"

#define REGISTERS "  .reg .pred %p<10>;\n  .reg .b32 %r<24>;\n  .reg .b64 %rd<24>;\n"

/* %rd10 = this thread's index, %rd11 = number of threads. */
#define INDEX                                                                                     \
    "  mov.u32 %r1, %ctaid.x;\n"                                                                  \
    "  mov.u32 %r2, %ntid.x;\n"                                                                   \
    "  mov.u32 %r3, %tid.x;\n"                                                                    \
    "  mov.u32 %r4, %nctaid.x;\n"                                                                 \
    "  mad.lo.u32 %r5, %r1, %r2, %r3;\n"                                                          \
    "  cvt.u64.u32 %rd10, %r5;\n"                                                                 \
    "  mul.wide.u32 %rd11, %r4, %r2;\n"

/* Over all words: %rd10 runs to %rd9; `body` has the byte offset in %rd12. */
#define LOOP(label, body)                                                                         \
    label ":\n"                                                                                   \
    "  setp.ge.u64 %p1, %rd10, %rd9;\n"                                                           \
    "  @%p1 bra " label "_end;\n"                                                                 \
    "  shl.b64 %rd12, %rd10, 2;\n" body "  add.u64 %rd10, %rd10, %rd11;\n"                        \
    "  bra " label ";\n" label "_end:\n"                                                          \
    "  ret;\n}\n"

const char KERNELS_PTX[] =
    ".version 7.8\n.target sm_70\n.address_size 64\n"

    ".visible .entry dure_spin(.param .u64 work_ns, .param .u64 bytes, .param .u64 iterations)\n{\n"
    REGISTERS "  ld.param.u64 %rd20, [iterations];\n" SPIN("spin") "  ret;\n}\n"

    ".visible .entry dure_fill(.param .u64 x, .param .u64 n, .param .u32 value,"
    " .param .u64 work_ns, .param .u64 iterations)\n{\n" REGISTERS
    "  ld.param.u64 %rd20, [iterations];\n" SPIN("fill_spin")
    "  ld.param.u64 %rd1, [x];\n  ld.param.u64 %rd9, [n];\n  ld.param.u32 %r6, [value];\n" INDEX
    LOOP("fill", "  add.u64 %rd13, %rd1, %rd12;\n  st.global.u32 [%rd13], %r6;\n")

    ".visible .entry dure_add(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 n,"
    " .param .u64 work_ns, .param .u64 iterations)\n{\n" REGISTERS
    "  ld.param.u64 %rd20, [iterations];\n" SPIN("add_spin")
    "  ld.param.u64 %rd1, [out];\n  ld.param.u64 %rd2, [a];\n  ld.param.u64 %rd3, [b];\n"
    "  ld.param.u64 %rd9, [n];\n" INDEX
    LOOP("add", "  add.u64 %rd13, %rd2, %rd12;\n  ld.global.u32 %r6, [%rd13];\n"
                "  add.u64 %rd13, %rd3, %rd12;\n  ld.global.u32 %r7, [%rd13];\n"
                "  add.u32 %r6, %r6, %r7;\n"
                "  add.u64 %rd13, %rd1, %rd12;\n  st.global.u32 [%rd13], %r6;\n")

    ".visible .entry dure_axpy(.param .u64 y, .param .u64 x, .param .u64 n, .param .u32 a,"
    " .param .u64 work_ns, .param .u64 iterations)\n{\n" REGISTERS
    "  ld.param.u64 %rd20, [iterations];\n" SPIN("axpy_spin")
    "  ld.param.u64 %rd1, [y];\n  ld.param.u64 %rd2, [x];\n  ld.param.u64 %rd9, [n];\n"
    "  ld.param.u32 %r8, [a];\n" INDEX
    LOOP("axpy", "  add.u64 %rd13, %rd2, %rd12;\n  ld.global.u32 %r6, [%rd13];\n"
                 "  add.u64 %rd13, %rd1, %rd12;\n  ld.global.u32 %r7, [%rd13];\n"
                 "  mad.lo.u32 %r7, %r6, %r8, %r7;\n  st.global.u32 [%rd13], %r7;\n")

    ".visible .entry dure_sum(.param .u64 out, .param .u64 x, .param .u64 n, .param .u64 work_ns,"
    " .param .u64 iterations)\n{\n" REGISTERS
    "  ld.param.u64 %rd20, [iterations];\n" SPIN("sum_spin")
    "  ld.param.u64 %rd1, [out];\n  ld.param.u64 %rd2, [x];\n  ld.param.u64 %rd9, [n];\n" INDEX
    LOOP("sum", "  add.u64 %rd13, %rd2, %rd12;\n  ld.global.u32 %r6, [%rd13];\n"
                "  cvt.u64.u32 %rd14, %r6;\n  atom.global.add.u64 %rd15, [%rd1], %rd14;\n")

    ".visible .entry dure_chase(.param .u64 x, .param .u64 n, .param .u32 addend,"
    " .param .u64 work_ns, .param .u64 iterations)\n{\n" REGISTERS
    "  ld.param.u64 %rd20, [iterations];\n" SPIN("chase_spin")
    "  ld.param.u64 %rd1, [x];\n  ld.param.u64 %rd9, [n];\n  ld.param.u32 %r8, [addend];\n" INDEX
    LOOP("chase", "  add.u64 %rd13, %rd1, %rd12;\n  ld.global.u32 %r6, [%rd13];\n"
                  "  mad.lo.u32 %r6, %r6, 1664525, %r8;\n  st.global.u32 [%rd13], %r6;\n");
