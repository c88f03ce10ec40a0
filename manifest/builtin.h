// SPDX-License-Identifier: Apache-2.0
//
// The built-in launches (`extern:` entries): their names and what each argument is. Matrices are
// row-major, C[m,n] = A[m,k] W[n,k]^T.
#ifndef KERN_MANIFEST_BUILTIN_H
#define KERN_MANIFEST_BUILTIN_H

#include "manifest/manifest.h"

// What an argument of a built-in means. The integer roles are those from M on.
enum kern_role {
    KERN_ROLE_A,
    KERN_ROLE_W,
    KERN_ROLE_C,
    KERN_ROLE_A_SCALE,
    KERN_ROLE_W_SCALE,
    KERN_ROLE_SEND,
    KERN_ROLE_RECV,
    KERN_ROLE_M,
    KERN_ROLE_N,
    KERN_ROLE_K,
    KERN_ROLE_LDC,
    KERN_ROLE_LDA,
    KERN_ROLE_COUNT,
    KERN_ROLE_RANK,
    KERN_ROLES,
};

// The role of each argument in order; those from [required] on may be left out from the end.
struct kern_signature {
    size_t required;
    size_t count;
    enum kern_role roles[9];
};

struct kern_builtin_info {
    const char *name; // with "extern:"
    enum kern_builtin builtin;
    const struct kern_signature *signature;
    enum kern_dtype operand; // of a and w; of send and recv
    enum kern_dtype result;  // of c
    bool accumulates;        // c is read, too
    bool takes_algo;
};

#define KERN_EXTERN_PREFIX "extern:"

// The built-in that an [entry] such as "extern:cublaslt_bf16_tn" names, or NULL.
const struct kern_builtin_info *kern_builtin_find(const char *entry);

// The entry of a built-in that [entry] is probably a misspelling of, or NULL.
const char *kern_builtin_suggest(const char *entry);

const char *kern_role_name(enum kern_role role);

// The elements of the memory that a pointer role takes.
enum kern_dtype kern_role_dtype(const struct kern_builtin_info *info, enum kern_role role);

// A multiple that k of the built-in must be, 1 if it may be anything.
uint64_t kern_builtin_k_multiple(enum kern_builtin builtin);

bool kern_builtin_is_collective(enum kern_builtin builtin);

#endif
