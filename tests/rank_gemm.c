// SPDX-License-Identifier: Apache-2.0
#include "tests/rank_gemm.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t product_lda(const struct product *product)
{
    return product->lda != 0 ? product->lda : product->k;
}

uint64_t product_ldc(const struct product *product)
{
    return product->ldc != 0 ? product->ldc : product->n;
}

static uint64_t or_else(uint64_t given, uint64_t otherwise)
{
    return given != 0 ? given : otherwise;
}

static void print_buffers(FILE *to, const struct product *p, const char *operand,
                          const char *result)
{
    uint64_t a = p->a_at + (p->m_max - 1) * product_lda(p) + p->k;
    uint64_t w = p->w_at + p->n * p->k;
    uint64_t c = p->c_at + (p->m_max - 1) * product_ldc(p) + p->n;
    fprintf(to,
            "'buffers': {'a': {'dtype': '%s', 'shape': [%llu], 'kind': 'input'},"
            " 'w': {'dtype': '%s', 'shape': [%llu], 'kind': 'input'},"
            " 'c': {'dtype': '%s', 'shape': [%llu], 'kind': 'inout'}",
            operand, (unsigned long long)or_else(p->a_elements, a), operand,
            (unsigned long long)or_else(p->w_elements, w), result,
            (unsigned long long)or_else(p->c_elements, c));
    if (p->operand == KERN_FP8E4M3) {
        fprintf(to, ", 'a_scale': {'dtype': 'f32', 'shape': [1], 'kind': 'input'},"
                    " 'w_scale': {'dtype': 'f32', 'shape': [1], 'kind': 'input'}");
    }
    fprintf(to, "},");
}

static void print_op(FILE *to, const struct product *p, const char *operand, const char *result)
{
    fprintf(to, "'ops': {'f': {'params': ['in buffer<%s>', 'in buffer<%s>', '%s buffer<%s>'%s,",
            operand, operand, p->accumulates ? "inout" : "out", result,
            p->operand == KERN_FP8E4M3 ? ", 'in buffer<f32>', 'in buffer<f32>'" : "");
    fprintf(to, " 'i32', 'i32', 'i64'%s%s],",
            p->ldc != 0 || p->ldc_text != NULL || p->lda != 0 ? ", 'i32'" : "",
            p->lda != 0 ? ", 'i32'" : "");
    fprintf(to, " 'impl': {'launches': [{'entry': 'extern:%s'%s}]}}},", p->entry,
            p->more != NULL ? p->more : "");
}

static void print_call(FILE *to, const struct product *p)
{
    size_t width = kern_dtype_bytes(p->operand);
    fprintf(to,
            "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a', 'offset': %zu},"
            " {'buf': 'w', 'offset': %zu}, {'buf': 'c', 'offset': %zu},",
            p->a_at * width, p->w_at * width, p->c_at * kern_dtype_bytes(p->result));
    if (p->operand == KERN_FP8E4M3) {
        fprintf(to, " {'buf': 'a_scale'}, {'buf': 'w_scale'},");
    }
    fprintf(to, " %s,", p->m != NULL ? p->m : "{'var': 'm'}");
    if (p->n_text != NULL) {
        fprintf(to, " %s,", p->n_text);
    } else {
        fprintf(to, " {'i32': %llu},", (unsigned long long)p->n);
    }
    fprintf(to, " {'i64': %llu}", (unsigned long long)p->k);
    if (p->ldc_text != NULL) {
        fprintf(to, ", %s", p->ldc_text);
    } else if (p->ldc != 0 || p->lda != 0) {
        fprintf(to, ", {'i32': %llu}", (unsigned long long)product_ldc(p));
    }
    if (p->lda != 0) {
        fprintf(to, ", {'i32': %llu}", (unsigned long long)p->lda);
    }
    fprintf(to, "]}]}}");
}

char *product_manifest(const struct product *product)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    const char *operand = kern_dtype_name(product->operand);
    const char *result = kern_dtype_name(product->result);
    fprintf(to,
            "{'schema_version': 7, 'model': 'test', 'modules': {}, 'vars': {'m': {'max': %llu}},",
            (unsigned long long)product->m_max);
    print_buffers(to, product, operand, result);
    print_op(to, product, operand, result);
    print_call(to, product);
    fprintf(to, "}");
    fclose(to);
    return text;
}
