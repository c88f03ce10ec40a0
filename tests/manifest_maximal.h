// SPDX-License-Identifier: Apache-2.0
//
// The manifest that uses every key of the schema, parsed, and what its fields are compared with.
#ifndef KERN_TESTS_MANIFEST_MAXIMAL_H
#define KERN_TESTS_MANIFEST_MAXIMAL_H

#include "tests/manifest_parse.h"

static struct kern_manifest *manifest;

static inline int parse_maximal(void **state)
{
    (void)state;
    char *text = maximal_text();
    manifest = parse_accepted(text, strlen(text));
    uint8_t digest[KERN_SHA256_BYTES];
    kern_sha256(text, strlen(text), digest);
    assert_memory_equal(manifest->digest, digest, sizeof digest);
    free(text);
    return 0;
}

static inline int destroy(void **state)
{
    (void)state;
    kern_manifest_destroy(manifest);
    return 0;
}

static inline void assert_ref(struct kern_ref ref, const char *name)
{
    if (name)
        assert_string_equal(ref.name, name);
    else
        assert_null(ref.name);
    assert_int_equal(ref.index, KERN_NONE);
}

static inline void assert_dim(struct kern_dim dim, const char *var, uint64_t extent)
{
    assert_ref(dim.var, var);
    assert_int_equal(dim.extent, extent);
}

static inline void assert_const(const struct kern_expr *expr, uint64_t value)
{
    assert_int_equal(expr->kind, KERN_EXPR_CONST);
    assert_int_equal(expr->value, value);
}

static inline void assert_var(const struct kern_expr *expr, const char *name)
{
    assert_int_equal(expr->kind, KERN_EXPR_VAR);
    assert_ref(expr->var, name);
}

#define FIND(kind, name) (&manifest->kind##s[find(&manifest->kind##_names, name)])

static inline uint32_t find(const struct kern_names *names, const char *name)
{
    uint32_t index = kern_names_find(names, name);
    assert_int_not_equal(index, KERN_NONE);
    return index;
}

#endif
