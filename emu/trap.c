// SPDX-License-Identifier: Apache-2.0
//
// Faults of the code that a worker runs: a kernel that follows a wrong address ends with an error
// of its context, as on a GPU, and not with the process.
#include "emu/work.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES ((size_t)64 << 10)
#define NEAR_BYTES ((uintptr_t)16 << 20) // how far from an allocation an address is said to be near

struct trap {
    sigjmp_buf back;
    struct emu_fault *fault;
};

// The trap of the calling thread while it runs a body. Its storage must exist before the signal
// comes, because a handler may not allocate it: hence initial-exec.
static _Thread_local struct trap *volatile armed __attribute__((tls_model("initial-exec")));
static _Thread_local void *alternate_stack;
static _Thread_local stack_t stack_before;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
#define N_SIGNALS (sizeof signals / sizeof *signals)

static struct sigaction previous[N_SIGNALS];
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void forward(int number, siginfo_t *info, void *context)
{
    size_t i = 0;
    while (i < N_SIGNALS - 1 && signals[i] != number) {
        i++;
    }
    const struct sigaction *handler = &previous[i];
    if ((handler->sa_flags & SA_SIGINFO) != 0) {
        handler->sa_sigaction(number, info, context);
    } else if (handler->sa_handler != SIG_DFL && handler->sa_handler != SIG_IGN) {
        handler->sa_handler(number);
    } else if (info->si_code > 0 || handler->sa_handler == SIG_DFL) {
        // An instruction that faulted is run again, and its fault ends the process, as it would
        // without emu; a signal that somebody sent is sent again.
        signal(number, SIG_DFL);
        if (info->si_code <= 0) {
            raise(number);
        }
    }
}

static void handle(int number, siginfo_t *info, void *context)
{
    struct trap *trap = armed;
    if (trap == NULL || info->si_code <= 0) { // not ours, or sent by somebody with kill
        forward(number, info, context);
        return;
    }
    trap->fault->signal = number;
    trap->fault->address = (uintptr_t)info->si_addr;
    siglongjmp(trap->back, 1);
}

// SA_NODEFER, because the handler does not return: the signal must not stay blocked, and saving the
// mask at every kernel would cost a system call.
static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], &action, &previous[i]);
    }
}

void emu_trap_install(void)
{
    pthread_once(&installed, install);
}

// Without one, a fault is handled on the stack that it happened on, which fails only if that stack
// is what overflowed.
void emu_trap_thread_begin(void)
{
    alternate_stack = malloc(STACK_BYTES);
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = STACK_BYTES};
    if (alternate_stack != NULL && sigaltstack(&stack, &stack_before) != 0) {
        free(alternate_stack);
        alternate_stack = NULL;
    }
}

// A sanitizer may have given the thread an alternate stack of its own, and expects it back.
void emu_trap_thread_end(void)
{
    if (alternate_stack != NULL) {
        sigaltstack(&stack_before, NULL);
        free(alternate_stack);
        alternate_stack = NULL;
    }
}

bool emu_trap_run(void (*body)(void *argument), void *argument, struct emu_fault *fault)
{
    struct trap trap = {.fault = fault};
    if (sigsetjmp(trap.back, 0) != 0) {
        armed = NULL;
        return false;
    }
    armed = &trap;
    body(argument);
    armed = NULL;
    return true;
}

// Says in [text] where [address] is in or behind device memory.
static void describe(uintptr_t address, char *text, size_t bytes)
{
    CUdeviceptr begin;
    size_t size;
    snprintf(text, bytes, ", where no memory of the device is near");
    if (emu_memory_bounds(address, &begin, &size)) {
        snprintf(text, bytes, ", byte %" PRIu64 " of the %zu at 0x%" PRIx64,
                 (uint64_t)(address - begin), size, (uint64_t)begin);
        return;
    }
    for (uintptr_t back = 1; back <= NEAR_BYTES && back <= address; back *= 2) {
        if (emu_memory_bounds(address - back, &begin, &size)) {
            snprintf(text, bytes, ", %" PRIu64 " bytes behind the end of the %zu at 0x%" PRIx64,
                     (uint64_t)(address - begin) - size, size, (uint64_t)begin);
            return;
        }
    }
}

void emu_trap_report(const char *what, const char *name, const struct emu_fault *fault)
{
    char near[128];
    describe(fault->address, near, sizeof near);
    emu_log("%s%s%s: %s at 0x%" PRIxPTR "%s", what, *name != '\0' ? " " : "", name,
            sigdescr_np(fault->signal), fault->address, near);
}
