// SPDX-License-Identifier: Apache-2.0
//
// V-LAUNCH-EXTERN, V-EXTERN-PEER, and V-CALL for what the calls of built-ins give them.
#include "tests/manifest_rules_case.h"

#define L0 "ops.f.impl.launches[0]"
#define ARG(index) "programs.p.calls[0] arg " #index

#define PARAMS "['in buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', 'i32', 'i32', 'i32']"
#define ENTRY "'entry': 'extern:cublaslt_bf16_tn'"
#define SHAPE "{'var': 'n'}, {'i32': 8}, {'i32': 32}"

// C[n,8] = A[n,32] W[8,32]^T
#define GEMM                                                                                       \
    RULES_HEAD "'vars': {'n': {'max': 16}}, 'buffers': {"                                          \
               "'a': {'dtype': 'bf16', 'shape': ['n', 32], 'kind': 'input'}, "                     \
               "'w': {'dtype': 'bf16', 'shape': [8, 32], 'kind': 'weight', "                       \
               "'bind': [{'tensor': 't'}]}, "                                                      \
               "'c': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'inout'}}, 'modules': {}, "      \
               "'ops': {'f': {'params': " PARAMS ", 'impl': {'launches': [{" ENTRY "}]}}}, "       \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'w'}, "    \
               "{'buf': 'c'}, " SHAPE "]}]}}}"

#define ALGO                                                                                       \
    "'algo': {'id': 6, 'tile': 24, 'stages': 9, 'split_k': 1, 'reduction': 0, 'swizzle': 0, "      \
    "'custom': 0, 'inner_shape': 0, 'cluster_shape': 0}"

static const struct rules_case launches[] = {
    ACCEPTED("a product"),
    ACCEPTED("an inout result", {"'out buffer<bf16>'", "'inout buffer<bf16>'"}),
    REFUSED_SAYING("an unknown built-in", "V-LAUNCH-EXTERN", L0 ".entry",
                   "did you mean \"extern:cublaslt_bf16_tn\"?",
                   {ENTRY, "'entry': 'extern:cublaslt_bf16_nt'"}),
    REFUSED("no built-in", "V-LAUNCH-EXTERN", L0 ".entry", {ENTRY, "'entry': 'g'"}),
    REFUSED("a collective of an element that there is not", "V-LAUNCH-EXTERN", L0 ".entry",
            {ENTRY, "'entry': 'extern:nccl_allreduce_f16'"}),
    ACCEPTED("an algorithm", {ENTRY, ENTRY ", " ALGO}),
    ACCEPTED("an algorithm of acc", {ENTRY, "'entry': 'extern:cublaslt_bf16_tn_acc', " ALGO},
             {"'out buffer<bf16>'", "'inout buffer<bf16>'"}),
    REFUSED("an algorithm of another", "V-LAUNCH-EXTERN", L0 ".algo",
            {ENTRY, "'entry': 'extern:cublas_bf16_tn_f32', " ALGO},
            {"'out buffer<bf16>'", "'out buffer<f32>'"},
            {"'c': {'dtype': 'bf16'", "'c': {'dtype': 'f32'"}),
    REFUSED("acc into an out", "V-LAUNCH-EXTERN", L0,
            {ENTRY, "'entry': 'extern:cublaslt_bf16_tn_acc'"}),
    REFUSED("a param too few", "V-LAUNCH-EXTERN", L0, {"'i32', 'i32', 'i32']", "'i32', 'i32']"},
            {", {'i32': 32}", ""}),
    REFUSED("params too many", "V-LAUNCH-EXTERN", L0,
            {"'i32', 'i32', 'i32']", "'i32', 'i32', 'i32', 'i32', 'i32', 'i32']"},
            {"{'i32': 32}", "{'i32': 32}, {'i32': 8}, {'i32': 32}, {'i32': 1}"}),
    REFUSED("an operand of another dtype", "V-LAUNCH-EXTERN", L0,
            {"['in buffer<bf16>', 'in", "['in buffer<f16>', 'in"},
            {"'a': {'dtype': 'bf16'", "'a': {'dtype': 'f16'"}),
    REFUSED("a result of another dtype", "V-LAUNCH-EXTERN", L0,
            {ENTRY, "'entry': 'extern:cublas_bf16_tn_f32'"}),
    REFUSED("a result that is read", "V-LAUNCH-EXTERN", L0 ".params[2]",
            {ENTRY, ENTRY ", 'params': ['in buffer<bf16>', 'in buffer<bf16>', 'in buffer<bf16>', "
                          "'i32', 'i32', 'i32']"},
            {"'out buffer<bf16>'", "'in buffer<bf16>'"}),
    REFUSED(
        "an operand that is written", "V-LAUNCH-EXTERN", L0 ".params[0]",
        {ENTRY, ENTRY ", 'params': ['inout buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', "
                      "'i32', 'i32', 'i32']"},
        {"['in buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', 'i32', 'i32', 'i32'], 'impl'",
         "['inout buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', 'i32', 'i32', 'i32'], "
         "'impl'"},
        {"'kind': 'input'", "'kind': 'inout'"}),
    ACCEPTED("extents of i64", {"'i32', 'i32', 'i32'], 'impl'", "'i64', 'i64', 'i64'], 'impl'"},
             {"{'i32': 8}, {'i32': 32}", "{'i64': 8}, {'i64': 32}"}),
    REFUSED("an extent of u8", "V-LAUNCH-EXTERN", L0,
            {"'i32', 'i32', 'i32'], 'impl'", "'i32', 'u8', 'i32'], 'impl'"},
            {"{'i32': 8}", "{'u8': 8}"}),
    REFUSED("an image", "V-LAUNCH-EXTERN", L0 ".params[5]",
            {ENTRY,
             ENTRY ", 'params': ['in buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', 'i32', "
                   "'i32', 'bytes<4>'], "
                   "'args': [{'param': 0}, {'param': 1}, {'param': 2}, {'param': 3}, {'param': 4}, "
                   "{'pack': {'size': 4, 'fields': []}}]"}),
};

#define M(m)                                                                                       \
    {                                                                                              \
        "{'var': 'n'}", m                                                                          \
    }
#define STRIDES(strides)                                                                           \
    {"'i32', 'i32', 'i32'], 'impl'", "'i32', 'i32', 'i32', 'i32', 'i32'], 'impl'"},                \
    {                                                                                              \
        "{'i32': 32}", "{'i32': 32}, " strides                                                     \
    }

static const struct rules_case products[] = {
    REFUSED("a too small", "V-CALL", ARG(0), {"['n', 32]", "['n', 31]"}),
    REFUSED("w too small", "V-CALL", ARG(1), {"[8, 32]", "[8, 31]"}),
    REFUSED("c too small", "V-CALL", ARG(2), {"['n', 8]", "['n', 7]"}),
    REFUSED("a too small past its offset", "V-CALL", ARG(0),
            {"{'buf': 'a'}", "{'buf': 'a', 'offset': 2}"}),
    ACCEPTED("a row fewer", {"{'buf': 'a'}", "{'buf': 'a', 'offset': 64}"}, M("{'i32': 15}")),
    REFUSED("more rows than there are", "V-CALL", ARG(0), M("{'i32': 17}"),
            {"['n', 8]", "[17, 8]"}),
    REFUSED("an expression of more rows", "V-CALL", ARG(0), M("{'expr': {'add': ['n', 1]}}"),
            {"['n', 8]", "[17, 8]"}),
    ACCEPTED("rows that the launch does not run with", {"['n', 32]", "[4, 32]"},
             {ENTRY, ENTRY ", 'when': {'var': 'n', 'max': 4}"}),
    REFUSED("a negative extent", "V-CALL", ARG(3), M("{'i32': -1}")),
    ACCEPTED("nothing to do", M("{'i32': 0}"), {"['n', 8]", "['n', 1]"}),
    REFUSED_SAYING("an extent past 64 bits", "V-CALL", ARG(1), "64 bits",
                   {"'i32', 'i32', 'i32'], 'impl'", "'i64', 'i64', 'i64'], 'impl'"},
                   {"{'i32': 8}, {'i32': 32}", "{'i64': 9223372036854775807}, {'i64': 32}"},
                   {"{'buf': 'c'}, {'var': 'n'}", "{'buf': 'c'}, {'i64': 1}"},
                   {"['n', 8]", "[9223372036854775807]"}),
    ACCEPTED("strides", STRIDES("{'i32': 8}, {'i32': 32}")),
    ACCEPTED("wider rows", STRIDES("{'i32': 16}, {'i32': 64}"), {"['n', 32]", "['n', 64]"},
             {"['n', 8]", "['n', 16]"}),
    REFUSED("wider rows than there are", "V-CALL", ARG(0), STRIDES("{'i32': 8}, {'i32': 33}")),
    REFUSED("wider rows of c than there are", "V-CALL", ARG(2), STRIDES("{'i32': 9}, {'i32': 32}")),
    ACCEPTED("a last row that is not whole", STRIDES("{'i32': 8}, {'i32': 64}"),
             {"['n', 32]", "[992]"}),
    REFUSED("ldc below n", "V-CALL", ARG(6), STRIDES("{'i32': 7}, {'i32': 32}")),
    REFUSED("lda below k", "V-CALL", ARG(7), STRIDES("{'i32': 8}, {'i32': 31}")),
    REFUSED_SAYING("ldc below n at the least", "V-CALL", ARG(6), "at their least",
                   STRIDES("{'var': 'n'}, {'i32': 32}"), {"['n', 8]", "['n', 16]"}),
    REFUSED("a scratch too small", "V-CALL", "programs.p.calls[0]",
            {"{" ENTRY "}",
             "{" ENTRY
             ", 'args': [{'param': 0}, {'param': 1}, {'scratch': 't'}, {'param': 3}, {'param': 4}, "
             "{'param': 5}]}, {" ENTRY "}"},
            {"'launches'", "'scratch': {'t': {'dtype': 'bf16', 'shape': ['n', 7]}}, 'launches'"}),
};

#define FP8                                                                                        \
    RULES_HEAD "'vars': {'n': {'max': 16}}, 'buffers': {"                                          \
               "'a': {'dtype': 'fp8e4m3', 'shape': ['n', 32], 'kind': 'input'}, "                  \
               "'w': {'dtype': 'fp8e4m3', 'shape': [8, 32], 'kind': 'weight', "                    \
               "'bind': [{'tensor': 't'}]}, "                                                      \
               "'x': {'dtype': 'f32', 'shape': [1], 'kind': 'input'}, "                            \
               "'y': {'dtype': 'f32', 'shape': [2], 'kind': 'input'}, "                            \
               "'c': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'output'}}, 'modules': {}, "     \
               "'ops': {'f': {'params': ['in buffer<fp8e4m3>', 'in buffer<fp8e4m3>', "             \
               "'out buffer<bf16>', 'in buffer<f32>', 'in buffer<f32>', 'i32', 'i32', 'i32'], "    \
               "'impl': {'launches': [{'entry': 'extern:cublaslt_fp8_tn'}]}}}, "                   \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'w'}, "    \
               "{'buf': 'c'}, {'buf': 'x'}, {'buf': 'y'}, " SHAPE "]}]}}}"

static const struct rules_case fp8[] = {
    ACCEPTED("a product"),
    ACCEPTED("a product in f32", {"'extern:cublaslt_fp8_tn'", "'extern:cublaslt_fp8_tn_f32'"},
             {"'out buffer<bf16>'", "'out buffer<f32>'"},
             {"'c': {'dtype': 'bf16'", "'c': {'dtype': 'f32'"}),
    REFUSED("a scale of bf16", "V-LAUNCH-EXTERN", L0,
            {"'x': {'dtype': 'f32'", "'x': {'dtype': 'bf16'"},
            {"'out buffer<bf16>', 'in buffer<f32>'", "'out buffer<bf16>', 'in buffer<bf16>'"}),
    REFUSED("k of no 16", "V-CALL", ARG(7), {"{'i32': 32}", "{'i32': 24}"}),
    ACCEPTED("k of 0", {"{'i32': 32}", "{'i32': 0}"}),
    REFUSED("k of no 16 at the least", "V-CALL", ARG(7),
            {"{'i32': 32}", "{'expr': {'clamp': ['n', 0, 32]}}"}),
    ACCEPTED("a scale further on", {"{'buf': 'y'}", "{'buf': 'y', 'offset': 4}"}),
    REFUSED("a too small", "V-CALL", ARG(0), {"['n', 32]", "['n', 31]"}),
    REFUSED("ldc below n", "V-CALL", ARG(8),
            {"'i32', 'i32', 'i32'], ", "'i32', 'i32', 'i32', 'i32'], "},
            {"{'i32': 32}", "{'i32': 32}, {'i32': 7}"}),
    REFUSED("lda, which fp8 has not", "V-LAUNCH-EXTERN", L0,
            {"'i32', 'i32', 'i32'], ", "'i32', 'i32', 'i32', 'i32', 'i32'], "},
            {"{'i32': 32}", "{'i32': 32}, {'i32': 8}, {'i32': 32}"}),
    REFUSED("a scale that is too small", "V-CALL", "programs.p.calls[0]",
            {"[{'entry': 'extern:cublaslt_fp8_tn'}]",
             "[{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], 'grid': [1, 1, 1], 'params': "
             "['bytes<8>'], "
             "'args': [{'pack': {'size': 8, 'fields': [{'at': 0, 'scratch': 't'}]}}]}, "
             "{'entry': 'extern:cublaslt_fp8_tn', 'args': [{'scratch': 't'}, {'param': 1}, "
             "{'param': 2}, {'param': 3}, "
             "{'param': 4}, {'param': 5}, {'param': 6}, {'param': 7}]}]"},
            {"'impl': {", "'impl': {'scratch': {'t': {'dtype': 'fp8e4m3', 'shape': [8]}}, "},
            {"'modules': {}, ", RULES_MODULE}),
};

#define COLLECTIVE                                                                                 \
    RULES_HEAD "'vars': {'n': {'max': 16}}, 'topology': {'groups': {'tp': 2}}, 'buffers': {"       \
               "'a': {'dtype': 'f32', 'shape': ['n'], 'kind': 'input'}, "                          \
               "'b': {'dtype': 'f32', 'shape': ['n'], 'kind': 'output'}}, " RULES_MODULE           \
               "'ops': {'f': {'params': ['in buffer<f32>', 'out buffer<f32>', 'i32', 'i32'], "     \
               "'impl': {'launches': [{'entry': 'extern:nccl_allreduce_f32'}]}}, "                 \
               "'g': {'params': ['in buffer<f32>'], 'impl': {'launches': [{'module': 'k', "        \
               "'entry': 'h', 'block': [1, 1, 1], 'grid': [1, 1, 1]}]}}}, "                        \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'b'}, "    \
               "{'var': 'n'}, {'rank': 'tp'}]}, {'op': 'g', 'args': [{'buf': 'b'}]}]}}}"

#define WHICH(entry)                                                                               \
    {                                                                                              \
        "extern:nccl_allreduce_f32", "extern:nccl_" entry                                          \
    }
#define SEND(shape)                                                                                \
    {                                                                                              \
        "'a': {'dtype': 'f32', 'shape': ['n']", "'a': {'dtype': 'f32', 'shape': " shape            \
    }
#define RECV(shape)                                                                                \
    {                                                                                              \
        "'b': {'dtype': 'f32', 'shape': ['n']", "'b': {'dtype': 'f32', 'shape': " shape            \
    }

static const struct rules_case collectives[] = {
    ACCEPTED("allreduce"),
    REFUSED("send too small", "V-CALL", ARG(0), SEND("[15]")),
    REFUSED("recv too small", "V-CALL", ARG(1), RECV("[15]")),
    ACCEPTED("allgather", WHICH("allgather_f32"), RECV("[2, 'n']")),
    REFUSED("allgather into one block", "V-CALL", ARG(1), WHICH("allgather_f32")),
    ACCEPTED("reducescatter", WHICH("reducescatter_f32"), SEND("['n', 2]")),
    REFUSED("reducescatter of one block", "V-CALL", ARG(0), WHICH("reducescatter_f32")),
    REFUSED("a buffer of another element", "V-LAUNCH-EXTERN", L0, WHICH("allreduce_i32"),
            {"'in buffer<f32>', 'out buffer<f32>'", "'in buffer<i32>', 'out buffer<f32>'"},
            {"'a': {'dtype': 'f32'", "'a': {'dtype': 'i32'"}),
    REFUSED("no group", "V-CALL", ARG(3), {"{'rank': 'tp'}", "{'i32': 0}"},
            {"'topology': {'groups': {'tp': 2}}, ", ""}),
    REFUSED("no group in the launch", "V-LAUNCH-EXTERN", L0 " arg 3",
            {"'extern:nccl_allreduce_f32'",
             "'extern:nccl_allreduce_f32', 'args': [{'param': 0}, {'param': 1}, {'param': 2}, "
             "{'i32': 0}]"},
            {"{'rank': 'tp'}", "{'i32': 0}"}, {"'topology': {'groups': {'tp': 2}}, ", ""}),
    ACCEPTED("the group in the launch",
             {"'extern:nccl_allreduce_f32'",
              "'extern:nccl_allreduce_f32', 'args': [{'param': 0}, {'param': 1}, {'param': 2}, "
              "{'rank': 'tp'}]"},
             {"{'rank': 'tp'}]}, {'op'", "{'i32': 0}]}, {'op'"}),
    ACCEPTED("in place",
             {"'in buffer<f32>', 'out buffer<f32>', 'i32', 'i32'], 'impl'",
              "'inout buffer<f32>', 'i32', 'i32'], 'impl'"},
             {"'extern:nccl_allreduce_f32'",
              "'extern:nccl_allreduce_f32', 'params': ['in buffer<f32>', 'out buffer<f32>', 'i32', "
              "'i32'], 'args': [{'param': 0}, {'param': 0}, {'param': 1}, {'param': 2}]"},
             {"[{'buf': 'a'}, {'buf': 'b'}, ", "[{'buf': 'b'}, "},
             {"'a': {'dtype': 'f32', 'shape': ['n'], 'kind': 'input'}, ", ""},
             {"'kind': 'output'", "'kind': 'inout'"}),
    ACCEPTED("a count of 0", {"{'var': 'n'}", "{'i32': 0}"}),
    REFUSED("a negative count", "V-CALL", ARG(2), {"{'var': 'n'}", "{'i32': -4}"}),
    REFUSED("a peer buffer beside it", "V-EXTERN-PEER", "programs.p.calls[0] arg 4",
            {"'i32', 'i32'], 'impl'", "'i32', 'i32', 'in buffer<u64>'], 'impl'"},
            {"'extern:nccl_allreduce_f32'}",
             "'extern:nccl_allreduce_f32', 'params': ['in buffer<f32>', 'out buffer<f32>', 'i32', "
             "'i32'], 'args': [{'param': 0}, {'param': 1}, {'param': 2}, {'param': 3}]}"},
            {"{'rank': 'tp'}]}", "{'rank': 'tp'}, {'buf': 'y'}]}"},
            {"'kind': 'output'}",
             "'kind': 'output', 'export': true}, "
             "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'b', 'group': 'tp'}"}),
    ACCEPTED("a peer buffer of an op without built-ins",
             {"{'params': ['in buffer<f32>'], 'impl'",
              "{'params': ['in buffer<f32>', 'in buffer<u64>'], 'impl'"},
             {"'args': [{'buf': 'b'}]", "'args': [{'buf': 'b'}, {'buf': 'y'}]"},
             {"'kind': 'output'}",
              "'kind': 'output', 'export': true}, "
              "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'b', 'group': 'tp'}"}),
    REFUSED("a peer buffer in it", "V-EXTERN-PEER", ARG(0),
            {"[{'buf': 'a'}, {'buf': 'b'}", "[{'buf': 'y'}, {'buf': 'b'}"},
            {"'args': [{'buf': 'b'}]", "'args': [{'buf': 'a'}]"},
            {"'kind': 'output'}",
             "'kind': 'output', 'export': true}, "
             "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'b', 'group': 'tp'}"}),
};

int rules_of_builtins(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(GEMM, launches),
        RULES_TEST(GEMM, products),
        RULES_TEST(FP8, fp8),
        RULES_TEST(COLLECTIVE, collectives),
    };
    return cmocka_run_group_tests_name("builtins", tests, NULL, NULL);
}
