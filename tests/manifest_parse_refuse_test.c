// SPDX-License-Identifier: Apache-2.0
//
// One edit of the maximal manifest each, and the one error that it must give.
#include "tests/manifest_parse.h"

static void test_repeated_keys(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"model\": \"maximal\"",
         "\"model\": \"a\", \"model\": \"b\"",
         {"V-DUP", "model", "line 3, column 17"}},
        {"\"model\": \"maximal\"",
         "\"model\": \"a\", \"\\u006dode\\u006C\": 5",
         {"V-DUP", "model", NULL}},
        {"\"ONE\": 1.0", "\"ONE\": 1.0, \"HALF\": 2", {"V-DUP", "constants.HALF", NULL}},
        {"{\"buf\": \"x\"}",
         "{\"buf\": \"x\", \"buf\": \"x\"}",
         {"V-DUP", "programs.step.calls[0] (l0.attn) arg 2.buf", NULL}},
        {"\"at\": 40,", "\"at\": 40, \"at\": 40,", {"V-DUP", L0 " arg 6 field 6.at", NULL}},
        {"\"ep\": 4", "\"ep\": 4, \"ep\": 4", {"V-DUP", "topology.groups.ep", NULL}},
        {"[{\"add\": [\"b\", 1]}, 2]",
         "[{\"add\": [\"b\", 1], \"add\": 3}, 2]",
         {"V-DUP", L0 ".grid[1].mul[0].add", NULL}},
    };
    RUN_REFUSED(edits);
}

// Of a repeated member only the first is read; what is wrong within the others is their keys alone.
static void test_repeated_keys_within_repeated_members(void **state)
{
    (void)state;
    static const struct expected_error errors[] = {
        {"V-DUP", "vars.r.max", NULL},
        {"V-DUP", "vars.r.max.max", NULL},
        {"V-DUP", "vars.r.max", NULL},
    };
    char *text = maximal_text();
    char *edited = text_replaced(text, "{\"max\": 8,",
                                 "{\"max\": 8, \"max\": {\"max\": 1, \"max\": 1e99}, \"max\": [],");
    assert_refused(edited, strlen(edited), errors, 3);
    free(edited);
    free(text);
}

// More keys than are compared one by one, with repetitions before and after that limit.
static void test_repeated_keys_of_a_large_object(void **state)
{
    (void)state;
    char text[4096] = "{\"schema_version\":7,\"model\":\"\",\"buffers\":{},\"modules\":{},"
                      "\"ops\":{},\"programs\":{},\"vars\":{";
    struct expected_error errors[40];
    static char places[40][16];
    size_t count = 0, used = strlen(text);
    for (int i = 0; i < 40; i++) {
        int name = i % 5 == 4 ? i - 3 : i;
        used += (size_t)snprintf(text + used, sizeof text - used, "\"v%d\":{\"max\":1},", name);
        if (name == i)
            continue;
        snprintf(places[count], sizeof places[count], "vars.v%d", name);
        errors[count] = (struct expected_error){"V-DUP", places[count], NULL};
        count++;
    }
    snprintf(text + used, sizeof text - used, "\"last\":{\"max\":1}}}");
    assert_refused(text, strlen(text), errors, count);
}

static void test_unknown_keys(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"chat\": {", "\"chats\": 1, \"chat\": {", {"V-KEY", "chats", "did you mean \"chat\""}},
        {"\"chat\": {", "\"$schema\": 1, \"chat\": {", {"V-KEY", "$schema", "its keys are"}},
        {"\"chat\": {", "\"\": 1, \"chat\": {", {"V-KEY", "\"\"", NULL}},
        {"\"tool_parser\"", "\"tool-parser\"", {"V-KEY", "chat.tool-parser", "tool_parser"}},
        {"\"max\": 128", "\"maxx\": 128", {"V-KEY", "vars.n.maxx", "\"max\""}},
        {"\"groups\": {\"tp\"", "\"group\": {\"tp\"", {"V-KEY", "topology.group", "\"groups\""}},
        {"\"stage\": 1", "\"stage\": 1, \"x\": [{\"a\": [1, 2]}, null]", {"V-KEY", "cut.x", NULL}},
        {"\"bytes\": 4096", "\"byte\": 4096", {"V-KEY", "states.flat.byte", "\"bytes\""}},
        {"\"by\": \"heads\",",
         "\"by\": \"heads\", \"to\": 1,",
         {"V-KEY", "states.ssm.shard.to", NULL}},
        {"\"shape\": [0, 64],",
         "\"shape\": [0, 64], \"span\": 1,",
         {"V-KEY", "states.host.host.span", NULL}},
        {"\"monotone\": true",
         "\"monoton\": true",
         {"V-KEY", "buffers.token.domain.monoton", "\"monotone\""}},
        {"\"kind\": \"carry\", \"export\"",
         "\"kind\": \"carry\", \"exported\"",
         {"V-KEY", "buffers.c.exported", "\"export\""}},
        {"\"cols\": null", "\"columns\": null", {"V-KEY", "buffers.w.bind[0].columns", NULL}},
        {"\"ranges\": [[0, 32]",
         "\"range\": [[0, 32]",
         {"V-KEY", "buffers.w.bind[1].cols.range", "\"ranges\""}},
        {"\"tensors\": [\"w0\"",
         "\"tensor\": [\"w0\"",
         {"V-KEY", "buffers.w.bind[1].tensor.tensor", "\"tensors\""}},
        {"\"rows\": 16", "\"row\": 16", {"V-KEY", "buffers.w.bind[2].interleave.row", "\"rows\""}},
        {"\"source\": \"hf", "\"src\": 1, \"source\": \"hf", {"V-KEY", "modules.k.src", NULL}},
        {"\"impl\": {\n", "\"name\": 1, \"impl\": {\n", {"V-KEY", "ops.full.name", NULL}},
        {"\"scratch\": {\"tmp\"",
         "\"scrach\": {\"tmp\"",
         {"V-KEY", "ops.full.impl.scrach", "\"scratch\""}},
        {"\"dtype\": \"i8\"",
         "\"align\": 1, \"dtype\": \"i8\"",
         {"V-KEY", "ops.full.impl.scratch.tmp.align", NULL}},
        {"\"module\": \"k\", \"entry\": \"first\"",
         "\"modul\": \"k\", \"entry\": \"first\"",
         {"V-KEY", L0 ".modul", "\"module\""}},
        {"\"min\": 2,", "\"minimum\": 2,", {"V-KEY", L0 ".when.minimum", NULL}},
        {"\"tile\": 1", "\"tiles\": 1", {"V-KEY", L2 ".algo.tiles", "\"tile\""}},
        {"\"size\": 256,", "\"size\": 256, \"name\": 1,", {"V-KEY", L0 " arg 6.name", NULL}},
        {"\"width\": null", "\"widht\": null", {"V-KEY", L0 " arg 6 field 0.widht", "\"width\""}},
        {"\"wrap\": true",
         "\"wraps\": true",
         {"V-KEY", L0 " arg 6 field 9.tensormap.wraps", "\"wrap\""}},
        {"\"calls\": [], \"derive\"",
         "\"steps\": 1, \"calls\": [], \"derive\"",
         {"V-KEY", "programs.prepare.steps", NULL}},
        {"\"context\": \"b\"",
         "\"contexts\": \"b\"",
         {"V-KEY", "programs.step.batch.contexts", "\"context\""}},
        {"\"label\": null,", "\"note\": null,", {"V-KEY", C1 ".note", NULL}},
        {"\"offset\": 128", "\"offest\": 128", {"V-KEY", C0 " arg 1.offest", "\"offset\""}},
        {"{\"clamp\": [\"n\", 4, \"HIDDEN\"]}",
         "{\"clamp\": [\"n\", 4, 4], \"x\": 1}",
         {"V-KEY", L0 " arg 6 field 7.expr.x", NULL}},
        {"{\"mul\": [\"n\", 4]}", "{\"sub\": [\"n\", 4]}", {"V-KEY", L0 ".shared_mem.sub", NULL}},
    };
    RUN_REFUSED(edits);
}

static void test_forms(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"{\"buf\": \"x\"}", "{}", {"V-KEY", C0 " arg 2", "found none of them"}},
        {"{\"buf\": \"x\"}",
         "{\"buf\": \"x\", \"i32\": 1}",
         {"V-KEY", C0 " arg 2", "\"u8\" or \"rank\"; found \"buf\" beside \"i32\""}},
        {"{\"var\": \"n\"}, {\"expr\"",
         "{\"var\": \"n\", \"offset\": 0}, {\"expr\"",
         {"V-KEY", C0 " arg 3", "only beside \"buf\" or \"state\""}},
        {"{\"u8\": 255}", "{\"u8\": 255, \"offset\": 0}", {"V-KEY", L0 " arg 5.offset", NULL}},
        {"{\"u8\": 255}", "{}", {"V-KEY", L0 " arg 5", "\"rank\" or \"pack\""}},
        {"{\"u8\": 255}", "{\"u8\": 255, \"param\": 1}", {"V-KEY", L0 " arg 5", "beside"}},
        {"{\"u8\": 255}", "{\"var\": \"n\"}", {"V-KEY", L0 " arg 5.var", NULL}},
        {"{\"at\": 40, \"var\": \"n\"}", "{\"at\": 40}", {"V-KEY", L0 " arg 6 field 6", "none"}},
        {"{\"at\": 40, \"var\": \"n\"}",
         "{\"at\": 40, \"var\": \"n\", \"i32\": 3}",
         {"V-KEY", L0 " arg 6 field 6", "\"i32\" beside \"var\""}},
        {"{\"at\": 40, \"var\": \"n\"}",
         "{\"at\": 40, \"buf\": \"n\"}",
         {"V-KEY", L0 " arg 6 field 6.buf", NULL}},
        {"{\"mul\": [\"n\", 4]}", "{}", {"V-KEY", L0 ".shared_mem", "\"add\" or \"clamp\""}},
        {"{\"mul\": [\"n\", 4]}",
         "{\"mul\": [\"n\", 4], \"add\": [\"n\", 4]}",
         {"V-KEY", L0 ".shared_mem", "\"mul\" beside \"add\""}},
        {"\"pdl\": true,", "\"pdl\": true, \"algo\": null,", {"V-KEY", L0, "beside \"algo\""}},
        {"\"algo\": null}",
         "\"algo\": null, \"block\": [1, 1, 1]}",
         {"V-KEY", "ops.full.impl.launches[3]", "\"block\" beside \"algo\""}},
        {"\"when\": {\"var\": \"b\", \"min\": null}",
         "\"pdl\": false",
         {"V-KEY", L2, "\"pdl\" beside"}},
        {"\"algo\": null}",
         "\"pdl\": false}",
         {"V-KEY", "ops.full.impl.launches[3]", "beside an entry \"extern:NAME\""}},
        {"\"by\": \"position\",",
         "\"by\": \"position\", \"segments\": [],",
         {"V-KEY", "states.kv.shard", "only in a shard by heads"}},
    };
    RUN_REFUSED(edits);
}

static void test_missing_keys(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"schema_version\": 7,", "", {"V-TYPE", "", "\"schema_version\", which is missing"}},
        {"\"model\": \"maximal\",", "", {"V-TYPE", "", "\"model\""}},
        {"{\"max\": 8, \"axis\": \"ranks\"}", "{\"axis\": \"ranks\"}", {"V-TYPE", "vars.r", "max"}},
        {"{\"groups\": {\"tp\": 2, \"ep\": 4}}", "{}", {"V-TYPE", "topology", "groups"}},
        {"\"id\": \"c0ffee\", ", "", {"V-TYPE", "cut", "\"id\""}},
        {"\"by\": \"position\", ", "", {"V-TYPE", "states.kv.shard", "\"by\""}},
        {", \"segments\": [[4, 32], [2, \"HIDDEN\"]]",
         "",
         {"V-TYPE", "states.ssm.shard", "segments"}},
        {"\"dtype\": \"fp8e4m3\", ", "", {"V-TYPE", "states.host.host", "dtype"}},
        {"\"shape\": [\"n\"], \"kind\": \"workspace\"",
         "\"kind\": \"workspace\"",
         {"V-TYPE", "buffers.x", "shape"}},
        {", \"kind\": \"workspace\"", "", {"V-TYPE", "buffers.x", "kind"}},
        {"\"tensor\": \"gate\", ", "", {"V-TYPE", "buffers.w.bind[2]", "tensor"}},
        {",\n                                              \"rows\": 16",
         "",
         {"V-TYPE", "buffers.w.bind[2].interleave", "rows"}},
        {"\"cols\": {\"group\": \"tp\", ",
         "\"cols\": {",
         {"V-TYPE", "buffers.w.bind[1].cols", "group"}},
        {"\"source\": \"hf:org/repo/k.cubin@main\",", "", {"V-TYPE", "modules.k", "source"}},
        {"{\"params\": [], \"impl\"", "{\"impl\"", {"V-TYPE", "ops.empty", "params"}},
        {"{\"launches\": []}", "{}", {"V-TYPE", "ops.empty.impl", "launches"}},
        {"\"entry\": \"first\", ", "", {"V-TYPE", L0, "\"entry\""}},
        {"\"module\": \"k\", \"entry\": \"first\"",
         "\"entry\": \"first\"",
         {"V-TYPE", L0, "\"module\""}},
        {"\"block\": [32, \"HIDDEN\", 1],", "", {"V-TYPE", L0, "\"block\""}},
        {" \"grid\": [\"n\", \"b\", 1],", "", {"V-TYPE", "ops.full.impl.launches[1]", "\"grid\""}},
        {"{\"var\": \"b\", \"min\": null}", "{}", {"V-TYPE", L2 ".when", "\"var\""}},
        {"\"split_k\": -3, ", "", {"V-TYPE", L2 ".algo", "split_k"}},
        {"\"size\": 256, ", "", {"V-TYPE", L0 " arg 6", "\"size\""}},
        {"\"at\": 40, ", "", {"V-TYPE", L0 " arg 6 field 6", "\"at\""}},
        {"\"dtype\": \"tf32\", ", "", {"V-TYPE", L0 " arg 6 field 9.tensormap", "dtype"}},
        {"\"calls\": [], \"derive\"", "\"derive\"", {"V-TYPE", "programs.prepare", "calls"}},
        {"\"rows\": \"n\", ", "", {"V-TYPE", "programs.step.batch", "rows"}},
        {"\"op\": \"full\", \"label\": \"l0.attn\"",
         "\"label\": \"l0.attn\"",
         {"V-TYPE", C0, "\"op\""}},
        {"\"algo\": {\"id\": -1, \"tile\": 1,",
         "\"algo\": {\"id\": -1,",
         {"V-TYPE", L2 ".algo", "tile"}},
    };
    RUN_REFUSED(edits);
}

static void test_types(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"model\": \"maximal\"", "\"model\": 5", {"V-TYPE", "model", "a string, found 5"}},
        {"\"model\": \"maximal\"", "\"model\": null", {"V-TYPE", "model", "null"}},
        {"\"max\": 128", "\"max\": null", {"V-TYPE", "vars.n.max", "null"}},
        {"\"max\": 128", "\"max\": [1, {\"a\": 2}]", {"V-TYPE", "vars.n.max", "an array of 2"}},
        {"\"max\": 128", "\"max\": true", {"V-TYPE", "vars.n.max", "a number, found true"}},
        {"\"axis\": \"rows\"", "\"axis\": \"row\"", {"V-TYPE", "vars.n.axis", "mean \"rows\""}},
        {"\"axis\": \"rows\"", "\"axis\": \"none\"", {"V-TYPE", "vars.n.axis", NULL}},
        {"{\"max\": 8, \"axis\": \"ranks\"}", "8", {"V-TYPE", "vars.r", "an object, found 8"}},
        {"{\"groups\": {\"tp\": 2, \"ep\": 4}}", "[]", {"V-TYPE", "topology", "an object"}},
        {"{\"tp\": 2, \"ep\": 4}", "null", {"V-TYPE", "topology.groups", "null"}},
        {"{\"tp\": 2, \"ep\": 4}", "7", {"V-TYPE", "topology.groups", "named entries"}},
        {"\"tp\": 2", "\"tp\": {}", {"V-TYPE", "topology.groups.tp", "a number"}},
        {"\"hermes\"", "false", {"V-TYPE", "chat.tool_parser", "found false"}},
        {"\"bytes\": 4096",
         "\"bytes\": null",
         {"V-TYPE", "states.flat.bytes", "leave the key out"}},
        {"\"by\": \"heads\"", "\"by\": \"head\"", {"V-TYPE", "states.ssm.shard.by", "\"heads\""}},
        {"[4, 32]", "[4, 32, 1]", {"V-TYPE", "states.ssm.shard.segments[0]", "array of 2"}},
        {"[0, 64]", "{}", {"V-TYPE", "states.host.host.shape", "an array"}},
        {"\"dtype\": \"f16\"", "\"dtype\": \"fp16\"", {"V-TYPE", "buffers.x.dtype", "\"f16\""}},
        {"\"kind\": \"carry\"", "\"kind\": \"carried\"", {"V-TYPE", "buffers.c.kind", NULL}},
        {"\"fill\": \"token\"", "\"fill\": \"none\"", {"V-TYPE", "buffers.token.fill", NULL}},
        {"\"placement\": \"host\"",
         "\"placement\": null",
         {"V-TYPE", "buffers.w.placement", "null"}},
        {"\"placement\": \"host\"", "\"placement\": 1", {"V-TYPE", "buffers.w.placement", NULL}},
        {"\"export\": true", "\"export\": 1", {"V-TYPE", "buffers.logits.export", "true or false"}},
        {"\"export\": true", "\"export\": null", {"V-TYPE", "buffers.logits.export", "null"}},
        {"\"bind\": []", "\"bind\": null", {"V-TYPE", "buffers.io.bind", "null"}},
        {"\"of\": \"logits\"", "\"of\": 3", {"V-TYPE", "buffers.peers.of", NULL}},
        {"\"shape\": [2]", "\"shape\": [null]", {"V-TYPE", "buffers.peers.shape[0]", "a number"}},
        {"\"shape\": [2]", "\"shape\": [[2]]", {"V-TYPE", "buffers.peers.shape[0]", NULL}},
        {"\"stride\": 16", "\"stride\": null", {"V-TYPE", "buffers.slot.domain.stride", "null"}},
        {"\"monotone\": true",
         "\"monotone\": null",
         {"V-TYPE", "buffers.token.domain.monotone", NULL}},
        {"\"min\": \"HALF\"", "\"min\": []", {"V-TYPE", "buffers.temperature.domain.min", NULL}},
        {"\"tensor\": \"up\"", "\"tensor\": 1", {"V-TYPE", "buffers.w.bind[0].tensor", "its name"}},
        {"\"tensor\": \"up\"", "\"tensor\": null", {"V-TYPE", "buffers.w.bind[0].tensor", "null"}},
        {"[\"w0\", \"w1\"]",
         "[\"w0\", 1]",
         {"V-TYPE", "buffers.w.bind[1].tensor.tensors[1]", NULL}},
        {"[0, \"HIDDEN\"]", "[0]", {"V-TYPE", "buffers.w.bind[0].rows", "an array of 2"}},
        {"[0, \"HIDDEN\"]", "\"HIDDEN\"", {"V-TYPE", "buffers.w.bind[0].rows", "a range"}},
        {"[0, 32]", "[0, 32, 64]", {"V-TYPE", "buffers.w.bind[1].cols.ranges[0]", NULL}},
        {"\"impl\": {\"launches\": []}", "\"impl\": []", {"V-TYPE", "ops.empty.impl", NULL}},
        {"\"launches\": []",
         "\"launches\": [null]",
         {"V-TYPE", "ops.empty.impl.launches[0]", NULL}},
        {"[32, \"HIDDEN\", 1]", "[32, 1]", {"V-TYPE", L0 ".block", "threads in x, y and z"}},
        {"[\"n\", \"b\", 1]",
         "[\"n\", \"b\", 1, 1]",
         {"V-TYPE", "ops.full.impl.launches[1].grid", "found an array of 4"}},
        {"[\"n\", \"b\", 1]",
         "[\"n\", \"b\", null]",
         {"V-TYPE", "ops.full.impl.launches[1].grid[2]", "an expression"}},
        {"[2, 1, 1]", "[2]", {"V-TYPE", L0 ".cluster", "array of 3"}},
        {"\"pdl\": true", "\"pdl\": null", {"V-TYPE", L0 ".pdl", "null"}},
        {"[{\"add\": [\"b\", 1]}, 2]", "[2]", {"V-TYPE", L0 ".grid[1].mul", "a factor"}},
        {"[\"n\", 4, \"HIDDEN\"]", "[\"n\", 4]", {"V-TYPE", L0 " arg 6 field 7.expr.clamp", NULL}},
        {"[\"n\", 31999]", "31999", {"V-TYPE", "buffers.token.domain.max.add", NULL}},
        {"{\"i64\": 6}", "{\"i64\": null}", {"V-TYPE", C1 " arg 2.i64", "a value is needed"}},
        {"{\"buf\": \"x\"}", "\"x\"", {"V-TYPE", C0 " arg 2", "an object, found \"x\""}},
        {"\"dtype\": \"tf32\"",
         "\"dtype\": \"f8\"",
         {"V-TYPE", L0 " arg 6 field 9.tensormap.dtype", "u4packed"}},
        {"\"strides\": [256]",
         "\"strides\": null",
         {"V-TYPE", L0 " arg 6 field 9.tensormap.strides", "null"}},
        {"\"calls\": [], \"derive\": true",
         "\"calls\": {}, \"derive\": true",
         {"V-TYPE", "programs.prepare.calls", "an array, found an object"}},
        {"\"once\": true", "\"once\": \"yes\"", {"V-TYPE", "programs.init.once", NULL}},
        {"\"label\": \"l0.attn\"",
         "\"label\": 0",
         {"V-TYPE", "programs.step.calls[0].label", "a string"}},
    };
    RUN_REFUSED(edits);
}

static void test_params(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "u32",
        "i32 ",
        " i32",
        "I32",
        "tensormap",
        "bytes",
        "bytes<>",
        "bytes<0>",
        "bytes<01>",
        "bytes<-1>",
        "bytes<8",
        "bytes<8>>",
        "bytes<HIDDEN>",
        "bytes<4294967296>",
        "bytes<99999999999999999999999999>",
        "state",
        "in",
        "in ",
        "in  state",
        "in state ",
        "in\\tstate",
        "buffer<bf16>",
        "in buffer",
        "in buffer<>",
        "in buffer<bf16",
        "in buffer<bf16>x",
        "in buffer<bf17>",
        "in buffer <bf16>",
        "in out buffer<bf16>",
        "inout state<bf16>",
    };
    char *text = maximal_text();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char new[80];
        snprintf(new, sizeof new, "\"%s\", \"out state\"", wrong[i]);
        char *edited = text_replaced(text, "\"out state\"", new);
        const struct expected_error error = {"V-TYPE", "ops.full.params[1]", "is no parameter"};
        assert_refused(edited, strlen(edited), &error, 1);
        free(edited);
    }
    char *edited = text_replaced(text, "\"out state\"", "\"bytes<4294967295>\"");
    struct kern_manifest *manifest = parse_accepted(edited, strlen(edited));
    uint32_t full = kern_names_find(&manifest->op_names, "full");
    assert_int_equal(manifest->ops[full].params[1].bytes, UINT32_MAX);
    kern_manifest_destroy(manifest);
    free(edited);
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"flat\"", "\"\"", {"V-NAME", "states.\"\"", "a state is not empty"}},
        {"\"flat\"", "\"a\\nb\"", {"V-NAME", "states.\"a?b\"", "control characters"}},
        {"\"flat\"", "\"\\u007f\"", {"V-NAME", "states.\"?\"", NULL}},
        {"\"flat\"", "\"\\u0085\"", {"V-NAME", "states.\"??\"", "control characters"}},
        {"\"tmp\": {", "\"\\u001b[1m\": {", {"V-NAME", "ops.full.impl.scratch.\"?[1m\"", NULL}},
        {"\"ep\": 4", "\"\": 4", {"V-NAME", "topology.groups.\"\"", NULL}},
    };
    RUN_REFUSED(edits);
    char *text = maximal_text();
    char *edited = text_replaced(text, "\"flat\"", "\"\xc3\xa9 \\ud83d\\ude00 \xe4\xb8\xad\"");
    struct kern_manifest *manifest = parse_accepted(edited, strlen(edited));
    assert_int_not_equal(
        kern_names_find(&manifest->state_names, "\xc3\xa9 \xf0\x9f\x98\x80 \xe4\xb8\xad"),
        KERN_NONE);
    kern_manifest_destroy(manifest);
    free(edited);
    free(text);
}

// Errors of every kind at once: all of them are reported, in the order of the document, whichever
// part of the parse found them.
static void test_everything_is_collected_in_order(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema_version\": 8, \"constants\": {\"BAD\": true},\n"
        " \"vars\": {\"n\": {\"max\": 1.5, \"max\": [1, 2, 3]}, \"m\": {}},\n"
        " \"bufers\": {\"a\": [1, [2]]},\n"
        " \"modules\": {\"k\": {\"source\": 1, \"source\": 2, \"sha256\": \"\"}},\n"
        " \"ops\": {\"f\": {\"params\": [\"i32\", \"u32\"], \"impl\": {\"launches\": [{}]}}},\n"
        " \"programs\": {\"p\": {\"calls\": [\n"
        "   {\"args\": [{\"i32\": \"BAD\"}, {\"u8\": 300}, 1, {\"a\": {}, \"b\": []}],\n"
        "    \"op\": \"f\", \"label\": \"x\"}]}}}";
    static const struct expected_error errors[] = {
        {"V-TYPE", "", "\"model\""},
        {"V-VERSION", "schema_version", NULL},
        {"V-CONST", "constants.BAD", NULL},
        {"V-NUM", "vars.n.max", NULL},
        {"V-DUP", "vars.n.max", NULL},
        {"V-TYPE", "vars.m", "\"max\""},
        {"V-KEY", "bufers", "\"buffers\""},
        {"V-TYPE", "modules.k.source", NULL},
        {"V-DUP", "modules.k.source", NULL},
        {"V-TYPE", "ops.f.params[1]", NULL},
        {"V-TYPE", "ops.f.impl.launches[0]", "\"entry\""},
        {"V-NUM", "programs.p.calls[0] (x) arg 1.u8", NULL},
        {"V-TYPE", "programs.p.calls[0] (x) arg 2", NULL},
        {"V-KEY", "programs.p.calls[0] (x) arg 3.a", NULL},
        {"V-KEY", "programs.p.calls[0] (x) arg 3.b", NULL},
    };
    assert_refused(text, sizeof text - 1, errors, sizeof errors / sizeof *errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeated_keys),
        cmocka_unit_test(test_repeated_keys_within_repeated_members),
        cmocka_unit_test(test_repeated_keys_of_a_large_object),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_everything_is_collected_in_order),
    };
    return cmocka_run_group_tests_name("manifest_parse_refuse", tests, NULL, NULL);
}
