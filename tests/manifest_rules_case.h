// SPDX-License-Identifier: Apache-2.0
//
// One manifest and what its verification says of it. Manifests are written with single quotes for
// double ones, as a base text and edits of it.
#ifndef KERN_TESTS_MANIFEST_RULES_CASE_H
#define KERN_TESTS_MANIFEST_RULES_CASE_H

#include <stdbool.h>

#include "tests/text.h"

#define RULES_EDITS 6

struct rules_case {
    const char *name;
    const char *rule;  // NULL: the manifest is accepted without a word
    const char *place; // of the one error or warning
    struct text_edit edits[RULES_EDITS];
    const char *says; // a part of the message; NULL: not looked at
    bool warns;       // it is a warning, and the manifest is accepted
};

#define ACCEPTED(text, ...)                                                                        \
    {                                                                                              \
        .name = text, .edits = { __VA_ARGS__ }                                                     \
    }
#define REFUSED(text, id, where, ...)                                                              \
    {                                                                                              \
        .name = text, .rule = id, .place = where, .edits = { __VA_ARGS__ }                         \
    }
#define REFUSED_SAYING(text, id, where, part, ...)                                                 \
    {                                                                                              \
        .name = text, .rule = id, .place = where, .says = part, .edits = { __VA_ARGS__ }           \
    }
#define WARNED(text, id, where, ...)                                                               \
    {                                                                                              \
        .name = text, .rule = id, .place = where, .warns = true, .edits = { __VA_ARGS__ }          \
    }

struct rules_table {
    const char *base;
    const struct rules_case *cases;
    size_t count;
};

// A cmocka test: runs the cases of the struct rules_table that is its state and fails if any does
// not come out as it says, after having told which.
void rules_test(void **state);

// The cmocka test of a table of [cases] on a [base] text.
#define RULES_TEST(base, cases)                                                                    \
    {                                                                                              \
#cases, rules_test, NULL, NULL, &(struct rules_table)                                      \
        {                                                                                          \
            base, cases, sizeof(cases) / sizeof *(cases)                                           \
        }                                                                                          \
    }

// What every manifest begins with, and a module for its kernels.
#define RULES_HEAD "{'schema_version': 7, 'model': 'm', "
#define RULES_MODULE                                                                               \
    "'modules': {'k': {'source': 'k.cubin', 'sha256': "                                            \
    "'00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF'}}, "

// A manifest with one kernel that reads an input and a weight and writes an output.
#define RULES_BASE                                                                                 \
    RULES_HEAD "'vars': {'n': {'max': 16}}, "                                                      \
               "'buffers': {"                                                                      \
               "'a': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input'}, "                          \
               "'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', "                       \
               "'bind': [{'tensor': 't'}]}, "                                                      \
               "'b': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'output'}}, " RULES_MODULE       \
               "'ops': {'f': {'params': ['in buffer<i32>', 'in buffer<bf16>', "                    \
               "'out buffer<bf16>', 'i32'], 'impl': {'launches': [{'module': 'k', 'entry': 'g', "  \
               "'block': [32, 1, 1], 'grid': ['n', 1, 1]}]}}}, "                                   \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'w'}, "    \
               "{'buf': 'b'}, {'var': 'n'}]}]}}}"

// The groups of cases, each with tests of its own; they return the number that failed.
int rules_of_declarations(void);
int rules_of_buffers(void);
int rules_of_launches(void);
int rules_of_wiring(void);
int rules_of_packs(void);
int rules_of_builtins(void);
int rules_of_programs(void);

#endif
