// SPDX-License-Identifier: Apache-2.0
//
// V-SHAPE V-BIND V-SOURCE V-PLACE V-EXPORT V-PEER V-FILL V-DOMAIN
#include "tests/manifest_rules_case.h"

#define SCRATCH(shape)                                                                             \
    {"'impl': {", "'impl': {'scratch': {'t': {'dtype': 'bf16', 'shape': " shape "}}, "},           \
    {                                                                                              \
        "'entry': 'g',", "'entry': 'g', 'params': ['in buffer<i32>', 'in buffer<bf16>', "          \
                         "'out buffer<bf16>', 'i32', 'out buffer<bf16>'], 'args': [{'param': 0}, " \
                         "{'param': 1}, {'param': 2}, {'param': 3}, {'scratch': 't'}],"            \
    }

static const struct rules_case shapes[] = {
    REFUSED("an empty shape", "V-SHAPE", "buffers.a.shape",
            {"['n'], 'kind': 'input'", "[], 'kind': 'input'"}),
    REFUSED("an extent of 0", "V-SHAPE", "buffers.w.shape[0]", {"[32, 8]", "[0, 8]"}),
    REFUSED("an unknown var", "V-SHAPE", "buffers.a.shape[0]",
            {"['n'], 'kind': 'input'", "['q'], 'kind': 'input'"}),
    REFUSED("more than 64 bits", "V-SHAPE", "buffers.w.shape",
            {"[32, 8]", "[4294967296, 4294967296, 4]"}),
    REFUSED("more than 64 bits in bytes only", "V-SHAPE", "buffers.w.shape",
            {"[32, 8]", "[4294967296, 2147483648]"}),
    ACCEPTED("just 64 bits", {"[32, 8]", "[4294967296, 2147483647]"}),
    REFUSED("more than 64 bits with a var at its max", "V-SHAPE", "buffers.b.shape",
            {"['n', 8]", "['n', 576460752303423488]"}),
    ACCEPTED("a scratch", SCRATCH("['n', 4]")),
    REFUSED("an empty shape of a scratch", "V-SHAPE", "ops.f.impl.scratch.t.shape", SCRATCH("[]")),
    REFUSED("an extent of 0 of a scratch", "V-SHAPE", "ops.f.impl.scratch.t.shape[1]",
            SCRATCH("[4, 0]")),
    REFUSED("an unknown var of a scratch", "V-SHAPE", "ops.f.impl.scratch.t.shape[0]",
            SCRATCH("['q']")),
    REFUSED("a scratch of more than 64 bits", "V-SHAPE", "ops.f.impl.scratch.t.shape",
            SCRATCH("[4294967296, 4294967296]")),
};

#define BIND(segments)                                                                             \
    {                                                                                              \
        "'bind': [{'tensor': 't'}]", "'bind': [" segments "]"                                      \
    }
#define TOPOLOGY                                                                                   \
    {                                                                                              \
        "'vars'", "'topology': {'groups': {'tp': 2}}, 'vars'"                                      \
    }

static const struct rules_case binds[] = {
    REFUSED("a weight without tensors", "V-BIND", "buffers.w", BIND("")),
    REFUSED("a weight without bind", "V-BIND", "buffers.w", {", 'bind': [{'tensor': 't'}]", ""}),
    REFUSED("an output with tensors", "V-BIND", "buffers.b.bind",
            {"'kind': 'output'", "'kind': 'output', 'bind': [{'tensor': 't'}]"}),
    REFUSED("an empty name", "V-BIND", "buffers.w.bind[0].tensor", BIND("{'tensor': ''}")),
    ACCEPTED("two tensors",
             BIND("{'tensor': 't'}, {'tensor': 'u', 'rows': [0, 4], 'cols': [4, 8]}")),
    REFUSED("an empty range", "V-BIND", "buffers.w.bind[0].rows",
            BIND("{'tensor': 't', 'rows': [4, 4]}")),
    REFUSED("a reversed range", "V-BIND", "buffers.w.bind[0].cols",
            BIND("{'tensor': 't', 'cols': [4, 3]}")),
    ACCEPTED("a tensor per member", TOPOLOGY,
             BIND("{'tensor': {'group': 'tp', 'tensors': ['t', 'u']}}")),
    REFUSED("a tensor too few", "V-BIND", "buffers.w.bind[0].tensor", TOPOLOGY,
            BIND("{'tensor': {'group': 'tp', 'tensors': ['t']}}")),
    REFUSED("an empty name of a member", "V-BIND", "buffers.w.bind[0].tensor[1]", TOPOLOGY,
            BIND("{'tensor': {'group': 'tp', 'tensors': ['t', '']}}")),
    REFUSED("a tensor per member of nothing", "V-BIND", "buffers.w.bind[0].tensor",
            BIND("{'tensor': {'group': 'tp', 'tensors': ['t', 'u']}}")),
    ACCEPTED("a range per member", TOPOLOGY,
             BIND("{'tensor': 't', 'rows': {'group': 'tp', 'ranges': [[0, 16], [16, 32]]}}")),
    ACCEPTED("ranges that overlap", TOPOLOGY,
             BIND("{'tensor': 't', 'cols': {'group': 'tp', 'ranges': [[0, 16], [0, 16]]}}")),
    REFUSED("a range too many", "V-BIND", "buffers.w.bind[0].rows", TOPOLOGY,
            BIND("{'tensor': 't', 'rows': {'group': 'tp', 'ranges': [[0, 1], [1, 2], [2, 3]]}}")),
    REFUSED("an empty range of a member", "V-BIND", "buffers.w.bind[0].cols[1]", TOPOLOGY,
            BIND("{'tensor': 't', 'cols': {'group': 'tp', 'ranges': [[0, 1], [2, 1]]}}")),
    REFUSED("a range per member of nothing", "V-BIND", "buffers.w.bind[0].rows",
            BIND("{'tensor': 't', 'rows': {'group': 'tp', 'ranges': [[0, 1]]}}")),
    REFUSED("cols per member of nothing", "V-BIND", "buffers.w.bind[0].cols",
            BIND("{'tensor': 't', 'cols': {'group': 'tp', 'ranges': [[0, 1]]}}")),
    ACCEPTED("interleaved", BIND("{'tensor': 't', 'interleave': {'with': 'u', 'rows': 8}}")),
    REFUSED("interleaved by 0 rows", "V-BIND", "buffers.w.bind[0].interleave.rows",
            BIND("{'tensor': 't', 'interleave': {'with': 'u', 'rows': 0}}")),
    REFUSED("interleaved with nothing", "V-BIND", "buffers.w.bind[0].interleave.with",
            BIND("{'tensor': 't', 'interleave': {'with': '', 'rows': 8}}")),
    REFUSED("interleaved with a tensor too few", "V-BIND", "buffers.w.bind[0].interleave.with",
            TOPOLOGY,
            BIND("{'tensor': 't', 'interleave': {'with': {'group': 'tp', 'tensors': ['u']}, "
                 "'rows': 8}}")),
    REFUSED("interleaved with a tensor per member of nothing", "V-BIND",
            "buffers.w.bind[0].interleave.with",
            BIND("{'tensor': 't', 'interleave': {'with': {'group': 'q', 'tensors': ['u']}, 'rows': "
                 "8}}")),
    REFUSED("interleaved rows", "V-BIND", "buffers.w.bind[0].rows",
            BIND("{'tensor': 't', 'interleave': {'with': 'u', 'rows': 8}, 'rows': [0, 8]}")),
    REFUSED("interleaved cols", "V-BIND", "buffers.w.bind[0].cols",
            BIND("{'tensor': 't', 'interleave': {'with': 'u', 'rows': 8}, 'cols': [0, 8]}")),
};

#define HOST                                                                                       \
    {                                                                                              \
        "'kind': 'weight'", "'kind': 'weight', 'placement': 'host'"                                \
    }

static const struct rules_case places[] = {
    ACCEPTED("a weight in host memory", HOST),
    REFUSED("an input in host memory", "V-PLACE", "buffers.a.placement",
            {"'kind': 'input'", "'kind': 'input', 'placement': 'host'"}),
    REFUSED("an exported weight in host memory", "V-PLACE", "buffers.w.placement",
            {"'kind': 'weight'", "'kind': 'weight', 'placement': 'host', 'export': true"}),
    REFUSED("rows by rank in host memory", "V-PLACE", "buffers.w.bind[0]", TOPOLOGY, HOST,
            BIND("{'tensor': 't', 'rows': {'group': 'tp', 'ranges': [[0, 16], [16, 32]]}}")),
    REFUSED("cols by rank in host memory", "V-PLACE", "buffers.w.bind[0]", TOPOLOGY, HOST,
            BIND("{'tensor': 't', 'cols': {'group': 'tp', 'ranges': [[0, 16], [16, 32]]}}")),
    REFUSED("a tensor by rank in host memory", "V-PLACE", "buffers.w.bind[1]", TOPOLOGY, HOST,
            BIND("{'tensor': 't'}, {'tensor': {'group': 'tp', 'tensors': ['t', 'u']}}")),
    REFUSED("an interleaved tensor by rank in host memory", "V-PLACE", "buffers.w.bind[0]",
            TOPOLOGY, HOST,
            BIND("{'tensor': 't', 'interleave': {'with': {'group': 'tp', 'tensors': ['u', 'v']}, "
                 "'rows': 8}}")),
};

#define FILL_A(dtype, fill)                                                                        \
    {"'a': {'dtype': 'i32'", "'a': {'dtype': '" dtype "', 'fill': '" fill "'"},                    \
    {                                                                                              \
        "'in buffer<i32>'", "'in buffer<" dtype ">'"                                               \
    }
#define FILL_B(dtype, fill)                                                                        \
    {"'b': {'dtype': 'bf16'", "'b': {'dtype': '" dtype "', 'fill': '" fill "'"},                   \
    {                                                                                              \
        "'out buffer<bf16>'", "'out buffer<" dtype ">'"                                            \
    }

static const struct rules_case fills[] = {
    ACCEPTED("token", FILL_A("i32", "token")),
    ACCEPTED("position of i64", FILL_A("i64", "position")),
    ACCEPTED("slot", FILL_A("i32", "slot")),
    ACCEPTED("seq_len", FILL_A("i32", "seq_len")),
    ACCEPTED("cu_seqlens", FILL_A("i32", "cu_seqlens")),
    ACCEPTED("blocks", FILL_A("i32", "blocks")),
    REFUSED("token of u32", "V-FILL", "buffers.a.dtype", FILL_A("u32", "token")),
    REFUSED("position of f32", "V-FILL", "buffers.a.dtype", FILL_A("f32", "position")),
    REFUSED("slot of i8", "V-FILL", "buffers.a.dtype", FILL_A("i8", "slot")),
    REFUSED("seq_len of u64", "V-FILL", "buffers.a.dtype", FILL_A("u64", "seq_len")),
    REFUSED("cu_seqlens of u8", "V-FILL", "buffers.a.dtype", FILL_A("u8", "cu_seqlens")),
    REFUSED("blocks of u32", "V-FILL", "buffers.a.dtype", FILL_A("u32", "blocks")),
    ACCEPTED("valid of u8", FILL_A("u8", "valid")),
    ACCEPTED("valid of u64", FILL_A("u64", "valid")),
    REFUSED("valid of f32", "V-FILL", "buffers.a.dtype", FILL_A("f32", "valid")),
    ACCEPTED("temperature", FILL_A("f32", "temperature")),
    REFUSED("temperature of i32", "V-FILL", "buffers.a.dtype", FILL_A("i32", "temperature")),
    REFUSED("top_p of bf16", "V-FILL", "buffers.a.dtype", FILL_A("bf16", "top_p")),
    ACCEPTED("top_p", FILL_A("f32", "top_p")),
    ACCEPTED("min_p", FILL_A("f32", "min_p")),
    REFUSED("min_p of f16", "V-FILL", "buffers.a.dtype", FILL_A("f16", "min_p")),
    ACCEPTED("top_k", FILL_A("i32", "top_k")),
    REFUSED("top_k of i64", "V-FILL", "buffers.a.dtype", FILL_A("i64", "top_k")),
    ACCEPTED("seed", FILL_A("i64", "seed")),
    REFUSED("seed of i32", "V-FILL", "buffers.a.dtype", FILL_A("i32", "seed")),
    ACCEPTED("tokens", FILL_B("i32", "tokens")),
    REFUSED("tokens of u32", "V-FILL", "buffers.b.dtype", FILL_B("u32", "tokens")),
    ACCEPTED("count of i64", FILL_B("i64", "count")),
    REFUSED("count of f32", "V-FILL", "buffers.b.dtype", FILL_B("f32", "count")),
    ACCEPTED("error", FILL_B("i32", "error")),
    REFUSED("error of i64", "V-FILL", "buffers.b.dtype", FILL_B("i64", "error")),
    REFUSED("an input role on an output", "V-FILL", "buffers.b.fill", FILL_B("i32", "token")),
    REFUSED("an output role on an input", "V-FILL", "buffers.a.fill", FILL_A("i32", "tokens")),
    REFUSED("an input role on an inout", "V-FILL", "buffers.a.fill", FILL_A("i32", "token"),
            {"'shape': ['n'], 'kind': 'input'", "'shape': ['n'], 'kind': 'inout'"}),
    REFUSED("a role on a weight", "V-FILL", "buffers.w.fill",
            {"'kind': 'weight'", "'kind': 'weight', 'fill': 'error'"}),
    ACCEPTED(
        "two buffers with one role", FILL_A("i32", "token"),
        {"'w': {'dtype': 'bf16', 'shape': [32, 8], 'kind': 'weight', 'bind': [{'tensor': 't'}]}",
         "'w': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input', 'fill': 'token'}"},
        {"'in buffer<bf16>'", "'in buffer<i32>'"}),
};

#define DOMAIN_A(domain)                                                                           \
    {                                                                                              \
        "'shape': ['n'], 'kind': 'input'", "'shape': ['n'], 'kind': 'input', 'domain': " domain    \
    }
#define DOMAIN_B(domain)                                                                           \
    {                                                                                              \
        "'kind': 'output'", "'kind': 'output', 'domain': " domain                                  \
    }
#define SEQ_STATE                                                                                  \
    {"'buffers'", "'states': {'s': {'bytes_per_seq': 24}}, 'buffers'"},                            \
        {"'i32'], 'impl'", "'i32', 'in state'], 'impl'"},                                          \
    {                                                                                              \
        "{'var': 'n'}", "{'var': 'n'}, {'state': 's'}"                                             \
    }

static const struct rules_case domains[] = {
    ACCEPTED("bounds", DOMAIN_A("{'min': 0, 'max': 'n'}")),
    ACCEPTED("one bound", DOMAIN_A("{'max': {'mul': ['n', 2]}}")),
    ACCEPTED("an index into a buffer", DOMAIN_A("{'index_into': 'w', 'stride': 4}")),
    ACCEPTED("monotone", DOMAIN_A("{'monotone': true}")),
    REFUSED("an index and a min", "V-DOMAIN", "buffers.a.domain",
            DOMAIN_A("{'index_into': 'w', 'min': 0}")),
    REFUSED("an index and a max", "V-DOMAIN", "buffers.a.domain",
            DOMAIN_A("{'index_into': 'w', 'max': 3}")),
    REFUSED("nothing", "V-DOMAIN", "buffers.a.domain", DOMAIN_A("{}")),
    REFUSED("not monotone", "V-DOMAIN", "buffers.a.domain", DOMAIN_A("{'monotone': false}")),
    REFUSED("a stride of 0", "V-DOMAIN", "buffers.a.domain.stride",
            DOMAIN_A("{'index_into': 'w', 'stride': 0}")),
    REFUSED("a stride over nothing", "V-DOMAIN", "buffers.a.domain.stride",
            DOMAIN_A("{'min': 0, 'stride': 4}")),
    ACCEPTED("a stride of 1 over nothing", DOMAIN_A("{'min': 0, 'stride': 1}")),
    REFUSED_SAYING("an index into nothing", "V-DOMAIN", "buffers.a.domain.index_into",
                   "did you mean \"weight\"?", DOMAIN_A("{'index_into': 'weigth'}"),
                   {"'w': {'dtype'", "'weight': {'dtype'"}, {"{'buf': 'w'}", "{'buf': 'weight'}"}),
    REFUSED("an index into itself", "V-DOMAIN", "buffers.a.domain.index_into",
            DOMAIN_A("{'index_into': 'a'}")),
    REFUSED("an index into two things", "V-DOMAIN", "buffers.a.domain.index_into",
            DOMAIN_A("{'index_into': 'w'}"),
            {"'buffers'", "'states': {'w': {'bytes': 24}}, 'buffers'"},
            {"'i32'], 'impl'", "'i32', 'in state'], 'impl'"},
            {"{'var': 'n'}", "{'var': 'n'}, {'state': 'w'}"}),
    REFUSED("an index of floats", "V-DOMAIN", "buffers.b.domain.index_into",
            DOMAIN_B("{'index_into': 'w'}")),
    ACCEPTED("an index into a per-sequence state", DOMAIN_A("{'index_into': 's', 'stride': 8}"),
             SEQ_STATE),
    REFUSED("lines that do not divide a per-sequence state", "V-DOMAIN", "buffers.a.domain.stride",
            DOMAIN_A("{'index_into': 's', 'stride': 16}"), SEQ_STATE),
    REFUSED("two dimensions that are monotone", "V-DOMAIN", "buffers.b.domain.monotone",
            DOMAIN_B("{'monotone': true}")),
    REFUSED("a fractional bound of integers", "V-DOMAIN", "buffers.a.domain.min",
            DOMAIN_A("{'min': 0.5}")),
    REFUSED("a bound that no integer reaches", "V-DOMAIN", "buffers.a.domain.max",
            DOMAIN_A("{'max': 1e300}")),
    ACCEPTED("an integral bound with a point", DOMAIN_A("{'min': 2.0}")),
    ACCEPTED("a fractional bound of floats", DOMAIN_B("{'min': 0.5, 'max': 2}")),
    REFUSED("an unknown var", "V-DOMAIN", "buffers.a.domain.max", DOMAIN_A("{'max': 'q'}")),
    REFUSED("a broken expression", "V-EXPR", "buffers.a.domain.max",
            DOMAIN_A("{'max': {'mul': ['n', 0]}}")),
    REFUSED("a bound past 64 bits", "V-EXPR", "buffers.a.domain.max",
            DOMAIN_A("{'max': {'mul': ['n', 18446744073709551615]}}")),
    REFUSED("min above max", "V-DOMAIN", "buffers.a.domain", DOMAIN_A("{'min': 5, 'max': 2}")),
    REFUSED_SAYING("min above max at the least", "V-DOMAIN", "buffers.a.domain", "at 1",
                   DOMAIN_A("{'min': 2, 'max': 'n'}")),
    REFUSED_SAYING("min above max at the most", "V-DOMAIN", "buffers.a.domain", "at their max",
                   DOMAIN_A("{'min': 'n', 'max': 3}")),
    ACCEPTED("min is max", DOMAIN_A("{'min': 1, 'max': 'n'}")),
    REFUSED("floats with min above max", "V-DOMAIN", "buffers.b.domain",
            DOMAIN_B("{'min': 0.5, 'max': 0.25}")),
};

#define PEERS                                                                                      \
    RULES_HEAD "'topology': {'groups': {'tp': 2}}, 'states': {'s': {'bytes': 64}}, 'buffers': {"   \
               "'x': {'dtype': 'u32', 'shape': [4], 'kind': 'carry', 'export': true}, "            \
               "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'x', 'group': 'tp'}, "   \
               "'v': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 's', 'group': "          \
               "'tp'}}, " RULES_MODULE                                                             \
               "'ops': {'f': {'params': ['inout buffer<u32>', 'in buffer<u64>', "                  \
               "'in buffer<u64>'], 'impl': {'launches': [{'module': 'k', 'entry': 'g', "           \
               "'block': [1, 1, 1], 'grid': [1, 1, 1]}]}}}, "                                      \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'x'}, "                  \
               "{'buf': 'y'}, {'buf': 'v'}]}]}}}"

static const struct rules_case peers[] = {
    ACCEPTED("peers of a buffer and of a state"),
    REFUSED("an exported peer buffer", "V-EXPORT", "buffers.y.export",
            {"'kind': 'peer', 'of': 'x'", "'export': true, 'kind': 'peer', 'of': 'x'"}),
    REFUSED("a wrong shape", "V-PEER", "buffers.y.shape",
            {"[2], 'kind': 'peer', 'of': 'x'", "[4], 'kind': 'peer', 'of': 'x'"}),
    REFUSED("two dimensions", "V-PEER", "buffers.y.shape",
            {"[2], 'kind': 'peer', 'of': 'x'", "[2, 1], 'kind': 'peer', 'of': 'x'"}),
    REFUSED("a var as the shape", "V-PEER", "buffers.y.shape",
            {"[2], 'kind': 'peer', 'of': 'x'", "['n'], 'kind': 'peer', 'of': 'x'"},
            {"'buffers'", "'vars': {'n': {'max': 2}}, 'buffers'"}),
    REFUSED("a wrong dtype", "V-PEER", "buffers.y.dtype",
            {"'y': {'dtype': 'u64'", "'y': {'dtype': 'i64'"},
            {"'inout buffer<u32>', 'in buffer<u64>'", "'inout buffer<u32>', 'in buffer<i64>'"}),
    REFUSED("a domain", "V-PEER", "buffers.y.domain",
            {"'of': 'x'", "'of': 'x', 'domain': {'min': 0}"}),
    REFUSED_SAYING("no of", "V-PEER", "buffers.y", "\"of\"", {"'of': 'x', ", ""}),
    REFUSED_SAYING("no group", "V-PEER", "buffers.y", "\"group\"",
                   {"'of': 'x', 'group': 'tp'", "'of': 'x'"}),
    REFUSED("an unknown group", "V-PEER", "buffers.y.group",
            {"'of': 'x', 'group': 'tp'", "'of': 'x', 'group': 'ep'"}),
    REFUSED("of a buffer that is not exported", "V-PEER", "buffers.y.of", {", 'export': true", ""}),
    REFUSED("of itself", "V-PEER", "buffers.y.of", {"'of': 'x'", "'of': 'y'"}),
    REFUSED("of a peer buffer", "V-PEER", "buffers.y.of", {"'of': 'x'", "'of': 'v'"}),
    REFUSED("of nothing", "V-PEER", "buffers.y.of", {"'of': 'x'", "'of': 'q'"}),
    REFUSED("of a buffer and a state", "V-PEER", "buffers.y.of",
            {"'states': {", "'states': {'x': {'bytes': 4}, "}),
    REFUSED("of a state of the host", "V-PEER", "buffers.v.of",
            {"'s': {'bytes': 64}", "'s': {'host': {'dtype': 'u8', 'shape': [0], 'strides': [1]}}"}),
    REFUSED("of on a carry", "V-PEER", "buffers.x.of",
            {"'export': true", "'export': true, 'of': 's'"}),
    REFUSED("a group on a carry", "V-PEER", "buffers.x.group",
            {"'export': true", "'export': true, 'group': 'tp'"}),
    REFUSED("an op that writes it", "V-FLOW", "programs.p.calls[0] arg 1",
            {"'inout buffer<u32>', 'in buffer<u64>'", "'inout buffer<u32>', 'out buffer<u64>'"}),
};

static const struct rules_case exports[] = {
    ACCEPTED("an exported input", {"'kind': 'input'", "'kind': 'input', 'export': true"}),
    ACCEPTED("an exported output", {"'kind': 'output'", "'kind': 'output', 'export': true"}),
    ACCEPTED("an exported weight", {"'kind': 'weight'", "'kind': 'weight', 'export': true"}),
    ACCEPTED("an exported workspace", {"'kind': 'output'", "'kind': 'workspace', 'export': true"}),
    ACCEPTED("an exported inout", {"'kind': 'output'", "'kind': 'inout', 'export': true"}),
    REFUSED("an exported source", "V-EXPORT", "buffers.w.export",
            {"'kind': 'weight'", "'kind': 'source', 'export': true"},
            {"'calls'", "'derive': true, 'calls'"}, {"'kind': 'input'", "'kind': 'carry'"},
            {"'kind': 'output'", "'kind': 'carry'"}, {"'in buffer<i32>'", "'inout buffer<i32>'"}),
};

static const struct rules_case sources[] = {
    ACCEPTED("a source in a derive program", {"'kind': 'weight'", "'kind': 'source'"},
             {"'calls'", "'derive': true, 'calls'"}, {"'kind': 'input'", "'kind': 'carry'"},
             {"'kind': 'output'", "'kind': 'carry'"}, {"'in buffer<i32>'", "'inout buffer<i32>'"}),
    REFUSED("a source in another program", "V-SOURCE", "programs.p.calls[0] arg 1",
            {"'kind': 'weight'", "'kind': 'source'"}),
    REFUSED("a source without tensors", "V-BIND", "buffers.w",
            {"'kind': 'weight', 'bind': [{'tensor': 't'}]", "'kind': 'source'"},
            {"'calls'", "'derive': true, 'calls'"}, {"'kind': 'input'", "'kind': 'carry'"},
            {"'kind': 'output'", "'kind': 'carry'"}, {"'in buffer<i32>'", "'inout buffer<i32>'"}),
};

int rules_of_buffers(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(RULES_BASE, shapes),  RULES_TEST(RULES_BASE, binds),
        RULES_TEST(RULES_BASE, places),  RULES_TEST(RULES_BASE, fills),
        RULES_TEST(RULES_BASE, domains), RULES_TEST(PEERS, peers),
        RULES_TEST(RULES_BASE, exports), RULES_TEST(RULES_BASE, sources),
    };
    return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
