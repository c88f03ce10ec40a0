// SPDX-License-Identifier: Apache-2.0
//
// V-PROGRAM V-CALL V-FLOW V-DERIVE V-ONCE
#include "tests/manifest_rules_case.h"

#define ARG(index) "programs.p.calls[0] arg " #index
#define PROGRAM(more)                                                                              \
    {                                                                                              \
        "'calls'", more ", 'calls'"                                                                \
    }
#define AXES(axis)                                                                                 \
    {"'n': {'max': 16}", "'n': {'max': 16, 'axis': 'rows'}, 'm': {'max': 4" axis "}"},             \
    {                                                                                              \
        "['n'], 'kind': 'input'", "['n', 'm'], 'kind': 'input'"                                    \
    }

static const struct rules_case programs[] = {
    REFUSED("no programs", "V-PROGRAM", "programs",
            {"{'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'w'}, {'buf': 'b'}, "
             "{'var': 'n'}]}]}}",
             "{}"}),
    ACCEPTED("a program without calls", {"'programs': {", "'programs': {'q': {'calls': []}, "}),
    ACCEPTED("a batch", AXES(", 'axis': 'groups'"),
             PROGRAM("'batch': {'groups': 4, 'rows': 1}, 'graph': true")),
    REFUSED("once and batch", "V-PROGRAM", "programs.q", AXES(", 'axis': 'groups'"),
            {"'programs': {",
             "'programs': {'q': {'once': true, 'batch': {'groups': 1, 'rows': 1}, 'calls': []}, "}),
    REFUSED(
        "derive and batch", "V-PROGRAM", "programs.q", AXES(", 'axis': 'groups'"),
        {"'programs': {",
         "'programs': {'q': {'derive': true, 'batch': {'groups': 1, 'rows': 1}, 'calls': []}, "}),
    REFUSED("once and derive", "V-PROGRAM", "programs.q",
            {"'programs': {", "'programs': {'q': {'derive': true, 'once': true, 'calls': []}, "}),
    REFUSED("a graph without a batch", "V-PROGRAM", "programs.p.graph", PROGRAM("'graph': true")),
    REFUSED("a batch of no sequences", "V-PROGRAM", "programs.p.batch.groups",
            AXES(", 'axis': 'groups'"), PROGRAM("'batch': {'groups': 0, 'rows': 1}")),
    REFUSED("a batch of no rows", "V-PROGRAM", "programs.p.batch.rows", AXES(", 'axis': 'groups'"),
            PROGRAM("'batch': {'groups': 1, 'rows': 0}")),
    ACCEPTED("a batch of var rows", AXES(", 'axis': 'groups'"),
             PROGRAM("'batch': {'groups': 1, 'rows': 'n', 'context': 'm'}")),
    REFUSED("rows of nothing", "V-PROGRAM", "programs.p.batch.rows", AXES(", 'axis': 'groups'"),
            PROGRAM("'batch': {'groups': 1, 'rows': 'q'}")),
    REFUSED("a context of nothing", "V-PROGRAM", "programs.p.batch.context",
            AXES(", 'axis': 'groups'"),
            PROGRAM("'batch': {'groups': 1, 'rows': 1, 'context': 'q'}")),
    REFUSED("several sequences of var rows", "V-PROGRAM", "programs.p.batch.groups",
            AXES(", 'axis': 'groups'"), PROGRAM("'batch': {'groups': 2, 'rows': 'n'}")),
    ACCEPTED("several sequences of var rows that are told apart", AXES(", 'axis': 'groups'"),
             PROGRAM("'batch': {'groups': 2, 'rows': 'n'}"),
             {"'kind': 'input'", "'kind': 'input', 'fill': 'cu_seqlens'"}),
    REFUSED_SAYING("a batch without a groups axis", "V-PROGRAM", "programs.p.batch",
                   "\"groups\" is", AXES(""), PROGRAM("'batch': {'groups': 1, 'rows': 1}")),
    REFUSED_SAYING("a batch without a rows axis", "V-PROGRAM", "programs.p.batch", "\"rows\" is",
                   {"'max': 16", "'max': 16, 'axis': 'groups'"},
                   PROGRAM("'batch': {'groups': 1, 'rows': 1}")),
    REFUSED_SAYING(
        "two batches without axes", "V-PROGRAM", "programs.q.batch", "both are",
        PROGRAM("'batch': {'groups': 1, 'rows': 2}"),
        {"'programs': {", "'programs': {'q': {'batch': {'groups': 1, 'rows': 1}, 'calls': []}, "}),
    ACCEPTED("a var of a batch only", AXES(", 'axis': 'groups'"),
             {"'n': {'max': 16", "'c': {'max': 4}, 'n': {'max': 16"},
             PROGRAM("'batch': {'groups': 1, 'rows': 1, 'context': 'c'}")),
};

#define NUMBER(param, value)                                                                       \
    {"'out buffer<bf16>', 'i32'", "'out buffer<bf16>', '" param "'"},                              \
    {                                                                                              \
        "{'var': 'n'}", value                                                                      \
    }

#define FIXED                                                                                      \
    {"['n', 1, 1]", "[1, 1, 1]"}, {"'shape': ['n']", "'shape': [16]"},                             \
    {                                                                                              \
        "['n', 8]", "[16, 8]"                                                                      \
    }

static const struct rules_case calls[] = {
    REFUSED_SAYING("an unknown op", "V-CALL", "programs.p.calls[0]", "did you mean \"feed\"?",
                   {"'op': 'f'", "'op': 'fed'"}, {"'ops': {'f'", "'ops': {'feed'"}),
    REFUSED("a label in the place", "V-CALL", "programs.p.calls[0] (l0.f) arg 1",
            {"'op': 'f'", "'label': 'l0.f', 'op': 'f'"}, {"{'buf': 'w'}", "{'buf': 'v'}"}),
    REFUSED("an argument too few", "V-CALL", "programs.p.calls[0]", {", {'var': 'n'}]", "]"}),
    REFUSED("an argument too many", "V-CALL", "programs.p.calls[0]",
            {"{'var': 'n'}]", "{'var': 'n'}, {'i32': 1}]"}),
    REFUSED("a buffer of another dtype", "V-CALL", ARG(1),
            {"'w': {'dtype': 'bf16'", "'w': {'dtype': 'f16'"}),
    REFUSED("a buffer for a scalar", "V-CALL", ARG(3), {"{'var': 'n'}", "{'buf': 'a'}"}),
    REFUSED(
        "a scalar for a buffer", "V-CALL", ARG(1), {"{'buf': 'w'}", "{'i32': 1}"},
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}, ",
         ""}),
    REFUSED(
        "a state for a buffer", "V-CALL", ARG(1), {"{'buf': 'w'}", "{'state': 's'}"},
        {"'buffers'", "'states': {'s': {'bytes': 4}}, 'buffers'"},
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}, ",
         ""}),
    REFUSED("a buffer for a state", "V-CALL", ARG(1), {"'in buffer<bf16>'", "'in state'"}),
    REFUSED(
        "an unknown state", "V-CALL", ARG(1), {"{'buf': 'w'}", "{'state': 's'}"},
        {"'in buffer<bf16>'", "'in state'"},
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}, ",
         ""}),
    ACCEPTED("an offset", {"{'buf': 'w'}", "{'buf': 'w', 'offset': 510}"}),
    REFUSED("an odd offset", "V-CALL", ARG(1), {"{'buf': 'w'}", "{'buf': 'w', 'offset': 1}"}),
    REFUSED("an offset at the end", "V-CALL", ARG(1),
            {"{'buf': 'w'}", "{'buf': 'w', 'offset': 512}"}),
    ACCEPTED("an offset inside at the var maxima", {"{'buf': 'a'}", "{'buf': 'a', 'offset': 60}"}),
    REFUSED("an offset outside at the var maxima", "V-CALL", ARG(0),
            {"{'buf': 'a'}", "{'buf': 'a', 'offset': 64}"}),
    ACCEPTED(
        "an offset inside a state", {"{'buf': 'w'}", "{'state': 's', 'offset': 3}"},
        {"'in buffer<bf16>'", "'in state'"},
        {"'buffers'", "'states': {'s': {'bytes': 4}}, 'buffers'"},
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}, ",
         ""}),
    REFUSED(
        "an offset past a state", "V-CALL", ARG(1), {"{'buf': 'w'}", "{'state': 's', 'offset': 4}"},
        {"'in buffer<bf16>'", "'in state'"},
        {"'buffers'", "'states': {'s': {'bytes': 4}}, 'buffers'"},
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}, ",
         ""}),
    REFUSED("a var too large for i32", "V-CALL", ARG(3), {"'max': 16", "'max': 2147483648"},
            {"['n', 1, 1]", "[1, 1, 1]"}),
    ACCEPTED("a var as large as i32", {"'max': 16", "'max': 2147483647"}),
    ACCEPTED("a var for i64", {"'max': 16", "'max': 9223372036854775807"}, FIXED,
             NUMBER("i64", "{'var': 'n'}")),
    REFUSED("a var too large for i64", "V-CALL", ARG(3),
            {"'max': 16", "'max': 9223372036854775808"}, FIXED, NUMBER("i64", "{'var': 'n'}")),
    ACCEPTED("a var for u8", {"'max': 16", "'max': 255"}, NUMBER("u8", "{'var': 'n'}")),
    REFUSED("a var too large for u8", "V-CALL", ARG(3), {"'max': 16", "'max': 256"},
            NUMBER("u8", "{'var': 'n'}")),
    REFUSED("a var for f32", "V-CALL", ARG(3), NUMBER("f32", "{'var': 'n'}")),
    REFUSED("an expression for f32", "V-CALL", ARG(3), NUMBER("f32", "{'expr': 1}")),
    REFUSED("an expression too large for i32", "V-CALL", ARG(3),
            {"{'var': 'n'}", "{'expr': {'mul': ['n', 134217728]}}"}),
    ACCEPTED("an expression as large as i32",
             {"{'var': 'n'}", "{'expr': {'clamp': [{'mul': ['n', 134217728]}, 0, 2147483647]}}"}),
    REFUSED("a var for a buffer", "V-CALL", ARG(0), {"[{'buf': 'a'}", "[{'var': 'n'}"},
            {"'a': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input'}, ", ""}),
    REFUSED("an i64 for an i32", "V-CALL", ARG(3), {"{'var': 'n'}", "{'i64': 1}"}),
    ACCEPTED("an i64", NUMBER("i64", "{'i64': 1}")),
    REFUSED("an f32 for an i64", "V-CALL", ARG(3), NUMBER("i64", "{'f32': 1}")),
    ACCEPTED("an f32", NUMBER("f32", "{'f32': 1}")),
    REFUSED("a u8 for an f32", "V-CALL", ARG(3), NUMBER("f32", "{'u8': 1}")),
    ACCEPTED("a rank for i64", NUMBER("i64", "{'rank': 'tp'}"),
             {"'vars'", "'topology': {'groups': {'tp': 2}}, 'vars'"}),
    REFUSED("a rank for a u8", "V-CALL", ARG(3), NUMBER("u8", "{'rank': 'tp'}"),
            {"'vars'", "'topology': {'groups': {'tp': 2}}, 'vars'"}),
    REFUSED("a rank of nothing", "V-CALL", ARG(3), {"{'var': 'n'}", "{'rank': 'tp'}"}),
};

// A producer g and a consumer f, with a workspace between them.
#define CHAIN                                                                                      \
    RULES_HEAD "'buffers': {"                                                                      \
               "'a': {'dtype': 'i32', 'shape': [16], 'kind': 'input'}, "                           \
               "'x': {'dtype': 'i32', 'shape': [16], 'kind': 'workspace'}, "                       \
               "'b': {'dtype': 'i32', 'shape': [16], 'kind': 'output'}}, " RULES_MODULE            \
               "'ops': {'g': {'params': ['in buffer<i32>', 'out buffer<i32>'], 'impl': "           \
               "{'launches': [{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], "                  \
               "'grid': [1, 1, 1]}]}}}, "                                                          \
               "'programs': {'p': {'calls': [{'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]}, "  \
               "{'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'b'}]}]}}}"

#define FIRST(args)                                                                                \
    {                                                                                              \
        "[{'buf': 'a'}, {'buf': 'x'}]", args                                                       \
    }
#define SECOND(args)                                                                               \
    {                                                                                              \
        "[{'buf': 'x'}, {'buf': 'b'}]", args                                                       \
    }
#define INOUT                                                                                      \
    {                                                                                              \
        "['in buffer<i32>', 'out buffer<i32>']", "['in buffer<i32>', 'inout buffer<i32>']"         \
    }
#define KIND(from, to)                                                                             \
    {                                                                                              \
        "'kind': '" from "'", "'kind': '" to "'"                                                   \
    }

static const struct rules_case flows[] = {
    ACCEPTED("a chain"),
    REFUSED("a workspace that is read first", "V-FLOW", "programs.p.calls[0] arg 0",
            SECOND("[{'buf': 'a'}, {'buf': 'a'}]"), FIRST("[{'buf': 'x'}, {'buf': 'b'}]"),
            {"[{'buf': 'a'}, {'buf': 'a'}]", "[{'buf': 'a'}, {'buf': 'x'}]"}),
    REFUSED(
        "an output that is read first", "V-FLOW", "programs.p.calls[0] arg 0",
        FIRST("[{'buf': 'b'}, {'buf': 'x'}]}, {'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]")),
    ACCEPTED(
        "an output that is read after",
        SECOND("[{'buf': 'x'}, {'buf': 'b'}]}, {'op': 'g', 'args': [{'buf': 'b'}, {'buf': 'x'}]")),
    REFUSED("a workspace that is rewritten first", "V-FLOW", "programs.p.calls[0] arg 1", INOUT,
            KIND("output", "inout")),
    ACCEPTED("an inout that is rewritten", INOUT, KIND("output", "inout"),
             KIND("workspace", "carry")),
    ACCEPTED("a workspace that is written at an offset first",
             FIRST("[{'buf': 'a'}, {'buf': 'x', 'offset': 32}]")),
    ACCEPTED("an argument before counts",
             {"['in buffer<i32>', 'out buffer<i32>']", "['out buffer<i32>', 'in buffer<i32>']"},
             FIRST("[{'buf': 'x'}, {'buf': 'x'}]"), SECOND("[{'buf': 'b'}, {'buf': 'a'}]")),
    REFUSED("an argument after does not", "V-FLOW", "programs.p.calls[0] arg 0",
            FIRST("[{'buf': 'x'}, {'buf': 'x'}]"), SECOND("[{'buf': 'a'}, {'buf': 'b'}]")),
    REFUSED("what another program wrote", "V-FLOW", "programs.p.calls[1] arg 0",
            FIRST("[{'buf': 'a'}, {'buf': 'b'}]"),
            {"'programs': {",
             "'programs': {'o': {'calls': [{'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]}]}, "}),
    ACCEPTED(
        "a carry that another program wrote", KIND("workspace", "carry"),
        FIRST("[{'buf': 'x'}, {'buf': 'b'}]}, {'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'b'}]"),
        {"'programs': {",
         "'programs': {'o': {'calls': [{'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]}]}, "}),
    REFUSED(
        "a write to an input", "V-FLOW", "programs.p.calls[0] arg 1",
        FIRST("[{'buf': 'a'}, {'buf': 'a'}]"),
        SECOND("[{'buf': 'a'}, {'buf': 'x'}]}, {'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'b'}]")),
    REFUSED("a write to a weight", "V-FLOW", "programs.p.calls[0] arg 1",
            {"'kind': 'workspace'", "'kind': 'weight', 'bind': [{'tensor': 't'}]"}),
    REFUSED(
        "an output that no call names", "V-FLOW", "buffers.z",
        {"'a': {'dtype'", "'z': {'dtype': 'i32', 'shape': [16], 'kind': 'output'}, 'a': {'dtype'"}),
    REFUSED("a carry that nothing writes", "V-FLOW", "buffers.b",
            SECOND("[{'buf': 'x'}, {'buf': 'x'}]}, {'op': 'h', 'args': [{'buf': 'b'}]"),
            {"'ops': {", "'ops': {'h': {'params': ['in buffer<i32>'], 'impl': {'launches': "
                         "[{'module': 'k', 'entry': 'g', 'block': "
                         "[1, 1, 1], 'grid': [1, 1, 1]}]}}, "},
            KIND("output", "carry")),
    ACCEPTED("an inout that nothing writes", KIND("input", "inout")),
    REFUSED_SAYING("an unknown op may have written it", "V-CALL", "programs.p.calls[0]",
                   "unknown op",
                   {"[{'op': 'g', 'args': [{'buf': 'a'}", "[{'op': 'h', 'args': [{'buf': 'a'}"}),
    REFUSED_SAYING("an unknown buffer may have been it", "V-CALL", "programs.p.calls[0] arg 1",
                   "unknown buffer", FIRST("[{'buf': 'a'}, {'buf': 'xx'}]")),
};

#define DERIVE                                                                                     \
    RULES_HEAD                                                                                     \
    "'topology': {'groups': {'tp': 2}}, 'states': {'s': {'bytes': 4}}, 'buffers': {"               \
    "'a': {'dtype': 'i32', 'shape': [2], 'kind': 'source', 'bind': [{'tensor': 't'}]}, "           \
    "'x': {'dtype': 'i32', 'shape': [2], 'kind': 'workspace'}, "                                   \
    "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'i', 'group': 'tp'}, "              \
    "'i': {'dtype': 'i32', 'shape': [2], 'kind': 'input', 'export': true}, "                       \
    "'o': {'dtype': 'i32', 'shape': [2], 'kind': 'output'}, "                                      \
    "'b': {'dtype': 'i32', 'shape': [2], 'kind': 'inout'}, "                                       \
    "'c': {'dtype': 'i32', 'shape': [2], 'kind': 'carry'}}, " RULES_MODULE                         \
    "'ops': {'g': {'params': ['in buffer<i32>', 'out buffer<i32>'], 'impl': "                      \
    "{'launches': [{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], "                             \
    "'grid': [1, 1, 1]}]}}, "                                                                      \
    "'h': {'params': ['in buffer<u64>', 'in state'], 'impl': "                                     \
    "{'launches': [{'module': 'k', 'entry': 'h', 'block': [1, 1, 1], "                             \
    "'grid': [1, 1, 1]}]}}, "                                                                      \
    "'n': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'], 'impl': "                \
    "{'launches': [{'entry': 'extern:nccl_allreduce_i32'}]}}}, "                                   \
    "'programs': {'d': {'derive': true, 'calls': ["                                                \
    "{'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]}, "                                          \
    "{'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'c'}]}]}, "                                        \
    "'p': {'calls': [{'op': 'h', 'args': [{'buf': 'y'}, {'state': 's'}]}, "                        \
    "{'op': 'n', 'args': [{'buf': 'i'}, {'buf': 'o'}, {'i32': 2}, {'rank': 'tp'}]}, "              \
    "{'op': 'g', 'args': [{'buf': 'b'}, {'buf': 'b'}]}]}}}"

#define ALSO(call)                                                                                 \
    {                                                                                              \
        "{'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'c'}]}",                                       \
            "{'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'c'}]}, " call                             \
    }

static const struct rules_case derives[] = {
    ACCEPTED("a source through a workspace into a carry"),
    REFUSED("an input", "V-DERIVE", "programs.d.calls[2] arg 0",
            ALSO("{'op': 'g', 'args': [{'buf': 'i'}, {'buf': 'c'}]}")),
    REFUSED("an output", "V-DERIVE", "programs.d.calls[2] arg 1",
            ALSO("{'op': 'g', 'args': [{'buf': 'x'}, {'buf': 'o'}]}")),
    REFUSED("an inout", "V-DERIVE", "programs.d.calls[2] arg 0",
            ALSO("{'op': 'g', 'args': [{'buf': 'b'}, {'buf': 'x'}]}")),
    REFUSED("a peer buffer", "V-DERIVE", "programs.d.calls[2] arg 0",
            ALSO("{'op': 'm', 'args': [{'buf': 'y'}]}"),
            {"'ops': {", "'ops': {'m': {'params': ['in buffer<u64>'], 'impl': {'launches': "
                         "[{'module': 'k', 'entry': 'g', 'block': "
                         "[1, 1, 1], 'grid': [1, 1, 1]}]}}, "}),
    REFUSED("a state", "V-DERIVE", "programs.d.calls[2] arg 0",
            ALSO("{'op': 'm', 'args': [{'state': 's'}]}"),
            {"'ops': {", "'ops': {'m': {'params': ['in state'], 'impl': {'launches': [{'module': "
                         "'k', 'entry': 'g', 'block': "
                         "[1, 1, 1], 'grid': [1, 1, 1]}]}}, "}),
    REFUSED("a collective", "V-DERIVE", "programs.d.calls[2]",
            ALSO("{'op': 'n', 'args': [{'buf': 'x'}, {'buf': 'c'}, {'i32': 2}, {'rank': 'tp'}]}")),
};

#define ONCE                                                                                       \
    {                                                                                              \
        "'programs': {", "'programs': {'o': {'once': true, 'calls': [{'op': 'g', 'args': "         \
                         "[{'buf': 'a'}, {'buf': 'x'}]}, "                                         \
                         "{'op': 'g', 'args': [{'buf': 'a'}, {'buf': 'x'}]}]}, "                   \
    }

static const struct rules_case onces[] = {
    WARNED("an input", "V-ONCE", "programs.o.calls[0] arg 0", ONCE),
    ACCEPTED("no input", KIND("input", "carry"), FIRST("[{'buf': 'x'}, {'buf': 'a'}]"),
             KIND("workspace", "inout"), ONCE),
};

int rules_of_programs(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(RULES_BASE, programs), RULES_TEST(RULES_BASE, calls), RULES_TEST(CHAIN, flows),
        RULES_TEST(DERIVE, derives),      RULES_TEST(CHAIN, onces),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
