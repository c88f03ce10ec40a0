// SPDX-License-Identifier: Apache-2.0
//
// Each worker thread has its own plans, so that running one takes no lock and, once its shape is
// known, allocates nothing. oneDNN is loaded when the first library handle is made, since loading
// it takes longer than a program without products needs to start.
#include "emu/gemm_plan.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(number) #number
#define SONAME_OF(major) "libdnnl.so." TEXT(major)
#define SONAME SONAME_OF(DNNL_VERSION_MAJOR)

// clang-format off
#define DNNL_FUNCTIONS(X) \
    X(engine_create) X(engine_destroy) X(stream_create) X(stream_destroy) X(stream_wait) \
    X(memory_desc_init_by_strides) X(memory_desc_get_size) X(matmul_desc_init) \
    X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_scratchpad_mode) \
    X(primitive_desc_create) X(primitive_desc_destroy) X(primitive_desc_query_md) \
    X(primitive_create) X(primitive_destroy) X(primitive_execute) \
    X(memory_create) X(memory_destroy) X(memory_set_data_handle)
// clang-format on

#define DNNL_MEMBER(name) __typeof__(&dnnl_##name) name;
#define DNNL_SLOT(name) {"dnnl_" #name, offsetof(struct dnnl, name)},

static struct dnnl {
    DNNL_FUNCTIONS(DNNL_MEMBER)
    // Of the OpenMP runtime that oneDNN brings along; it holds for the calling thread.
    void (*omp_set_num_threads)(int n);
} dnnl;

static const struct {
    const char *symbol;
    size_t offset;
} slots[] = {
    DNNL_FUNCTIONS(DNNL_SLOT){"omp_set_num_threads", offsetof(struct dnnl, omp_set_num_threads)}};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key; // frees a thread's plans when it ends
static bool loaded;
static bool has_bf16;

enum argument { SRC, WEIGHTS, DST, SCRATCHPAD, ARGUMENTS };

static const int argument_index[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                              DNNL_ARG_SCRATCHPAD};

struct plan {
    struct emu_gemm_shape shape;
    dnnl_primitive_t primitive; // NULL: this place is free
    dnnl_memory_t memory[ARGUMENTS];
    size_t scratchpad_bytes;
};

enum { PLANS = 256 };

// What one thread keeps. A shape has one place among the plans, and displaces the shape that had
// it.
struct thread {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;
    struct plan plans[PLANS];
    struct {
        void *memory;
        size_t bytes;
    } scratch[EMU_SCRATCHES];
};

static void plan_free(struct plan *plan)
{
    for (int i = 0; i < ARGUMENTS; i++) {
        if (plan->memory[i] != NULL) {
            dnnl.memory_destroy(plan->memory[i]);
        }
    }
    if (plan->primitive != NULL) {
        dnnl.primitive_destroy(plan->primitive);
    }
    memset(plan, 0, sizeof *plan);
}

static void thread_free(void *given)
{
    struct thread *thread = given;
    for (size_t i = 0; i < PLANS; i++) {
        plan_free(&thread->plans[i]);
    }
    for (size_t i = 0; i < EMU_SCRATCHES; i++) {
        free(thread->scratch[i].memory);
    }
    if (thread->attributes != NULL) {
        dnnl.primitive_attr_destroy(thread->attributes);
    }
    if (thread->stream != NULL) {
        dnnl.stream_destroy(thread->stream);
    }
    if (thread->engine != NULL) {
        dnnl.engine_destroy(thread->engine);
    }
    free(thread);
}

static struct thread *thread_get(void)
{
    struct thread *thread = pthread_getspecific(thread_key);
    if (thread != NULL) {
        return thread;
    }
    thread = calloc(1, sizeof *thread);
    if (thread == NULL) {
        return NULL;
    }
    dnnl.omp_set_num_threads(1);
    if (dnnl.engine_create(&thread->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl.stream_create(&thread->stream, thread->engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        dnnl.primitive_attr_create(&thread->attributes) != dnnl_success ||
        dnnl.primitive_attr_set_scratchpad_mode(thread->attributes, dnnl_scratchpad_mode_user) !=
            dnnl_success ||
        pthread_setspecific(thread_key, thread) != 0) {
        thread_free(thread);
        return NULL;
    }
    return thread;
}

static bool describe(dnnl_memory_desc_t *desc, uint64_t rows, uint64_t cols, uint64_t row_stride,
                     uint64_t col_stride, dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)cols};
    const dnnl_dims_t strides = {(dnnl_dim_t)row_stride, (dnnl_dim_t)col_stride};
    return dnnl.memory_desc_init_by_strides(desc, 2, dims, type, strides) == dnnl_success;
}

// Fills the free [plan]. On failure the caller frees it.
static dnnl_status_t plan_make(struct plan *plan, struct thread *thread,
                               const struct emu_gemm_shape *shape)
{
    dnnl_data_type_t operand = shape->f32_operands ? dnnl_f32 : dnnl_bf16;
    dnnl_data_type_t result = shape->bf16_result ? dnnl_bf16 : dnnl_f32;
    dnnl_memory_desc_t desc[ARGUMENTS];
    dnnl_matmul_desc_t matmul;
    if (!describe(&desc[SRC], shape->m, shape->k, shape->lda, 1, operand) ||
        !describe(&desc[WEIGHTS], shape->k, shape->n, 1, shape->ldw, operand) ||
        !describe(&desc[DST], shape->m, shape->n, shape->ldd, 1, result) ||
        dnnl.matmul_desc_init(&matmul, &desc[SRC], &desc[WEIGHTS], NULL, &desc[DST]) !=
            dnnl_success) {
        return dnnl_invalid_arguments;
    }
    dnnl_primitive_desc_t primitive;
    dnnl_status_t status =
        dnnl.primitive_desc_create(&primitive, &matmul, thread->attributes, thread->engine, NULL);
    if (status != dnnl_success) {
        return status;
    }
    desc[SCRATCHPAD] = *dnnl.primitive_desc_query_md(primitive, dnnl_query_scratchpad_md, 0);
    plan->scratchpad_bytes = dnnl.memory_desc_get_size(&desc[SCRATCHPAD]);
    status = dnnl.primitive_create(&plan->primitive, primitive);
    dnnl.primitive_desc_destroy(primitive);
    for (int i = 0; status == dnnl_success && i < ARGUMENTS; i++) {
        status = dnnl.memory_create(&plan->memory[i], &desc[i], thread->engine, DNNL_MEMORY_NONE);
    }
    plan->shape = *shape;
    return status;
}

static size_t place_of(const struct emu_gemm_shape *shape)
{
    const unsigned char *p = (const unsigned char *)shape;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof *shape; i++) {
        hash = (hash ^ p[i]) * 0x100000001b3u;
    }
    return (hash ^ hash >> 32) % PLANS;
}

static bool fail(const struct emu_gemm_shape *shape, const char *what, int status)
{
    fprintf(stderr, "kern-emu: oneDNN: %s of a product of m %llu, n %llu, k %llu: status %d\n",
            what, (unsigned long long)shape->m, (unsigned long long)shape->n,
            (unsigned long long)shape->k, status);
    return false;
}

bool emu_gemm_plan_run(const struct emu_gemm_shape *shape, const void *a, const void *w, void *d)
{
    struct thread *thread = thread_get();
    if (thread == NULL) {
        return fail(shape, "preparation", dnnl_out_of_memory);
    }
    struct plan *plan = &thread->plans[place_of(shape)];
    if (plan->primitive == NULL || memcmp(&plan->shape, shape, sizeof *shape) != 0) {
        plan_free(plan);
        dnnl_status_t status = plan_make(plan, thread, shape);
        if (status != dnnl_success) {
            plan_free(plan);
            return fail(shape, "preparation", (int)status);
        }
    }
    void *scratchpad = emu_gemm_scratch(EMU_SCRATCH_ONEDNN, plan->scratchpad_bytes);
    if (scratchpad == NULL) {
        return fail(shape, "preparation", dnnl_out_of_memory);
    }
    // oneDNN takes operands that it only reads by a pointer that is not const.
    void *const handles[ARGUMENTS] = {(void *)(uintptr_t)a, (void *)(uintptr_t)w, d, scratchpad};
    dnnl_exec_arg_t arguments[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++) {
        dnnl.memory_set_data_handle(plan->memory[i], handles[i]);
        arguments[i] = (dnnl_exec_arg_t){argument_index[i], plan->memory[i]};
    }
    dnnl_status_t status =
        dnnl.primitive_execute(plan->primitive, thread->stream, ARGUMENTS, arguments);
    if (status == dnnl_success) {
        status = dnnl.stream_wait(thread->stream);
    }
    return status == dnnl_success || fail(shape, "run", (int)status);
}

void *emu_gemm_scratch(enum emu_gemm_scratch which, size_t bytes)
{
    struct thread *thread = thread_get();
    if (thread == NULL) {
        return NULL;
    }
    if (thread->scratch[which].memory == NULL || thread->scratch[which].bytes < bytes) {
        free(thread->scratch[which].memory);
        thread->scratch[which].bytes = (bytes / 4096 + 1) * 4096;
        thread->scratch[which].memory = aligned_alloc(4096, thread->scratch[which].bytes);
    }
    return thread->scratch[which].memory;
}

// Whether oneDNN knows a product of this shape on this CPU.
static bool probe(const struct emu_gemm_shape *shape)
{
    struct thread *thread = thread_get();
    struct plan plan = {0};
    bool known = thread != NULL && plan_make(&plan, thread, shape) == dnnl_success;
    plan_free(&plan);
    return known;
}

static void load(void)
{
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "kern-emu: matrix products need oneDNN: %s\n", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        void *function = dlsym(library, slots[i].symbol);
        if (function == NULL) {
            fprintf(stderr, "kern-emu: matrix products need oneDNN: %s\n", dlerror());
            return;
        }
        memcpy((char *)&dnnl + slots[i].offset, &function, sizeof function);
    }
    if (pthread_key_create(&thread_key, thread_free) != 0) {
        fprintf(stderr, "kern-emu: matrix products need one more thread-specific key\n");
        return;
    }
    has_bf16 = probe(&(struct emu_gemm_shape){16, 16, 16, 16, 16, 16, 0, 1});
    loaded = true;
}

bool emu_gemm_plan_load(void)
{
    pthread_once(&load_once, load);
    return loaded;
}

bool emu_gemm_plan_has_bf16(void)
{
    return has_bf16;
}
