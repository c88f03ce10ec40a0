// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the matrix products share: a manifest with one product in it.
#ifndef KERN_TESTS_RANK_GEMM_H
#define KERN_TESTS_RANK_GEMM_H

#include <stdint.h>

#include "tests/rank_fixture.h"

// C[m,n] = A[m,k] W[n,k]^T of built-in [entry] in program p, with var m. Matrix X lies at element
// x_at of buffer x, which has x_elements elements.
struct product {
    const char *entry; // "cublaslt_bf16_tn"
    enum kern_dtype operand, result;
    uint64_t m_max, n, k;
    uint64_t lda, ldc; // 0: the argument is left out
    uint64_t a_at, w_at, c_at;
    uint64_t a_elements, w_elements, c_elements; // 0: as many as it needs
    bool accumulates;
    const char *m;        // the argument, NULL: {'var': 'm'}
    const char *n_text;   // the argument, NULL: n
    const char *ldc_text; // the argument, NULL: ldc
    const char *more;     // of the launch: ", 'when': …, 'algo': …"
};

uint64_t product_lda(const struct product *product);
uint64_t product_ldc(const struct product *product);

// The manifest of a product, in the text of fixture_open; the caller frees it.
char *product_manifest(const struct product *product);

#endif
