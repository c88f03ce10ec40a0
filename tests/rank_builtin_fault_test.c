// SPDX-License-Identifier: Apache-2.0
//
// Whatever function of cuBLASLt, cuBLAS or NCCL fails, at whichever of its calls: the error is of
// the right kind and names the launch or the function, and nothing is left behind.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/rank_fault.h"
#include "tests/rank_gemm.h"

static const struct product products[] = {
    {.entry = "cublaslt_bf16_tn",
     .operand = KERN_BF16,
     .result = KERN_BF16,
     .m_max = 2,
     .n = 8,
     .k = 16,
     .more = ", 'algo': {'id': 6, 'tile': 15, 'stages': 9, 'split_k': 1, 'reduction': 0,"
             " 'swizzle': 0, 'custom': 0, 'inner_shape': 0, 'cluster_shape': 0}"},
    {.entry = "cublaslt_fp8_tn",
     .operand = KERN_FP8E4M3,
     .result = KERN_BF16,
     .m_max = 2,
     .n = 8,
     .k = 16},
    {.entry = "cublas_bf16_tn_f32",
     .operand = KERN_BF16,
     .result = KERN_F32,
     .m_max = 2,
     .n = 8,
     .k = 16},
};

// Makes a rank, runs the product once and takes the rank down; false if the diag says why not.
static bool live(struct rank_fixture *fixture, const struct product *product)
{
    char *text = product_manifest(product);
    bool ok = fixture_try(fixture, text) &&
              kern_rank_issue(fixture->rank, 0, fixture->vars, &fixture->diag) &&
              kern_rank_wait(fixture->rank, kern_deadline_in(20), NULL, &fixture->diag);
    free(text);
    return ok;
}

// What the manifest pins is refused as an artifact, everything else is a failure of the library.
static bool is_handled(struct kern_diag *diag, const char *fault)
{
    bool pinned = strncmp(fault, "cublasLtMatmulAlgoI", 19) == 0 ||
                  strncmp(fault, "cublasLtMatmulAlgoC", 19) == 0;
    const char *line = diag->count > 0 ? kern_diag_line(diag, 0) : "";
    return kern_diag_code(diag) == (pinned ? KERN_EXIT_ARTIFACT : KERN_EXIT_DEVICE) &&
           strstr(line, "CUBLAS_STATUS_") != NULL &&
           (strstr(line, "programs.p.calls[0]") != NULL ||
            strstr(line, "making the handle") != NULL);
}

static enum outcome live_with_fault(const char *fault)
{
    setenv("KERN_EMU_FAIL", fault, 1);
    enum outcome outcome = SOUND;
    for (size_t i = 0; outcome == SOUND && i < sizeof(products) / sizeof(*products); i++) {
        struct rank_fixture fixture = {0};
        if (!live(&fixture, &products[i])) {
            outcome = is_handled(&fixture.diag, fault) ? FAULT_HANDLED : FAULT_MISHANDLED;
        }
        if (outcome == FAULT_MISHANDLED) {
            fprintf(stderr, "with %s:\n", fault);
            kern_diag_print(&fixture.diag, stderr, 5);
        }
        fixture_close(&fixture);
    }
    return outcome;
}

static void every_call_of_every_function_may_fail(void **state)
{
    (void)state;
    // How often the lives of the three ranks call each, so that a fault which is never met does not
    // look like one that is handled. The second rank has two shapes, so has the first.
    static const struct {
        const char *function;
        unsigned calls;
    } functions[] = {
        {"cublasLtCreate", 2},
        {"cublasLtMatmulDescCreate", 2},
        {"cublasLtMatmulDescSetAttribute", 6},
        {"cublasLtMatmulPreferenceCreate", 1},
        {"cublasLtMatmulPreferenceSetAttribute", 6},
        {"cublasLtMatrixLayoutCreate", 12},
        {"cublasLtMatmulAlgoGetHeuristic", 2},
        {"cublasLtMatmulAlgoInit", 1},
        {"cublasLtMatmulAlgoConfigSetAttribute", 8},
        {"cublasLtMatmulAlgoCheck", 2},
        {"cublasLtMatmul", 2},
        {"cublasCreate", 1},
        {"cublasSetStream", 1},
        {"cublasSetWorkspace", 1},
        {"cublasSetMathMode", 1},
        {"cublasGemmEx", 1},
    };
    for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++) {
        for (unsigned nth = 1; nth <= functions[f].calls; nth++) {
            if (spawn_with_fault(functions[f].function, nth, NULL) != FAULT_HANDLED) {
                fail_msg("call %u of %s: its failure was not handled", nth, functions[f].function);
            }
        }
        assert_int_equal(spawn_with_fault(functions[f].function, functions[f].calls + 1, NULL),
                         SOUND);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        return (int)live_with_fault(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_every_function_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
