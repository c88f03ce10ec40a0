// SPDX-License-Identifier: Apache-2.0
//
// The canonical texts of both, read back as JSON, compared member by member.
#include "manifest/diff.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "manifest/align.h"
#include "manifest/place.h"
#include "manifest/write.h"

// How far ahead among what was added the changed form of an element is looked for.
#define PAIR_WINDOW 32

struct diff {
    struct kern_differences *found;
    const char *section;
};

static void compare(struct diff *diff, const struct kern_place *place, struct json_object *a,
                    struct json_object *b);

static const char *text_of(struct diff *diff, struct json_object *json)
{
    const int plain = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
    return json ? kern_arena_print(&diff->found->arena, "%s",
                                   json_object_to_json_string_ext(json, plain))
                : NULL;
}

// [a] or [b] is NULL, which in a canonical text no value is, where there is none.
static void report(struct diff *diff, const struct kern_place *place, struct json_object *a,
                   struct json_object *b)
{
    struct kern_differences *found = diff->found;
    char text[KERN_PLACE_MAX];
    kern_reserve(&found->items, &found->capacity, found->count + 1, sizeof *found->items);
    found->items[found->count++] = (struct kern_difference){
        .change = !a   ? KERN_CHANGE_ADDED
                  : !b ? KERN_CHANGE_REMOVED
                       : KERN_CHANGE_CHANGED,
        .section = diff->section,
        .place = kern_arena_print(&found->arena, "%s", kern_place_text(place, text)),
        .before = text_of(diff, a),
        .after = text_of(diff, b),
    };
}

// In the order of [b], with what only [a] has before it.
static void compare_objects(struct diff *diff, const struct kern_place *place,
                            struct json_object *a, struct json_object *b)
{
    json_object_object_foreach(a, removed, old)
    {
        struct kern_place member = kern_place_member(place, removed);
        if (!json_object_object_get_ex(b, removed, NULL))
            report(diff, &member, old, NULL);
    }
    json_object_object_foreach(b, name, new)
    {
        struct kern_place member = kern_place_member(place, name);
        compare(diff, &member, json_object_object_get(a, name), new);
    }
}

// The element [index] of the array at [place], which shows the label of a call.
static struct kern_place element_of(const struct kern_place *place, struct json_object *array,
                                    size_t index)
{
    if (place->name && strcmp(place->name, "args") == 0)
        return kern_place_numbered(place->parent, "arg", index);
    if (place->name && strcmp(place->name, "fields") == 0)
        return kern_place_numbered(place->parent, "field", index);
    struct kern_place element = kern_place_element(place, index);
    struct json_object *label;
    if (json_object_object_get_ex(json_object_array_get_idx(array, index), "label", &label))
        element.label = json_object_get_string(label);
    return element;
}

static void compare_elements(struct diff *diff, const struct kern_place *place,
                             struct json_object *a, size_t i, struct json_object *b, size_t j)
{
    struct kern_place element = element_of(place, a, i);
    compare(diff, &element, json_object_array_get_idx(a, i), json_object_array_get_idx(b, j));
}

static void report_removed(struct diff *diff, const struct kern_place *place, struct json_object *a,
                           size_t i)
{
    struct kern_place element = element_of(place, a, i);
    report(diff, &element, json_object_array_get_idx(a, i), NULL);
}

static void report_added(struct diff *diff, const struct kern_place *place, struct json_object *b,
                         size_t from, size_t to)
{
    for (size_t j = from; j < to; j++) {
        struct kern_place element = element_of(place, b, j);
        report(diff, &element, NULL, json_object_array_get_idx(b, j));
    }
}

// Whether two different elements are probably forms of one, by the first of these that both have.
static bool is_alike(struct json_object *a, struct json_object *b)
{
    static const char *const keys[] = {"label", "op", "entry", "tensor", "at"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct json_object *left, *right;
        if (json_object_object_get_ex(a, keys[i], &left) &&
            json_object_object_get_ex(b, keys[i], &right))
            return json_object_equal(left, right);
    }
    return false;
}

// The elements [i_from, i_to) of [a] and [j_from, j_to) of [b] have no equals in each other.
static void compare_gap(struct diff *diff, const struct kern_place *place, struct json_object *a,
                        size_t i_from, size_t i_to, struct json_object *b, size_t j_from,
                        size_t j_to)
{
    for (size_t i = i_from; i < i_to; i++) {
        size_t window = j_to - j_from < PAIR_WINDOW ? j_to - j_from : PAIR_WINDOW;
        size_t j = j_from;
        while (j < j_from + window &&
               !is_alike(json_object_array_get_idx(a, i), json_object_array_get_idx(b, j)))
            j++;
        if (j == j_from + window) {
            report_removed(diff, place, a, i);
            continue;
        }
        report_added(diff, place, b, j_from, j);
        compare_elements(diff, place, a, i, b, j);
        j_from = j + 1;
    }
    report_added(diff, place, b, j_from, j_to);
}

// Numbers for the elements of [array]: equal ones have the same. The texts live in [arena].
static uint32_t *number_elements(struct kern_names *numbers, struct json_object *array,
                                 struct kern_arena *arena)
{
    size_t count = json_object_array_length(array);
    uint32_t *ids = kern_arena_array(arena, count, sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_object_to_json_string_ext(json_object_array_get_idx(array, i),
                                                          JSON_C_TO_STRING_PLAIN);
        ids[i] = kern_names_find(numbers, text);
        if (ids[i] == KERN_NONE) {
            ids[i] = numbers->count;
            kern_names_add(numbers, kern_arena_print(arena, "%s", text), ids[i]);
        }
    }
    return ids;
}

static void compare_sequences(struct diff *diff, const struct kern_place *place,
                              struct json_object *a, struct json_object *b)
{
    size_t n = json_object_array_length(a);
    size_t m = json_object_array_length(b);
    struct kern_arena arena = {0};
    struct kern_names numbers = {0};
    uint32_t *a_ids = number_elements(&numbers, a, &arena);
    uint32_t *b_ids = number_elements(&numbers, b, &arena);
    uint32_t *matches = kern_arena_array(&arena, n, sizeof *matches);
    kern_align(a_ids, n, b_ids, m, matches);
    size_t i_from = 0, j_from = 0;
    for (size_t i = 0; i < n; i++) {
        if (matches[i] == KERN_NONE)
            continue;
        compare_gap(diff, place, a, i_from, i, b, j_from, matches[i]);
        i_from = i + 1;
        j_from = matches[i] + 1;
    }
    compare_gap(diff, place, a, i_from, n, b, j_from, m);
    kern_names_free(&numbers);
    kern_arena_free(&arena);
}

static void compare_arrays(struct diff *diff, const struct kern_place *place, struct json_object *a,
                           struct json_object *b)
{
    static const char *const sequences[] = {"calls", "launches", "bind", "fields"};
    for (size_t i = 0; place->name && i < sizeof sequences / sizeof *sequences; i++) {
        if (strcmp(place->name, sequences[i]) == 0) {
            compare_sequences(diff, place, a, b);
            return;
        }
    }
    size_t count = json_object_array_length(a);
    if (count != json_object_array_length(b)) {
        report(diff, place, a, b);
        return;
    }
    for (size_t i = 0; i < count; i++)
        compare_elements(diff, place, a, i, b, i);
}

static void compare(struct diff *diff, const struct kern_place *place, struct json_object *a,
                    struct json_object *b)
{
    if (json_object_equal(a, b))
        return;
    bool same_type = json_object_get_type(a) == json_object_get_type(b);
    if (same_type && json_object_is_type(a, json_type_object))
        compare_objects(diff, place, a, b);
    else if (same_type && json_object_is_type(a, json_type_array))
        compare_arrays(diff, place, a, b);
    else
        report(diff, place, a, b);
}

static struct json_object *read_back(const struct kern_manifest *manifest)
{
    size_t length;
    char *text = kern_manifest_write(manifest, &length);
    struct json_tokener *tokener = json_tokener_new_ex(2 * KERN_MANIFEST_DEPTH_MAX);
    if (!tokener)
        kern_out_of_memory(length);
    struct json_object *root = json_tokener_parse_ex(tokener, text, (int)length + 1);
    // What was written is JSON, so that only memory can have been wanting.
    if (!root)
        kern_out_of_memory(length);
    json_tokener_free(tokener);
    free(text);
    return root;
}

void kern_manifest_diff(const struct kern_manifest *a, const struct kern_manifest *b,
                        struct kern_differences *found)
{
    static const struct {
        const char *name;
        bool is_map; // that the text leaves out if it is empty
    } sections[] = {
        {"model", false}, {"vars", true},     {"topology", false}, {"cut", false},
        {"chat", false},  {"states", true},   {"buffers", true},   {"modules", true},
        {"ops", true},    {"programs", true},
    };
    struct json_object *before = read_back(a), *after = read_back(b);
    struct json_object *empty = json_object_new_object();
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        struct diff diff = {.found = found, .section = sections[i].name};
        struct kern_place place = kern_place_member(NULL, sections[i].name);
        struct json_object *usual = sections[i].is_map ? empty : NULL;
        struct json_object *old = json_object_object_get(before, sections[i].name);
        struct json_object *new = json_object_object_get(after, sections[i].name);
        compare(&diff, &place, old ? old : usual, new ? new : usual);
    }
    json_object_put(empty);
    json_object_put(before);
    json_object_put(after);
}

void kern_differences_clear(struct kern_differences *found)
{
    free(found->items);
    kern_arena_free(&found->arena);
    *found = (struct kern_differences){0};
}
