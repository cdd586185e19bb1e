/* Modules: PTX text, its entries and their parameters; which of them the broker knows. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static const char *const KNOWN[] = {
    [EMU_KERNEL_SPIN] = "dure_spin", [EMU_KERNEL_FILL] = "dure_fill",
    [EMU_KERNEL_ADD] = "dure_add",   [EMU_KERNEL_AXPY] = "dure_axpy",
    [EMU_KERNEL_SUM] = "dure_sum",   [EMU_KERNEL_CHASE] = "dure_chase",
    [EMU_KERNEL_MATMUL] = "dure_matmul",
};

static uint32_t known(const char *name)
{
    for (uint32_t i = 1; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (strcmp(KNOWN[i], name) == 0)
            return i;
    return EMU_KERNEL_UNKNOWN;
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static uint32_t type_bytes(const char *type)
{
    uint32_t bits = 0;
    while (isalpha((unsigned char)*type))
        type++;
    while (isdigit((unsigned char)*type))
        bits = 10 * bits + (uint32_t)(*type++ - '0');
    return bits >= 8 ? bits / 8 : 4;
}

/* One ".param .type name" or ".param .align 8 .b8 name[N]", up to the comma or bracket. */
static const char *read_param(const char *at, struct CUfunc_st *function)
{
    uint32_t bytes = 4;
    uint32_t align = 0;
    uint32_t number = 1;
    const char *end = at + strcspn(at, ",)");
    for (const char *c = at; c < end; c++) {
        if (*c == '[')
            number = (uint32_t)strtoul(c + 1, NULL, 10);
        if (*c != '.')
            continue;
        if (strncmp(c, ".align", 6) == 0)
            align = (uint32_t)strtoul(c + 6, NULL, 10);
        else if (strncmp(c, ".param", 6) != 0 && strncmp(c, ".ptr", 4) != 0)
            bytes = type_bytes(c + 1);
    }
    if (function->params < PARAMS) {
        uint32_t last = function->params;
        uint32_t after = last > 0 ? function->offset[last - 1] + function->size[last - 1] : 0;
        align = align > 0 ? align : bytes;
        function->size[last] = bytes * number;
        function->offset[last] = (after + align - 1) / align * align;
        function->params++;
    }
    return end;
}

/* Parameters of an entry; `at` is behind its name. */
static const char *read_params(const char *at, struct CUfunc_st *function)
{
    at = skip_space(at);
    if (*at != '(')
        return at;
    at = skip_space(at + 1);
    while (*at != '\0' && *at != ')') {
        at = read_param(at, function);
        at = skip_space(*at == ',' ? at + 1 : at);
    }
    return at;
}

static const char *read_entry(const char *at, struct CUmod_st *module)
{
    struct CUfunc_st *function = calloc(1, sizeof *function);
    at = skip_space(at);
    size_t length = strcspn(at, " \t\r\n(");
    if (length >= sizeof function->name)
        length = sizeof function->name - 1;
    memcpy(function->name, at, length);
    function->kind = IS_FUNCTION;
    function->kernel = known(function->name);
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    return read_params(at + length, function);
}

static CUresult load(struct CUmod_st **module, const void *image)
{
    ENTER();
    if (module == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_here());
    const char *text = image;
    if (strncmp(text, "\x7f"
                      "ELF",
                4) == 0 ||
        strstr(text, ".version") == NULL)
        return CUDA_ERROR_INVALID_IMAGE; /* the emulator reads PTX text alone */
    struct CUmod_st *made = calloc(1, sizeof *made);
    made->kind = IS_MODULE;
    for (const char *at = strstr(text, ".entry"); at != NULL; at = strstr(at, ".entry"))
        at = read_entry(at + 6, made);
    *module = made;
    return CUDA_SUCCESS;
}

static CUresult find(struct CUmod_st *module, const char *name, struct CUfunc_st **function)
{
    ENTER();
    if (module == NULL || module->kind != IS_MODULE)
        return CUDA_ERROR_INVALID_HANDLE;
    if (name == NULL || function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct CUfunc_st *f = module->functions; f != NULL; f = f->next) {
        if (strcmp(f->name, name) == 0) {
            *function = f;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* Functions stay in memory: launches in flight and graphs may still name them. */
static CUresult unload(struct CUmod_st *module)
{
    ENTER();
    if (module == NULL || module->kind != IS_MODULE)
        return CUDA_ERROR_INVALID_HANDLE;
    module->kind = 0;
    return CUDA_SUCCESS;
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    struct CUctx_st *context;
    ENTER();
    TRY(current_context_or_error(&context));
    return load(module, image);
}

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                int *options,
                                void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

API CUresult cuModuleUnload(CUmodule module)
{
    return unload(module);
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    return find(module, name, function);
}

API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    ENTER();
    if (module == NULL || module->kind != IS_MODULE || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 0;
    for (struct CUfunc_st *f = module->functions; f != NULL; f = f->next)
        ++*count;
    return CUDA_SUCCESS;
}

API CUresult cuModuleGetLoadingMode(int *mode)
{
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

API CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit, void **jit_values,
                               unsigned int jit_count, int *options, void **values,
                               unsigned int count)
{
    (void)jit;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    return load((struct CUmod_st **)library, code);
}

API CUresult cuLibraryUnload(CUlibrary library)
{
    return unload((struct CUmod_st *)library);
}

API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return find((struct CUmod_st *)library, name, (struct CUfunc_st **)kernel);
}

API CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    ENTER();
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

static CUresult function_of(const void *handle, struct CUfunc_st **function)
{
    *function = (struct CUfunc_st *)handle;
    if (handle == NULL || (*function)->kind != IS_FUNCTION)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    ENTER();
    return function_of(kernel, function);
}

API CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    ENTER();
    TRY(function_of(function, &function));
    *module = function->module;
    return CUDA_SUCCESS;
}

API CUresult cuFuncGetName(const char **name, CUfunction function)
{
    ENTER();
    TRY(function_of(function, &function));
    *name = function->name;
    return CUDA_SUCCESS;
}

API CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)kernel);
}

API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    ENTER();
    TRY(function_of(function, &function));
    if (index >= function->params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = function->offset[index];
    if (size != NULL)
        *size = function->size[index];
    return CUDA_SUCCESS;
}

API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

/* 0 threads per block, 1 shared bytes, 2 constant, 3 local, 4 registers, 5 PTX, 6 binary version,
 * 8 most dynamic shared bytes. */
API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    ENTER();
    TRY(function_of(function, &function));
    static const int VALUES[] = {1024, 0, 0, 0, 32, 90, 90, 0};
    if (value == NULL || attribute < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute < 8 ? VALUES[attribute] : 0;
    if (attribute == 8)
        *value = function->dynamic_shared > 0 ? (int)function->dynamic_shared : 49152;
    return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    ENTER();
    TRY(function_of(function, &function));
    if (attribute == 8 && value >= 0)
        function->dynamic_shared = (uint32_t)value;
    return CUDA_SUCCESS;
}

API CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    (void)config;
    ENTER();
    return function_of(function, &function);
}

API CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device)
{
    (void)device;
    return cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

API CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
    (void)device;
    return cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}
