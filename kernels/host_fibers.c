// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_fibers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/host_run.h"
#include "kernels/host_switch.h"

// A kernel's frame is small. The sanitizers' frames are not. The page below each stack stays
// closed, so that one that overflows faults instead of writing over its neighbour.
enum { GUARD_BYTES = 4096 * 16 };
#if defined(KERN_HOST_ASAN) || defined(KERN_HOST_TSAN)
enum { STACK_BYTES = 192 * 1024 };
#else
enum { STACK_BYTES = 64 * 1024 };
#endif

struct fiber {
    struct kern_host_context context;
    struct kern_host_dim thread;
    struct fiber *next;
};

struct queue {
    struct fiber *head;
    struct fiber *tail;
    uint32_t length;
};

struct kern_host_fibers {
    struct kern_host_fibers *next; // in the pool
    char *stacks;                  // one after another, each above its guard
    uint32_t opened;               // stacks that are readable and writable
    uint32_t threads;              // of a block
    uint32_t alive;                // of them, not yet at their end
    bool trapped;
    struct queue ready;   // can run
    struct queue waiting; // at the barrier
    struct fiber *current;
    struct kern_host_context caller;
    void (*thread)(void *const *args);
    void *const *args;
    struct fiber fiber[KERN_HOST_MAX_THREADS];
};

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kern_host_fibers *pool;
// The set whose fiber a context's entry starts: an entry takes no argument.
static __thread struct kern_host_fibers *running;

static void push(struct queue *queue, struct fiber *fiber)
{
    fiber->next = NULL;
    if (queue->tail) {
        queue->tail->next = fiber;
    } else {
        queue->head = fiber;
    }
    queue->tail = fiber;
    queue->length++;
}

// Never of an empty queue: of the threads of a block that have not ended one can always run.
static struct fiber *pop(struct queue *queue)
{
    struct fiber *fiber = queue->head;
    if (!fiber) {
        abort();
    }
    queue->head = fiber->next;
    if (!queue->head) {
        queue->tail = NULL;
    }
    queue->length--;
    return fiber;
}

static struct kern_host_fibers *create(void)
{
    struct kern_host_fibers *fibers = calloc(1, sizeof(*fibers));
    if (!fibers) {
        return NULL;
    }
    const size_t stride = GUARD_BYTES + STACK_BYTES;
    void *stacks = mmap(NULL, stride * KERN_HOST_MAX_THREADS, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        free(fibers);
        return NULL;
    }
    fibers->stacks = stacks;
    for (uint32_t i = 0; i < KERN_HOST_MAX_THREADS; i++) {
        fibers->fiber[i].context.stack = fibers->stacks + i * stride + GUARD_BYTES;
        fibers->fiber[i].context.size = STACK_BYTES;
    }
    return fibers;
}

static void destroy(struct kern_host_fibers *fibers)
{
    for (uint32_t i = 0; i < fibers->opened; i++) {
        kern_host_context_end(&fibers->fiber[i].context);
    }
    munmap(fibers->stacks, (size_t)(GUARD_BYTES + STACK_BYTES) * KERN_HOST_MAX_THREADS);
    free(fibers);
}

__attribute__((destructor)) static void destroy_pool(void)
{
    while (pool) {
        struct kern_host_fibers *fibers = pool;
        pool = fibers->next;
        destroy(fibers);
    }
}

static bool open_stacks(struct kern_host_fibers *fibers, uint32_t threads)
{
    for (; fibers->opened < threads; fibers->opened++) {
        char *stack = fibers->stacks + fibers->opened * (size_t)(GUARD_BYTES + STACK_BYTES);
        if (mprotect(stack + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE)) {
            return false;
        }
    }
    return true;
}

struct kern_host_fibers *kern_host_fibers_take(const uint32_t block[3])
{
    pthread_mutex_lock(&pool_lock);
    struct kern_host_fibers *fibers = pool;
    if (fibers) {
        pool = fibers->next;
    }
    pthread_mutex_unlock(&pool_lock);
    if (!fibers) {
        fibers = create();
    }
    if (!fibers) {
        return NULL;
    }
    fibers->threads = block[0] * block[1] * block[2];
    if (!open_stacks(fibers, fibers->threads)) {
        kern_host_fibers_give(fibers);
        return NULL;
    }
    for (uint32_t i = 0; i < fibers->threads; i++) {
        fibers->fiber[i].thread =
            (struct kern_host_dim){i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
    }
    return fibers;
}

void kern_host_fibers_give(struct kern_host_fibers *fibers)
{
    pthread_mutex_lock(&pool_lock);
    fibers->next = pool;
    pool = fibers;
    pthread_mutex_unlock(&pool_lock);
}

static void go(struct kern_host_fibers *fibers, struct kern_host_context *from, struct fiber *to,
               bool ends)
{
    fibers->current = to;
    kern_lane.thread = to->thread;
    kern_host_context_switch(from, &to->context, ends);
}

static void leave(struct kern_host_fibers *fibers)
{
    kern_host_context_switch(&fibers->current->context, &fibers->caller, true);
    __builtin_unreachable();
}

static void release_waiting(struct kern_host_fibers *fibers)
{
    while (fibers->waiting.length) {
        push(&fibers->ready, pop(&fibers->waiting));
    }
}

static void fiber_main(void)
{
    struct kern_host_fibers *fibers = running;
    kern_host_context_arrived(&fibers->caller);
    fibers->thread(fibers->args);
    fibers->alive--;
    if (fibers->alive == 0) {
        leave(fibers);
    }
    // A barrier waits for the threads that have not ended only.
    if (fibers->waiting.length == fibers->alive) {
        release_waiting(fibers);
    }
    go(fibers, &fibers->current->context, pop(&fibers->ready), true);
    __builtin_unreachable();
}

bool kern_host_fibers_run(struct kern_host_fibers *fibers, void (*thread)(void *const *args),
                          void *const *args)
{
    fibers->thread = thread;
    fibers->args = args;
    fibers->alive = fibers->threads;
    fibers->trapped = false;
    fibers->ready = (struct queue){0};
    fibers->waiting = (struct queue){0};
    fibers->caller = (struct kern_host_context){0};
    for (uint32_t i = 0; i < fibers->threads; i++) {
        kern_host_context_start(&fibers->fiber[i].context, fiber_main);
        push(&fibers->ready, &fibers->fiber[i]);
    }
    running = fibers;
    go(fibers, &fibers->caller, pop(&fibers->ready), false);
    running = NULL;
    return !fibers->trapped;
}

void kern_host_fibers_barrier(struct kern_host_fibers *fibers)
{
    if (fibers->waiting.length + 1 == fibers->alive) {
        release_waiting(fibers);
        return;
    }
    struct fiber *self = fibers->current;
    push(&fibers->waiting, self);
    go(fibers, &self->context, pop(&fibers->ready), false);
}

bool kern_host_fibers_yield(struct kern_host_fibers *fibers)
{
    if (!fibers->ready.length) {
        return false;
    }
    struct fiber *self = fibers->current;
    push(&fibers->ready, self);
    go(fibers, &self->context, pop(&fibers->ready), false);
    return true;
}

void kern_host_fibers_trap(struct kern_host_fibers *fibers)
{
    fibers->trapped = true;
    leave(fibers);
    __builtin_unreachable();
}
