// SPDX-License-Identifier: Apache-2.0
//
// One CPU thread, several stacks: how to go from one to another. Fourteen instructions on x86-64
// and AArch64 (host_switch.S); ucontext, which makes a system call each way, elsewhere. The
// sanitizers are told of every change of stack.
#ifndef KERN_KERNELS_HOST_SWITCH_H
#define KERN_KERNELS_HOST_SWITCH_H

#include <stdbool.h>
#include <stddef.h>

#if !defined(KERN_HOST_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define KERN_HOST_UCONTEXT 1
#endif

#ifdef KERN_HOST_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define KERN_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KERN_HOST_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define KERN_HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KERN_HOST_TSAN 1
#endif
#endif

#pragma GCC visibility push(hidden)

// A stack and where it stopped. One without a `stack` of its own stands for the thread that runs
// it.
struct kern_host_context {
#ifdef KERN_HOST_UCONTEXT
    ucontext_t saved;
#else
    void *saved;
#endif
    void *stack; // lowest address, 16-byte aligned, as is the size
    size_t size;
#ifdef KERN_HOST_ASAN
    void *fake_stack;
#endif
#ifdef KERN_HOST_TSAN
    void *tsan;
#endif
};

// Makes the context start at `entry`, which never returns, when next switched to. Whatever ran on
// its stack before is forgotten.
void kern_host_context_start(struct kern_host_context *context, void (*entry)(void));

// Stops at `from` and goes on at `to`. `ends` says that nobody will switch back to `from`.
void kern_host_context_switch(struct kern_host_context *from, struct kern_host_context *to,
                              bool ends);

// To be called first by `entry`: `from` is who switched here.
void kern_host_context_arrived(struct kern_host_context *from);

// Frees what the sanitizers keep for the context.
void kern_host_context_end(struct kern_host_context *context);

#pragma GCC visibility pop
#endif
