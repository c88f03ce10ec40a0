// SPDX-License-Identifier: Apache-2.0
//
// What a cut refuses and what its stages look like.
#include "manifest/cut.h"
#include "manifest/write.h"
#include "tests/text.h"

#define EDITS 4
#define ERRORS 5
#define POINTS 4

// Two layers with a state each; tables that a once and a derive program make. Single quotes stand
// for double ones.
#define OP(name, params, grid)                                                                     \
    "'" name "': {'params': [" params "], 'impl': {'launches': [{'module': 'k', 'entry': 'g', "    \
    "'block': [32, 1, 1], 'grid': ['" grid "', 1, 1]}]}}"
#define BUFFER(name, kind) "'" name "': {'dtype': 'i32', 'shape': [8], 'kind': '" kind "'}"
#define WEIGHT(name, kind)                                                                         \
    "'" name "': {'dtype': 'i32', 'shape': [8], 'kind': '" kind "', 'bind': [{'tensor': '" name    \
    "'}]}"
#define CALL2(op, a, b) "{'op': '" op "', 'args': [{'buf': '" a "'}, {'buf': '" b "'}]}"
#define CALL3(op, label, a, b, c)                                                                  \
    "{'op': '" op "', 'label': '" label "', 'args': [{'buf': '" a "'}, {'buf': '" b                \
    "'}, {'buf': '" c "'}]}"
#define ATTEND(label, state)                                                                       \
    "{'op': 'attend', 'label': '" label "', 'args': [{'state': '" state                            \
    "'}, {'buf': 'pages'}, {'buf': 'x'}]}"

static const char base[] =
    "{'schema_version': 7, 'model': 'm', "
    "'vars': {'n': {'max': 16, 'axis': 'rows'}, 'g': {'max': 4, 'axis': 'groups'}}, "
    "'states': {'kv0': {'bytes_per_token': 64}, 'kv1': {'bytes_per_token': 32}}, "
    "'buffers': {" BUFFER(
        "ids",
        "input") ", "
                 "'pages': {'dtype': 'i32', 'shape': ['g', 2], 'kind': "
                 "'input', "
                 "'domain': {'index_into': 'kv0', 'stride': "
                 "16}}, " WEIGHT("w0", "weight") ", " WEIGHT(
                     "w1",
                     "weigh"
                     "t") ", " WEIGHT("w2",
                                      "weight") ", " WEIGHT("w3",
                                                            "weight") ", " WEIGHT("w4",
                                                                                  "weight") ","
                                                                                            " " WEIGHT("src",
                                                                                                       "sour"
                                                                                                       "ce") ","
                                                                                                             " " BUFFER(
                                                                                                                 "x", "workspace") ", " BUFFER("z", "workspace") ", " BUFFER("t", "workspace") ", " BUFFER("rot", "carry") ", " BUFFER("wd", "carry") ", " BUFFER("y", "output") "}, "
                                                                                                                                                                                                                                                                                 "'modules': {'k': {'source': 'k.cubin', 'sha256': "
                                                                                                                                                                                                                                                                                 "'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'}, "
                                                                                                                                                                                                                                                                                 "'j': {'source': 'j.cubin', 'sha256': "
                                                                                                                                                                                                                                                                                 "'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'}}, "
                                                                                                                                                                                                                                                                                 "'ops': {" OP("mix", "'in buffer<i32>', 'in buffer<i32>', 'out buffer<i32>'", "g") ", " OP("attend",
                                                                                                                                                                                                                                                                                                                                                                            "'inout state', 'in buffer<i32>', 'inout buffer<i32>'",
                                                                                                                                                                                                                                                                                                                                                                            "g") ", " OP("copy", "'in buffer<i32>', 'out buffer<i32>'", "n") ", "
                                                                                                                                                                                                                                                                                                                                                                                                                                             "'clear': {'params': ['out state'], 'impl': {'launches': [{'module': 'j', 'entry': 'g', "
                                                                                                                                                                                                                                                                                                                                                                                                                                             "'block': [32, 1, 1], 'grid': ['n', 1, 1]}]}}}, "
                                                                                                                                                                                                                                                                                                                                                                                                                                             "'programs': {"
                                                                                                                                                                                                                                                                                                                                                                                                                                             "'decode': {'batch': {'groups': 1, 'rows': 'n'}, 'calls': [" CALL3("mix",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "embed",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "ids",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "w0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                "x") ", " // 0
    ATTEND("l0.attend", "kv0") ", "               // 1
    CALL3("mix", "l0.up", "x", "w1", "z") ", "    // 2
    CALL3("mix", "l0.down", "z", "rot", "x") ", " // 3
    ATTEND("l1.attend", "kv1") ", "               // 4
    CALL3("mix", "l1.up", "x", "w2", "z") ", "    // 5
    CALL3("mix", "l1.down", "z", "wd", "x") ", "  // 6
    CALL3("mix", "head", "x", "w0",
          "y") "]}, " // 7
               "'setup': {'once': true, 'calls': [" CALL2("copy", "w3", "t") ", " CALL2(
                   "copy", "t",
                   "rot") ", " CALL2("copy", "w4",
                                     "t") ", "
                                          "{'op': 'clear', 'args': [{'state': 'kv1'}]}]}, "
                                          "'prepare': {'derive': true, 'calls': [" CALL2(
                                              "copy", "src", "wd") "]}}}";

static char *text_of(const struct text_edit edits[EDITS])
{
    char *text = text_edited(base, edits, edits ? EDITS : 0);
    text_swap(text, '\'', '"');
    return text;
}

static struct kern_manifest *load(const struct text_edit edits[EDITS])
{
    struct kern_diag diag = {0};
    char *text = text_of(edits);
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "m.json", &diag);
    if (!manifest || !kern_manifest_verify(manifest, &diag)) {
        kern_diag_print(&diag, stderr, 20);
        fail_msg("the manifest to be cut is refused");
    }
    kern_diag_clear(&diag);
    free(text);
    return manifest;
}

struct refusal {
    const char *name;
    uint64_t points[POINTS];
    size_t n_points;
    struct text_edit edits[EDITS];
    struct {
        const char *place;
        const char *says; // a part of the message
    } errors[ERRORS];     // all of them, in their order; V-CUT, save of a stage
};

#define LABELLED(index, label) "programs.decode.calls[" #index "] (" label ")"
#define HEAD CALL3("mix", "head", "x", "w0", "y")
#define EMBED CALL3("mix", "embed", "ids", "w0", "x")
#define CARRY "'rot': {'dtype': 'i32', 'shape': [8], 'kind': 'carry'}"

static const struct refusal refusals[] = {
    {"a topology",
     {4},
     1,
     {{"'states'", "'topology': {'groups': {}}, 'states'"}},
     {{"topology", "a single rank"}}},
    {"no program to drive",
     {4},
     1,
     {{"'batch': {'groups': 1, 'rows': 'n'}, ", ""}},
     {{"programs", "no program has a batch"}}},
    {"no point", {0}, 0, {{0}}, {{"points", "there is none"}}},
    {"a point of 0", {0, 4}, 2, {{0}}, {{"points[0]", "a point of 0"}}},
    {"the same point twice", {4, 4}, 2, {{0}}, {{"points[1]", "4 after 4"}}},
    {"points that fall", {4, 2}, 2, {{0}}, {{"points[1]", "2 after 4"}}},
    {"a point behind the last call", {8}, 1, {{0}}, {{"programs.decode", "8 calls"}}},
    {"a point in only one of the programs",
     {4},
     1,
     {{"'setup'", "'prefill': {'batch': {'groups': 1, 'rows': 'n'}, 'calls': [" EMBED
                  ", " CALL3("mix", "end", "x", "w1", "y") "]}, 'setup'"}},
     {{"programs.prefill", "it has 2 calls, none of them behind the point 4"}}},
    {"all mistakes of a list of points",
     {0, 9, 9},
     3,
     {{0}},
     {{"points[0]", ""}, {"points[2]", ""}, {"programs.decode", ""}}},
    {"what crosses is the caller's",
     {4},
     1,
     {{BUFFER("x", "workspace"), BUFFER("x", "inout")}},
     {{LABELLED(4, "l1.attend"), "\"x\" crosses the cut at 4: it is needed here, and "
                                 "programs.decode.calls[3] (l0.down) wrote it; only a workspace "
                                 "crosses, and it is of kind inout"}}},
    {"what crosses is kept",
     {4},
     1,
     {{BUFFER("x", "workspace"), BUFFER("x", "carry")}},
     {{LABELLED(4, "l1.attend"), "of kind carry"}}},
    {"an output before the last stage",
     {4},
     1,
     {{CALL3("mix", "l0.up", "x", "w1", "z"),
       CALL3("mix", "l0.up", "x", "w1", "z") ", " CALL3("mix", "early", "x", "w1", "y")}},
     {{LABELLED(3, "early"), "the output \"y\" is written on stage 0; only the last stage, 1"}}},
    {"a carry before the last stage",
     {4},
     1,
     {{CARRY, CARRY ", " BUFFER("kept", "carry")},
      {CALL3("mix", "l0.up", "x", "w1", "z"),
       CALL3("mix", "l0.up", "x", "w1", "z") ", " CALL3("mix", "early", "x", "w1", "kept")}},
     {{LABELLED(3, "early"), "the carry \"kept\" is written on stage 0"}}},
    {"a carry that travels back",
     {4},
     1,
     {{CARRY, CARRY ", " BUFFER("kept", "carry")},
      {EMBED, CALL3("mix", "embed", "ids", "kept", "x")},
      {HEAD, HEAD ", " CALL2("copy", "x", "kept")}},
     {{LABELLED(0, "embed"), "the carry \"kept\" is read on stage 0 and written on stage 1"}}},
    {"a state of two stages",
     {4},
     1,
     {{ATTEND("l1.attend", "kv1"), ATTEND("l1.attend", "kv0")}},
     {{LABELLED(4, "l1.attend"), "the state \"kv0\" at offset 0 is touched here on stage 1, and by "
                                 "programs.decode.calls[1] (l0.attend) on stage 0"}}},
    {"a buffer that passes through",
     {4, 6},
     2,
     {{BUFFER("t", "workspace"), BUFFER("t", "workspace") ", " BUFFER("far", "workspace")},
      {EMBED, EMBED ", " CALL3("mix", "skip", "ids", "w1", "far")},
      {HEAD, CALL3("mix", "head", "x", "far", "y")}},
     {{"buffers.far", "only passes through stage 1: calls 4 to 5"}}},
    {"several at once",
     {4},
     1,
     {{ATTEND("l1.attend", "kv1"), ATTEND("l1.attend", "kv0")},
      {BUFFER("z", "workspace"), BUFFER("z", "inout")},
      {CALL3("mix", "l0.up", "x", "w1", "z"),
       CALL3("mix", "l0.up", "x", "w1", "z") ", " CALL3("mix", "early", "x", "w1", "y")}},
     {{LABELLED(3, "early"), "the output"},
      {LABELLED(4, "l0.down"), "\"z\" crosses"},
      {LABELLED(5, "l1.attend"), "the state"}}},
    {"a stage that does not verify by itself",
     {1},
     1,
     {{OP("mix", "'in buffer<i32>', 'in buffer<i32>', 'out buffer<i32>'", "g"),
       OP("mix", "'in buffer<i32>', 'in buffer<i32>', 'out buffer<i32>'", "n")}},
     {{"stage 0: programs.decode.batch", "\"groups\" is missing"},
      {"stage 0", "up to the point 1, does not; cut elsewhere"}}},
};

static bool as_said(const struct refusal *refusal, const struct kern_diag *diag)
{
    size_t count = 0;
    while (count < ERRORS && refusal->errors[count].place)
        count++;
    if (diag->count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct kern_diag_entry *entry = &diag->entries[i];
        if (strcmp(entry->place, refusal->errors[i].place) != 0 ||
            !strstr(entry->text, refusal->errors[i].says) || entry->code != KERN_EXIT_MANIFEST ||
            (strcmp(entry->rule, "V-CUT") == 0) == (strncmp(entry->place, "stage 0:", 8) == 0))
            return false;
    }
    return true;
}

static void every_refusal_has_its_message(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        struct kern_diag diag = {0};
        struct kern_manifest *manifest = load(refusal->edits);
        struct kern_manifest **stages =
            kern_manifest_cut(manifest, refusal->points, refusal->n_points, &diag);
        if (stages || !as_said(refusal, &diag)) {
            print_message("%s: found%s\n", refusal->name, diag.count ? ":" : " nothing");
            kern_diag_print(&diag, stderr, 20);
            wrong++;
        }
        kern_manifest_stages_destroy(stages, refusal->n_points + 1);
        kern_manifest_destroy(manifest);
        kern_diag_clear(&diag);
    }
    assert_int_equal(wrong, 0);
}

static struct kern_manifest **cut(const struct kern_manifest *manifest, const uint64_t *points,
                                  size_t n_points)
{
    struct kern_diag diag = {0};
    struct kern_manifest **stages = kern_manifest_cut(manifest, points, n_points, &diag);
    if (!stages)
        kern_diag_print(&diag, stderr, 20);
    assert_non_null(stages);
    assert_int_equal(diag.count, 0);
    kern_diag_clear(&diag);
    return stages;
}

static void assert_has(const struct kern_names *names, uint32_t count, const char *list)
{
    char copy[256];
    uint32_t named = 0;
    assert_true(snprintf(copy, sizeof copy, "%s", list) < (int)sizeof copy);
    for (char *name = strtok(copy, " "); name; name = strtok(NULL, " "), named++)
        if (kern_names_find(names, name) == KERN_NONE)
            fail_msg("there is no \"%s\"", name);
    assert_int_equal(count, named);
}

static const struct kern_buffer *buffer_of(const struct kern_manifest *stage, const char *name)
{
    uint32_t index = kern_names_find(&stage->buffer_names, name);
    assert_true(index != KERN_NONE);
    return &stage->buffers[index];
}

static const struct kern_program *program_of(const struct kern_manifest *stage, const char *name)
{
    uint32_t index = kern_names_find(&stage->program_names, name);
    assert_true(index != KERN_NONE);
    return &stage->programs[index];
}

static void stages_have_what_their_calls_need(void **state)
{
    (void)state;
    const uint64_t points[] = {4};
    struct kern_manifest *whole = load(NULL);
    struct kern_manifest **stages = cut(whole, points, 1);
    const struct kern_manifest *first = stages[0], *last = stages[1];
    assert_has(&first->buffer_names, first->n_buffers, "ids pages w0 w1 w3 x z t rot");
    assert_has(&first->state_names, first->n_states, "kv0");
    assert_has(&first->op_names, first->n_ops, "mix attend copy");
    assert_has(&first->module_names, first->n_modules, "k");
    assert_has(&first->program_names, first->n_programs, "decode setup");
    assert_has(&last->buffer_names, last->n_buffers, "pages w0 w2 src x z wd y");
    assert_has(&last->state_names, last->n_states, "kv1");
    assert_has(&last->program_names, last->n_programs, "decode setup prepare");

    assert_int_equal(program_of(first, "decode")->n_calls, 4);
    assert_int_equal(program_of(last, "decode")->n_calls, 4);
    assert_string_equal(program_of(last, "decode")->calls[0].label, "l1.attend");
    // w3 to t, t to rot; not w4 to t, nor the state of the other stage.
    assert_int_equal(program_of(first, "setup")->n_calls, 2);
    assert_int_equal(program_of(last, "setup")->n_calls, 1);
    assert_string_equal(program_of(last, "setup")->calls[0].op.name, "clear");

    for (uint64_t i = 0; i < 2; i++) {
        assert_true(stages[i]->verified);
        assert_int_equal(stages[i]->cut->stage, i);
        assert_int_equal(stages[i]->cut->stages, 2);
    }
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);
}

static void what_crosses_is_declared_anew(void **state)
{
    (void)state;
    // x is rewritten by the second stage, only read by the last; z only read by the third.
    const uint64_t points[] = {4, 6, 7};
    struct kern_manifest *whole = load(NULL);
    struct kern_manifest **stages = cut(whole, points, 3);
    assert_int_equal(buffer_of(stages[0], "x")->kind, KERN_OUTPUT);
    assert_false(buffer_of(stages[0], "x")->exported);
    assert_int_equal(buffer_of(stages[0], "z")->kind, KERN_WORKSPACE);
    assert_int_equal(buffer_of(stages[1], "x")->kind, KERN_INOUT);
    assert_true(kern_manifest_arrives(stages[1], buffer_of(stages[1], "x")));
    assert_int_equal(buffer_of(stages[1], "z")->kind, KERN_OUTPUT);
    assert_int_equal(buffer_of(stages[2], "z")->kind, KERN_INPUT);
    assert_true(buffer_of(stages[2], "z")->exported);
    assert_int_equal(buffer_of(stages[2], "x")->kind, KERN_OUTPUT);
    assert_int_equal(buffer_of(stages[3], "x")->kind, KERN_INPUT);
    assert_true(kern_manifest_arrives(stages[3], buffer_of(stages[3], "x")));
    assert_int_equal(buffer_of(stages[3], "y")->kind, KERN_OUTPUT);
    assert_false(kern_manifest_arrives(stages[3], buffer_of(stages[3], "w0")));
    kern_manifest_stages_destroy(stages, 4);
    kern_manifest_destroy(whole);
}

static void domains_follow_the_states(void **state)
{
    (void)state;
    const uint64_t points[] = {4};
    // As it is, the other state stands in. A fixed one does not, so there the domain goes.
    const struct text_edit edits[EDITS] = {
        {"'kv1': {'bytes_per_token': 32}", "'kv1': {'bytes': 32}"}};
    struct kern_manifest *whole = load(NULL);
    struct kern_manifest **stages = cut(whole, points, 1);
    assert_string_equal(buffer_of(stages[0], "pages")->domain->index_into.name, "kv0");
    assert_string_equal(buffer_of(stages[1], "pages")->domain->index_into.name, "kv1");
    assert_int_equal(buffer_of(stages[1], "pages")->domain->stride, 16);
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);

    whole = load(edits);
    stages = cut(whole, points, 1);
    assert_non_null(buffer_of(stages[0], "pages")->domain);
    assert_null(buffer_of(stages[1], "pages")->domain);
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);
}

static void lines_prefer_a_state_of_the_same_size(void **state)
{
    (void)state;
    const uint64_t points[] = {4};
    const struct text_edit edits[EDITS] = {
        {"'kv0': {'bytes_per_token': 64}, 'kv1': {'bytes_per_token': 32}",
         "'kv0': {'bytes_per_seq': 64}, 'kv1': {'bytes_per_seq': 32}, 'kv2': {'bytes_per_seq': "
         "64}"},
        {ATTEND("l1.attend", "kv1"), ATTEND("l1.attend", "kv1") ", " ATTEND("more", "kv2")},
    };
    struct kern_manifest *whole = load(edits);
    struct kern_manifest **stages = cut(whole, points, 1);
    assert_string_equal(buffer_of(stages[1], "pages")->domain->index_into.name, "kv2");
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);
}

static void id_follows_the_manifest_and_the_points(void **state)
{
    (void)state;
    const uint64_t at4[] = {4}, at5[] = {5}, at45[] = {4, 5};
    const struct text_edit renamed[EDITS] = {{"'model': 'm'", "'model': 'other'"}};
    struct kern_manifest *whole = load(NULL), *other = load(renamed);
    struct kern_manifest **stages = cut(whole, at4, 1), **again = cut(whole, at4, 1);
    struct kern_manifest **elsewhere = cut(whole, at5, 1), **more = cut(whole, at45, 2);
    struct kern_manifest **others = cut(other, at4, 1);
    const char *id = stages[0]->cut->id;
    // Ids are compared between machines, so this one may never change.
    assert_string_equal(id, "6e88d8c8c4c37570");
    assert_string_equal(id, stages[1]->cut->id);
    assert_string_equal(id, again[0]->cut->id);
    assert_string_not_equal(id, elsewhere[0]->cut->id);
    assert_string_not_equal(id, more[0]->cut->id);
    assert_string_not_equal(id, others[0]->cut->id);
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_stages_destroy(again, 2);
    kern_manifest_stages_destroy(elsewhere, 2);
    kern_manifest_stages_destroy(more, 3);
    kern_manifest_stages_destroy(others, 2);
    kern_manifest_destroy(whole);
    kern_manifest_destroy(other);
}

static void stages_are_not_cut_again(void **state)
{
    (void)state;
    const uint64_t points[] = {4};
    struct kern_diag diag = {0};
    struct kern_manifest *whole = load(NULL);
    struct kern_manifest **stages = cut(whole, points, 1);
    assert_null(kern_manifest_cut(stages[1], (uint64_t[]){2}, 1, &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.entries[0].place, "cut");
    assert_non_null(strstr(diag.entries[0].text, "this is stage 1 of 2 already"));
    kern_diag_clear(&diag);
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);
}

// A result that only the preparation writes is read back from the last stage, as from the whole.
static void prepared_results_stay_on_the_last_stage(void **state)
{
    (void)state;
    const uint64_t points[] = {4};
    const struct text_edit edits[EDITS] = {
        {CARRY, CARRY ", " BUFFER("told", "output")},
        {CALL2("copy", "w4", "t"), CALL2("copy", "w4", "t") ", " CALL2("copy", "t", "told")}};
    struct kern_manifest *whole = load(edits);
    struct kern_manifest **stages = cut(whole, points, 1);
    assert_int_equal(kern_names_find(&stages[0]->buffer_names, "told"), KERN_NONE);
    assert_int_equal(buffer_of(stages[1], "told")->kind, KERN_OUTPUT);
    assert_int_equal(program_of(stages[1], "setup")->n_calls, 3);
    kern_manifest_stages_destroy(stages, 2);
    kern_manifest_destroy(whole);
}

static void balance_refuses_what_cannot_be(void **state)
{
    (void)state;
    uint64_t points[16];
    struct kern_diag diag = {0};
    struct kern_manifest *whole = load(NULL);
    assert_false(kern_manifest_balance(whole, 1, points, &diag));
    assert_false(kern_manifest_balance(whole, 9, points, &diag));
    assert_int_equal(diag.count, 2);
    assert_non_null(strstr(diag.entries[1].text, "9 stages need 8 points"));
    assert_true(kern_manifest_balance(whole, 8, points, &diag));
    for (uint64_t i = 0; i < 7; i++)
        assert_int_equal(points[i], i + 1);
    kern_diag_clear(&diag);
    kern_manifest_destroy(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_refusal_has_its_message),
        cmocka_unit_test(stages_have_what_their_calls_need),
        cmocka_unit_test(what_crosses_is_declared_anew),
        cmocka_unit_test(domains_follow_the_states),
        cmocka_unit_test(lines_prefer_a_state_of_the_same_size),
        cmocka_unit_test(id_follows_the_manifest_and_the_points),
        cmocka_unit_test(stages_are_not_cut_again),
        cmocka_unit_test(prepared_results_stay_on_the_last_stage),
        cmocka_unit_test(balance_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
