// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_switch.h"

#include <stdint.h>
#include <string.h>

#ifdef KERN_HOST_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KERN_HOST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#ifdef KERN_HOST_UCONTEXT

static void prepare(struct kern_host_context *context, void (*entry)(void))
{
    getcontext(&context->saved);
    context->saved.uc_stack.ss_sp = context->stack;
    context->saved.uc_stack.ss_size = context->size;
    context->saved.uc_link = NULL;
    makecontext(&context->saved, entry, 0);
}

static void change(struct kern_host_context *from, struct kern_host_context *to)
{
    swapcontext(&from->saved, &to->saved);
}

#else

// In host_switch.S: pushes what a callee keeps, stores the stack pointer in *save, takes `load`,
// pops.
void kern_host_switch(void **save, void *load) __attribute__((visibility("hidden")));

// The words that kern_host_switch pops, and the place of the address that it returns to.
#if defined(__x86_64__)
enum { FRAME_WORDS = 8, RETURN_WORD = 6 };
#else
enum { FRAME_WORDS = 20, RETURN_WORD = 11 };
#endif

static void prepare(struct kern_host_context *context, void (*entry)(void))
{
    uintptr_t *frame = (uintptr_t *)((char *)context->stack + context->size) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof(*frame));
    frame[RETURN_WORD] = (uintptr_t)entry;
    context->saved = frame;
}

static void change(struct kern_host_context *from, struct kern_host_context *to)
{
    kern_host_switch(&from->saved, to->saved);
}

#endif

void kern_host_context_end(struct kern_host_context *context)
{
#ifdef KERN_HOST_TSAN
    if (context->tsan) {
        __tsan_destroy_fiber(context->tsan);
        context->tsan = NULL;
    }
#else
    (void)context;
#endif
}

void kern_host_context_start(struct kern_host_context *context, void (*entry)(void))
{
#ifdef KERN_HOST_ASAN
    // A fiber that stopped at a trap left the red zones of its frames behind.
    __asan_unpoison_memory_region(context->stack, context->size);
    context->fake_stack = NULL;
#endif
#ifdef KERN_HOST_TSAN
    // A new one each time: the old one still counts the calls that the last run never returned
    // from.
    kern_host_context_end(context);
    context->tsan = __tsan_create_fiber(0);
#endif
    prepare(context, entry);
}

void kern_host_context_switch(struct kern_host_context *from, struct kern_host_context *to,
                              bool ends)
{
#ifdef KERN_HOST_ASAN
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, to->stack, to->size);
#endif
#ifdef KERN_HOST_TSAN
    if (!from->stack) {
        from->tsan = __tsan_get_current_fiber();
    }
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    (void)ends;
    change(from, to);
#ifdef KERN_HOST_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void kern_host_context_arrived(struct kern_host_context *from)
{
#ifdef KERN_HOST_ASAN
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(NULL, &stack, &size);
    if (!from->stack) {
        from->stack = (void *)stack;
        from->size = size;
    }
#else
    (void)from;
#endif
}
