// SPDX-License-Identifier: Apache-2.0
//
// V-VAR V-STATE V-SHARD V-MODULE V-TOPO V-CUT V-UNUSED
#include "tests/manifest_rules_case.h"

static const struct rules_case vars[] = {
    ACCEPTED("the base manifest"),
    REFUSED("a var up to 0", "V-VAR", "vars.n.max", {"'max': 16", "'max': 0"}),
    ACCEPTED("a var up to 1", {"'max': 16", "'max': 1"}),
    REFUSED_SAYING(
        "two vars on one axis", "V-VAR", "vars.m.axis", "\"n\" counts the rows",
        {"'n': {'max': 16}", "'n': {'max': 16, 'axis': 'rows'}, 'm': {'max': 4, 'axis': 'rows'}"},
        {"'shape': ['n'],", "'shape': ['n', 'm'],"}),
    REFUSED(
        "two vars on one axis, in the other order", "V-VAR", "vars.n.axis",
        {"'n': {'max': 16}", "'o': {'max': 4, 'axis': 'ranks'}, 'n': {'max': 16, 'axis': 'ranks'}"},
        {"'shape': ['n'],", "'shape': ['n', 'o'],"}),
    ACCEPTED("an axis each, and two vars without",
             {"'n': {'max': 16}",
              "'n': {'max': 16, 'axis': 'rows'}, 'm': {'max': 4, 'axis': 'groups'}, "
              "'o': {'max': 4, 'axis': 'ranks'}, 'q': {'max': 4}, 'r': {'max': 4}"},
             {"'shape': ['n'],", "'shape': ['n', 'm', 'o', 'q', 'r'],"}),
};

static const struct rules_case modules[] = {
    REFUSED("a short hash", "V-MODULE", "modules.k.sha256", {"'00112233", "'0011223"}),
    REFUSED("a long hash", "V-MODULE", "modules.k.sha256", {"'00112233", "'001122334"}),
    REFUSED("a hash with a g", "V-MODULE", "modules.k.sha256", {"ddeeff0011", "ddeeg00011"}),
    REFUSED("an empty source", "V-MODULE", "modules.k.source", {"'k.cubin'", "''"}),
    ACCEPTED("a path", {"'k.cubin'", "'../sub/k.cubin'"}),
    ACCEPTED("hf", {"'k.cubin'", "'hf:org/repo/dir/k.cubin'"}),
    ACCEPTED("hf with a revision", {"'k.cubin'", "'hf:org/repo/k.cubin@main'"}),
    REFUSED("hf without a path", "V-MODULE", "modules.k.source", {"'k.cubin'", "'hf:org/repo'"}),
    REFUSED("hf with an empty org", "V-MODULE", "modules.k.source", {"'k.cubin'", "'hf:/repo/k'"}),
    REFUSED("hf with an empty part", "V-MODULE", "modules.k.source", {"'k.cubin'", "'hf:o/r//k'"}),
    REFUSED("hf with a part ..", "V-MODULE", "modules.k.source", {"'k.cubin'", "'hf:o/r/../k'"}),
    REFUSED("hf with an empty revision", "V-MODULE", "modules.k.source",
            {"'k.cubin'", "'hf:o/r/k@'"}),
    REFUSED("hf with a revision of two parts", "V-MODULE", "modules.k.source",
            {"'k.cubin'", "'hf:o/r/k@a/b'"}),
    REFUSED("hf with nothing", "V-MODULE", "modules.k.source", {"'k.cubin'", "'hf:'"}),
    ACCEPTED("https", {"'k.cubin'", "'https://host/k.cubin'"}),
    REFUSED("https without a host", "V-MODULE", "modules.k.source", {"'k.cubin'", "'https:///k'"}),
    REFUSED("https without a path", "V-MODULE", "modules.k.source",
            {"'k.cubin'", "'https://host/'"}),
    REFUSED("https without slashes", "V-MODULE", "modules.k.source",
            {"'k.cubin'", "'https:host/k'"}),
    REFUSED("https with a space", "V-MODULE", "modules.k.source",
            {"'k.cubin'", "'https://host/k k'"}),
    REFUSED("another scheme", "V-MODULE", "modules.k.source", {"'k.cubin'", "'http://host/k'"}),
};

static const struct rules_case unused[] = {
    REFUSED("an unused buffer", "V-UNUSED", "buffers.z",
            {"'a': {'dtype'",
             "'z': {'dtype': 'i32', 'shape': [4], 'kind': 'workspace'}, 'a': {'dtype'"}),
    REFUSED("an unused op", "V-UNUSED", "ops.z",
            {"'ops': {",
             "'ops': {'z': {'params': [], 'impl': {'launches': [{'module': 'k', 'entry': 'g', "
             "'block': [1, 1, 1], 'grid': [1, 1, 1]}]}}, "}),
    REFUSED("an unused module", "V-UNUSED", "modules.z",
            {"'modules': {",
             "'modules': {'z': {'source': 'z', 'sha256': '00112233445566778899aabbccddeeff"
             "00112233445566778899aabbccddeeff'}, "}),
    REFUSED("an unused state", "V-UNUSED", "states.z",
            {"'buffers'", "'states': {'z': {'bytes': 4}}, 'buffers'"}),
    REFUSED("a state that is only indexed into", "V-UNUSED", "states.z",
            {"'buffers'", "'states': {'z': {'bytes': 4}}, 'buffers'"},
            {"'kind': 'input'", "'kind': 'input', 'domain': {'index_into': 'z'}"}),
    REFUSED("an unused var", "V-UNUSED", "vars.z",
            {"'vars': {", "'vars': {'z': {'max': 4, 'axis': 'rows'}, "}),
    ACCEPTED("a var of a when only", {"'vars': {", "'vars': {'z': {'max': 4}, "},
             {"'entry'", "'when': {'var': 'z'}, 'entry'"}),
    ACCEPTED("a var of a domain only", {"'vars': {", "'vars': {'z': {'max': 4}, "},
             {"'kind': 'input'", "'kind': 'input', 'domain': {'max': 'z'}"}),
    REFUSED_SAYING("a misspelt buffer leaves what is unused and unwritten undecided", "V-CALL",
                   "programs.p.calls[0] arg 2", "unknown buffer \"bb\"",
                   {"{'buf': 'b'}", "{'buf': 'bb'}"}),
    REFUSED("a misspelt module", "V-LAUNCH-KERNEL", "ops.f.impl.launches[0].module",
            {"'module': 'k'", "'module': 'q'"}),
};

#define STATES                                                                                     \
    RULES_HEAD "'topology': {'groups': {'tp': 2}}, "                                               \
               "'states': {'kv': {'bytes_per_token': 64}, 'rs': {'bytes_per_seq': 24}, "           \
               "'fx': {'bytes': 128}, 'hs': {'host': {'dtype': 'f32', 'shape': [0, 4, 8], "        \
               "'strides': [32, 8, 1]}}}, 'buffers': {}, " RULES_MODULE                            \
               "'ops': {'f': {'params': ['inout state', 'inout state', 'inout state', "            \
               "'inout state', 'i32'], 'impl': {'launches': [{'module': 'k', 'entry': 'g', "       \
               "'block': [1, 1, 1], 'grid': [1, 1, 1]}]}}}, "                                      \
               "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'state': 'kv'}, "               \
               "{'state': 'rs'}, {'state': 'fx'}, {'state': 'hs'}, {'rank': 'tp'}]}]}}}"

static const struct rules_case states[] = {
    ACCEPTED("each kind of state"),
    REFUSED_SAYING("no size", "V-STATE", "states.fx", "none of", {"'bytes': 128", ""}),
    REFUSED_SAYING("a size of 0", "V-STATE", "states.fx", "none of",
                   {"'bytes': 128", "'bytes': 0"}),
    REFUSED_SAYING("two sizes", "V-STATE", "states.fx", "more than one",
                   {"'bytes': 128", "'bytes': 128, 'bytes_per_seq': 8"}),
    REFUSED("a size and a host layout", "V-STATE", "states.hs", {"'hs': {", "'hs': {'bytes': 4, "}),
    ACCEPTED("a size of 0 and a host layout", {"'hs': {", "'hs': {'bytes': 0, "}),
    REFUSED("fewer strides than extents", "V-STATE", "states.hs.host.strides",
            {"[32, 8, 1]", "[32, 8]"}),
    REFUSED("no extents", "V-STATE", "states.hs.host.shape", {"[0, 4, 8]", "[]"},
            {"[32, 8, 1]", "[]"}),
    REFUSED("an inner extent of 0", "V-STATE", "states.hs.host.shape[1]",
            {"[0, 4, 8]", "[0, 0, 8]"}),
    REFUSED("a stride of 0", "V-STATE", "states.hs.host.strides[2]", {"[32, 8, 1]", "[32, 8, 0]"}),
    REFUSED("a layout past 64 bits", "V-STATE", "states.hs.host",
            {"[32, 8, 1]", "[32, 9223372036854775807, 1]"}),
    REFUSED("a layout past 64 bits in bytes only", "V-STATE", "states.hs.host",
            {"[32, 8, 1]", "[32, 1537228672809129302, 1]"}),
    ACCEPTED("an open outermost extent of any stride",
             {"[32, 8, 1]", "[18446744073709551615, 8, 1]"}),
    REFUSED("a fixed outermost extent past 64 bits", "V-STATE", "states.hs.host",
            {"[32, 8, 1]", "[18446744073709551615, 8, 1]"}, {"[0, 4, 8]", "[2, 4, 8]"}),
};

#define SHARD_KV(shard)                                                                            \
    {                                                                                              \
        "'bytes_per_token': 64", "'bytes_per_token': 64, 'shard': " shard                          \
    }
#define SHARD_RS(shard)                                                                            \
    {                                                                                              \
        "'bytes_per_seq': 24", "'bytes_per_seq': 24, 'shard': " shard                              \
    }

static const struct rules_case shards[] = {
    ACCEPTED("by position", SHARD_KV("{'by': 'position', 'group': 'tp'}")),
    REFUSED("by position on a per-sequence state", "V-SHARD", "states.rs.shard.by",
            SHARD_RS("{'by': 'position', 'group': 'tp'}")),
    ACCEPTED("by heads", SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': [[1, 16], [4, 8]]}")),
    REFUSED("by heads on a paged state", "V-SHARD", "states.kv.shard.by",
            SHARD_KV("{'by': 'heads', 'group': 'tp', 'segments': [[1, 128]]}")),
    REFUSED("a shard on a host state", "V-SHARD", "states.hs.shard.by",
            {"'hs': {", "'hs': {'shard': {'by': 'position', 'group': 'tp'}, "}),
    REFUSED("an odd width", "V-SHARD", "states.rs.shard.segments[1]",
            SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': [[1, 24], [1, 23]]}")),
    REFUSED_SAYING("too many bytes", "V-SHARD", "states.rs.shard.segments", "have 48",
                   SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': [[1, 50]]}")),
    REFUSED("no segments", "V-SHARD", "states.rs.shard.segments",
            SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': []}")),
    REFUSED("an empty segment", "V-SHARD", "states.rs.shard.segments[0]",
            SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': [[0, 8], [1, 48]]}")),
    REFUSED_SAYING(
        "more bytes than there are numbers", "V-SHARD", "states.rs.shard.segments",
        "exceed 64 bits",
        SHARD_RS("{'by': 'heads', 'group': 'tp', 'segments': [[4294967296, 4294967296]]}")),
    REFUSED_SAYING("an unknown group", "V-SHARD", "states.kv.shard.group", "did you mean \"tp\"?",
                   SHARD_KV("{'by': 'position', 'group': 'tpp'}")),
    ACCEPTED("a shard uses its group", {"'groups': {'tp': 2}", "'groups': {'tp': 2, 'ep': 4}"},
             SHARD_KV("{'by': 'position', 'group': 'ep'}")),
};

static const struct rules_case topology[] = {
    ACCEPTED("a group of 1", {"'tp': 2", "'tp': 1"}),
    REFUSED("a group of 0", "V-TOPO", "topology.groups.tp", {"'tp': 2", "'tp': 0"}),
    REFUSED("an unused group", "V-TOPO", "topology.groups.ep", {"'tp': 2", "'tp': 2, 'ep': 2"}),
    REFUSED_SAYING("no topology", "V-CALL", "programs.p.calls[0] arg 4", "no topology",
                   {"'topology': {'groups': {'tp': 2}}, ", ""}),
    REFUSED("an unknown group", "V-CALL", "programs.p.calls[0] arg 4",
            {"{'rank': 'tp'}", "{'rank': 'dp'}"}),
};

#define CUT(cut)                                                                                   \
    {                                                                                              \
        "'buffers'", "'cut': " cut ", 'buffers'"                                                   \
    }

static const struct rules_case cuts[] = {
    ACCEPTED("the last stage", CUT("{'id': 'x', 'stage': 1, 'stages': 2}")),
    REFUSED("one stage", "V-CUT", "cut.stages", CUT("{'id': 'x', 'stage': 0, 'stages': 1}")),
    REFUSED("a stage past the last", "V-CUT", "cut.stage",
            CUT("{'id': 'x', 'stage': 2, 'stages': 2}")),
    REFUSED("an empty id", "V-CUT", "cut.id", CUT("{'id': '', 'stage': 0, 'stages': 2}")),
};

int rules_of_declarations(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(RULES_BASE, vars),   RULES_TEST(RULES_BASE, modules),
        RULES_TEST(RULES_BASE, unused), RULES_TEST(STATES, states),
        RULES_TEST(STATES, shards),     RULES_TEST(STATES, topology),
        RULES_TEST(RULES_BASE, cuts),
    };
    return cmocka_run_group_tests_name("declarations", tests, NULL, NULL);
}
