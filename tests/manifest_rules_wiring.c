// SPDX-License-Identifier: Apache-2.0
//
// V-ARGS: how launches take the params of their op.
#include "tests/manifest_rules_case.h"

#define L0 "ops.f.impl.launches[0]"
#define L1 "ops.f.impl.launches[1]"

// An op with a param of each kind, two launches and a scratch between them.
#define WIRED                                                                                      \
    RULES_HEAD                                                                                     \
    "'vars': {'n': {'max': 16}}, 'topology': {'groups': {'tp': 2}}, "                              \
    "'states': {'s': {'bytes': 64}}, 'buffers': {"                                                 \
    "'a': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input'}, "                                     \
    "'b': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'output'}}, " RULES_MODULE                  \
    "'ops': {'f': {'params': ['in buffer<i32>', 'out buffer<bf16>', 'in state', 'i32', "           \
    "'i64', 'f32', 'u8'], 'impl': {'scratch': {'t': {'dtype': 'f32', 'shape': ['n']}}, "           \
    "'launches': [{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], 'grid': [1, 1, 1], "           \
    "'params': ['in buffer<i32>', 'out buffer<f32>', 'in state', 'i32'], "                         \
    "'args': [{'param': 0}, {'scratch': 't'}, {'param': 2}, {'rank': 'tp'}]}, "                    \
    "{'module': 'k', 'entry': 'h', 'block': [1, 1, 1], 'grid': [1, 1, 1], "                        \
    "'params': ['inout buffer<f32>', 'out buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], "             \
    "'args': [{'scratch': 't'}, {'param': 1}, {'i32': 1}, {'i64': 2}, {'f32': 3}, "                \
    "{'u8': 4}]}]}}}, "                                                                            \
    "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'b'}, "               \
    "{'state': 's'}, {'i32': -1}, {'i64': -1}, {'f32': 0.5}, {'u8': 255}]}]}}}"

static const struct rules_case counts[] = {
    ACCEPTED("everything wired"),
    REFUSED("an argument too few", "V-ARGS", L1, {", {'u8': 4}]", "]"}),
    REFUSED("a param too few", "V-ARGS", L1, {"'f32', 'u8'], 'args'", "'f32'], 'args'"}),
    REFUSED("args that are not there for other params", "V-ARGS", L1,
            {", 'args': [{'scratch': 't'}, {'param': 1}, {'i32': 1}, {'i64': 2}, {'f32': 3}, "
             "{'u8': 4}]",
             ""}),
};

static const struct rules_case params[] = {
    REFUSED("a param that is not there", "V-ARGS", L1 " arg 1", {"{'param': 1}", "{'param': 7}"}),
    REFUSED("a buffer of another dtype", "V-ARGS", L0 " arg 0",
            {"'params': ['in buffer<i32>', 'out buffer<f32>'",
             "'params': ['in buffer<u32>', 'out buffer<f32>'"}),
    REFUSED("a buffer as a state", "V-ARGS", L0 " arg 0",
            {"'params': ['in buffer<i32>', 'out buffer<f32>'",
             "'params': ['in state', 'out buffer<f32>'"}),
    REFUSED(
        "a state as a buffer", "V-ARGS", L0 " arg 2",
        {"'out buffer<f32>', 'in state', 'i32']", "'out buffer<f32>', 'in buffer<u8>', 'i32']"}),
    REFUSED("a scalar as a buffer", "V-ARGS", L0 " arg 0",
            {"[{'param': 0}, {'scratch': 't'}", "[{'param': 3}, {'scratch': 't'}"}),
    ACCEPTED("scalars", {"{'i32': 1}, {'i64': 2}, {'f32': 3}, {'u8': 4}",
                         "{'param': 3}, {'param': 4}, {'param': 5}, {'param': 6}"}),
    REFUSED("a scalar of another type", "V-ARGS", L1 " arg 3", {"{'i64': 2}", "{'param': 3}"}),
    REFUSED("a write through a buffer that is read", "V-ARGS", L0 " arg 0",
            {"'params': ['in buffer<i32>', 'out buffer<f32>'",
             "'params': ['inout buffer<i32>', 'out buffer<f32>'"}),
    REFUSED("a write through a state that is read", "V-ARGS", L0 " arg 2",
            {"'out buffer<f32>', 'in state', 'i32']", "'out buffer<f32>', 'out state', 'i32']"}),
    ACCEPTED("a write through a state that may be",
             {"'in state', 'i32', 'i64'", "'inout state', 'i32', 'i64'"},
             {"'out buffer<f32>', 'in state', 'i32']", "'out buffer<f32>', 'out state', 'i32']"}),
    REFUSED("a read of what is not written yet", "V-ARGS", L1 " arg 1",
            {"'out buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'",
             "'in buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'"}),
    REFUSED("a rewrite of what is not written yet", "V-ARGS", L1 " arg 1",
            {"'out buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'",
             "'inout buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'"}),
    ACCEPTED("a rewrite of what a launch before wrote",
             {"'params': ['in buffer<i32>', 'out buffer<f32>'",
              "'params': ['out buffer<bf16>', 'out buffer<f32>'"},
             {"[{'param': 0}, {'scratch': 't'}", "[{'param': 1}, {'scratch': 't'}"},
             {"'out buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'",
              "'inout buffer<bf16>', 'i32', 'i64', 'f32', 'u8'], 'args'"}),
    REFUSED("an out param that nothing writes", "V-ARGS", "ops.f.params[1]",
            {"'params': ['inout buffer<f32>', 'out buffer<bf16>'",
             "'params': ['inout buffer<f32>', 'in buffer<i32>'"},
            {"{'param': 1}", "{'param': 0}"}),
    REFUSED(
        "an out state that nothing writes", "V-ARGS", "ops.f.params[2]",
        {"'in state', 'i32', 'i64'", "'out state', 'i32', 'i64'"},
        {"'out buffer<f32>', 'in state', 'i32']", "'out buffer<f32>', 'in buffer<i32>', 'i32']"},
        {"{'param': 2}", "{'param': 0}"}),
};

static const struct rules_case scratches[] = {
    REFUSED("a scratch that is not there", "V-ARGS", L1 " arg 0",
            {"[{'scratch': 't'}, {'param': 1}", "[{'scratch': 'u'}, {'param': 1}"}),
    REFUSED("a scratch of another dtype", "V-ARGS", L1 " arg 0",
            {"['inout buffer<f32>'", "['inout buffer<bf16>'"}),
    REFUSED("a scratch as a scalar", "V-ARGS", L1 " arg 2", {"{'i32': 1}", "{'scratch': 't'}"}),
    REFUSED("a scratch as a state", "V-ARGS", L0 " arg 2", {"{'param': 2}", "{'scratch': 't'}"}),
    REFUSED("a scratch that is read first", "V-ARGS", L0 " arg 1",
            {"'params': ['in buffer<i32>', 'out buffer<f32>'",
             "'params': ['in buffer<i32>', 'in buffer<f32>'"}),
    REFUSED("a scratch that is rewritten first", "V-ARGS", L0 " arg 1",
            {"'params': ['in buffer<i32>', 'out buffer<f32>'",
             "'params': ['in buffer<i32>', 'inout buffer<f32>'"}),
    REFUSED("a scratch that nothing uses", "V-ARGS", "ops.f.impl.scratch.u",
            {"'scratch': {'t'", "'scratch': {'u': {'dtype': 'i8', 'shape': [4]}, 't'"}),
};

static const struct rules_case literals[] = {
    REFUSED("an i32 for an i64", "V-ARGS", L1 " arg 3", {"{'i64': 2}", "{'i32': 2}"}),
    REFUSED("an i64 for an i32", "V-ARGS", L1 " arg 2", {"{'i32': 1}", "{'i64': 1}"}),
    REFUSED("a u8 for an f32", "V-ARGS", L1 " arg 4", {"{'f32': 3}", "{'u8': 3}"}),
    REFUSED("an f32 for a u8", "V-ARGS", L1 " arg 5", {"{'u8': 4}", "{'f32': 4}"}),
    REFUSED("an i64 for a buffer", "V-ARGS", L0 " arg 0",
            {"[{'param': 0}, {'scratch': 't'}", "[{'i64': 0}, {'scratch': 't'}"}),
    ACCEPTED("a rank for an i64", {"{'i64': 2}", "{'rank': 'tp'}"}),
    REFUSED("a rank for an f32", "V-ARGS", L1 " arg 4", {"{'f32': 3}", "{'rank': 'tp'}"}),
    REFUSED("a rank for a u8", "V-ARGS", L1 " arg 5", {"{'u8': 4}", "{'rank': 'tp'}"}),
    REFUSED("a rank for a buffer", "V-ARGS", L0 " arg 0",
            {"[{'param': 0}, {'scratch': 't'}", "[{'rank': 'tp'}, {'scratch': 't'}"}),
    REFUSED("a rank of nothing", "V-ARGS", L1 " arg 2", {"{'i32': 1}", "{'rank': 'ep'}"}),
};

int rules_of_wiring(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(WIRED, counts),
        RULES_TEST(WIRED, params),
        RULES_TEST(WIRED, scratches),
        RULES_TEST(WIRED, literals),
    };
    return cmocka_run_group_tests_name("wiring", tests, NULL, NULL);
}
