// SPDX-License-Identifier: Apache-2.0
//
// The canonical texts of both, read back as JSON, compared member by member.
#include "manifest/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/names.h"
#include "manifest/align.h"
#include "manifest/place.h"
#include "manifest/write.h"

// How far ahead among what was added the changed form of an element is looked for.
#define PAIR_WINDOW 32

struct side {
    char *text;
    struct kern_json_document document;
};

struct diff {
    struct kern_differences *found;
    const char *section;
    struct side before, after;
};

// A value of one of the sides; node NULL: there is none.
struct value {
    const struct side *side;
    const struct kern_json_node *node;
};

static void compare(struct diff *diff, const struct kern_place *place, struct value a,
                    struct value b);

static struct value member_of(struct value object, const char *key)
{
    bool is_object = object.node && object.node->kind == KERN_JSON_OBJECT;
    return (struct value){
        object.side, is_object ? kern_json_find(&object.side->document, object.node, key) : NULL};
}

// The text of a value without the white space between its tokens.
static const char *text_of(struct value value, struct kern_arena *arena)
{
    if (!value.node)
        return NULL;
    const char *from = value.side->text + value.node->at;
    // What is behind the value is white space, a comma or a bracket too many.
    const char *to = from;
    int depth = 0;
    bool in_string = false;
    do {
        in_string ^= *to == '"';
        depth += !in_string && (*to == '[' || *to == '{');
        depth -= !in_string && (*to == ']' || *to == '}');
        to += in_string && *to == '\\' ? 2 : 1;
    } while (in_string || depth > 0 || (depth == 0 && !strchr(" \n,]}", *to)));
    char *text = kern_arena_alloc(arena, (size_t)(to - from) + 1);
    char *end = text;
    for (in_string = false; from < to; from++) {
        in_string ^= *from == '"';
        if (in_string && *from == '\\')
            *end++ = *from++;
        if (in_string || (*from != ' ' && *from != '\n'))
            *end++ = *from;
    }
    return text;
}

// Equal values have the same nodes, since both texts are canonical.
static bool is_equal(struct value a, struct value b)
{
    if (!a.node || !b.node)
        return a.node == b.node;
    ptrdiff_t count = kern_json_next(a.node) - a.node;
    if (count != kern_json_next(b.node) - b.node)
        return false;
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct kern_json_node *left = &a.node[i], *right = &b.node[i];
        if (left->kind != right->kind || left->size != right->size)
            return false;
        if ((left->kind == KERN_JSON_STRING || left->kind == KERN_JSON_NUMBER) &&
            memcmp(kern_json_chars(&a.side->document, left),
                   kern_json_chars(&b.side->document, right), left->size) != 0)
            return false;
    }
    return true;
}

static void report(struct diff *diff, const struct kern_place *place, struct value a,
                   struct value b)
{
    struct kern_differences *found = diff->found;
    char text[KERN_PLACE_MAX];
    kern_reserve(&found->items, &found->capacity, found->count + 1, sizeof *found->items);
    found->items[found->count++] = (struct kern_difference){
        .change = !a.node   ? KERN_CHANGE_ADDED
                  : !b.node ? KERN_CHANGE_REMOVED
                            : KERN_CHANGE_CHANGED,
        .section = diff->section,
        .place = kern_arena_print(&found->arena, "%s", kern_place_text(place, text)),
        .before = text_of(a, &found->arena),
        .after = text_of(b, &found->arena),
    };
}

// The members of an object, or the elements of an array, which have no names.
struct parts {
    size_t count;
    const char **names;
    struct value *values;
    struct kern_names index;
};

static struct parts parts_of(struct value whole, struct kern_arena *arena)
{
    struct parts parts = {.count = whole.node->size};
    bool named = whole.node->kind == KERN_JSON_OBJECT;
    const struct kern_json_node *node = kern_json_first(whole.node);
    parts.names = kern_arena_array(arena, parts.count, sizeof *parts.names);
    parts.values = kern_arena_array(arena, parts.count, sizeof *parts.values);
    for (size_t i = 0; i < parts.count; i++, node = kern_json_next(node)) {
        if (named) {
            parts.names[i] = kern_json_copy(&whole.side->document, node, arena);
            kern_names_add(&parts.index, parts.names[i], (uint32_t)i);
            node = kern_json_next(node);
        }
        parts.values[i] = (struct value){whole.side, node};
    }
    return parts;
}

// In the order of [b], with what only [a] has before it.
static void compare_objects(struct diff *diff, const struct kern_place *place, struct value a,
                            struct value b)
{
    struct kern_arena arena = {0};
    struct parts old = parts_of(a, &arena), new = parts_of(b, &arena);
    for (size_t i = 0; i < old.count; i++) {
        struct kern_place member = kern_place_member(place, old.names[i]);
        if (kern_names_find(&new.index, old.names[i]) == KERN_NONE)
            report(diff, &member, old.values[i], (struct value){0});
    }
    for (size_t i = 0; i < new.count; i++) {
        struct kern_place member = kern_place_member(place, new.names[i]);
        uint32_t same = kern_names_find(&old.index, new.names[i]);
        compare(diff, &member, same == KERN_NONE ? (struct value){0} : old.values[same],
                new.values[i]);
    }
    kern_names_free(&old.index);
    kern_names_free(&new.index);
    kern_arena_free(&arena);
}

// The place of the element [index] of an array, with the label if it is a labelled call, which is
// copied into [arena].
static struct kern_place element_of(const struct kern_place *place, struct value element,
                                    size_t index, struct kern_arena *arena)
{
    if (place->name && strcmp(place->name, "args") == 0)
        return kern_place_numbered(place->parent, "arg", index);
    if (place->name && strcmp(place->name, "fields") == 0)
        return kern_place_numbered(place->parent, "field", index);
    struct kern_place numbered = kern_place_element(place, index);
    struct value label = member_of(element, "label");
    if (label.node)
        numbered.label = kern_json_copy(&label.side->document, label.node, arena);
    return numbered;
}

// Two arrays at a place.
struct arrays {
    struct diff *diff;
    const struct kern_place *place;
    struct kern_arena arena;
    struct parts a, b;
};

static void compare_elements(struct arrays *arrays, size_t i, size_t j)
{
    struct kern_place element = element_of(arrays->place, arrays->a.values[i], i, &arrays->arena);
    compare(arrays->diff, &element, arrays->a.values[i], arrays->b.values[j]);
}

static void report_removed(struct arrays *arrays, size_t i)
{
    struct kern_place element = element_of(arrays->place, arrays->a.values[i], i, &arrays->arena);
    report(arrays->diff, &element, arrays->a.values[i], (struct value){0});
}

static void report_added(struct arrays *arrays, size_t from, size_t to)
{
    for (size_t j = from; j < to; j++) {
        struct kern_place element =
            element_of(arrays->place, arrays->b.values[j], j, &arrays->arena);
        report(arrays->diff, &element, (struct value){0}, arrays->b.values[j]);
    }
}

// Whether two different elements are probably forms of one, by the first of these that both have.
static bool is_alike(struct value a, struct value b)
{
    static const char *const keys[] = {"label", "op", "entry", "tensor", "at"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct value left = member_of(a, keys[i]), right = member_of(b, keys[i]);
        if (left.node && right.node)
            return is_equal(left, right);
    }
    return false;
}

// The elements [i_from, i_to) of a and [j_from, j_to) of b have no equals in each other.
static void compare_gap(struct arrays *arrays, size_t i_from, size_t i_to, size_t j_from,
                        size_t j_to)
{
    for (size_t i = i_from; i < i_to; i++) {
        size_t end = j_to - j_from < PAIR_WINDOW ? j_to : j_from + PAIR_WINDOW;
        size_t j = j_from;
        while (j < end && !is_alike(arrays->a.values[i], arrays->b.values[j]))
            j++;
        if (j == end) {
            report_removed(arrays, i);
            continue;
        }
        report_added(arrays, j_from, j);
        compare_elements(arrays, i, j);
        j_from = j + 1;
    }
    report_added(arrays, j_from, j_to);
}

// Numbers for the elements: equal ones have the same.
static uint32_t *number_elements(struct arrays *arrays, const struct parts *parts,
                                 struct kern_names *numbers)
{
    uint32_t *ids = kern_arena_array(&arrays->arena, parts->count, sizeof *ids);
    for (size_t i = 0; i < parts->count; i++) {
        const char *text = text_of(parts->values[i], &arrays->arena);
        uint32_t next = numbers->count;
        uint32_t known = kern_names_add(numbers, text, next);
        ids[i] = known == KERN_NONE ? next : known;
    }
    return ids;
}

static void compare_sequences(struct arrays *arrays)
{
    size_t n = arrays->a.count, m = arrays->b.count;
    struct kern_names numbers = {0};
    uint32_t *a_ids = number_elements(arrays, &arrays->a, &numbers);
    uint32_t *b_ids = number_elements(arrays, &arrays->b, &numbers);
    uint32_t *matches = kern_arena_array(&arrays->arena, n, sizeof *matches);
    kern_align(a_ids, n, b_ids, m, matches);
    size_t i_from = 0, j_from = 0;
    for (size_t i = 0; i < n; i++) {
        if (matches[i] == KERN_NONE)
            continue;
        compare_gap(arrays, i_from, i, j_from, matches[i]);
        i_from = i + 1;
        j_from = matches[i] + 1;
    }
    compare_gap(arrays, i_from, n, j_from, m);
    kern_names_free(&numbers);
}

static bool is_sequence(const struct kern_place *place)
{
    static const char *const sequences[] = {"calls", "launches", "bind", "fields"};
    for (size_t i = 0; place->name && i < sizeof sequences / sizeof *sequences; i++)
        if (strcmp(place->name, sequences[i]) == 0)
            return true;
    return false;
}

static void compare_arrays(struct diff *diff, const struct kern_place *place, struct value a,
                           struct value b)
{
    struct arrays arrays = {.diff = diff, .place = place};
    arrays.a = parts_of(a, &arrays.arena);
    arrays.b = parts_of(b, &arrays.arena);
    if (is_sequence(place))
        compare_sequences(&arrays);
    else if (arrays.a.count != arrays.b.count)
        report(diff, place, a, b);
    else
        for (size_t i = 0; i < arrays.a.count; i++)
            compare_elements(&arrays, i, i);
    kern_arena_free(&arrays.arena);
}

static void compare(struct diff *diff, const struct kern_place *place, struct value a,
                    struct value b)
{
    if (is_equal(a, b))
        return;
    bool same_kind = a.node && b.node && a.node->kind == b.node->kind;
    if (same_kind && a.node->kind == KERN_JSON_OBJECT)
        compare_objects(diff, place, a, b);
    else if (same_kind && a.node->kind == KERN_JSON_ARRAY)
        compare_arrays(diff, place, a, b);
    else
        report(diff, place, a, b);
}

static void read_back(struct side *side, const struct kern_manifest *manifest)
{
    size_t length;
    struct kern_json_error error;
    side->text = kern_manifest_write(manifest, &length);
    // What was written is JSON; only its size can be too much for the reader.
    if (!kern_json_parse(&side->document, side->text, length, 2 * KERN_MANIFEST_DEPTH_MAX, &error))
        kern_out_of_memory(length);
}

static void forget(struct side *side)
{
    kern_json_free(&side->document);
    free(side->text);
}

// A section that is left out of a text where it is empty.
static struct value or_empty(struct value section, struct value empty, bool is_map)
{
    return section.node || !is_map ? section : empty;
}

void kern_manifest_diff(const struct kern_manifest *a, const struct kern_manifest *b,
                        struct kern_differences *found)
{
    static const struct {
        const char *name;
        bool is_map;
    } sections[] = {
        {"model", false}, {"vars", true},     {"topology", false}, {"cut", false},
        {"chat", false},  {"states", true},   {"buffers", true},   {"modules", true},
        {"ops", true},    {"programs", true},
    };
    static const struct kern_json_node no_members = {.span = 1, .kind = KERN_JSON_OBJECT};
    struct diff diff = {.found = found};
    read_back(&diff.before, a);
    read_back(&diff.after, b);
    struct value old = {&diff.before, diff.before.document.nodes};
    struct value new = {&diff.after, diff.after.document.nodes};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const char *name = sections[i].name;
        bool is_map = sections[i].is_map;
        struct kern_place place = kern_place_member(NULL, name);
        diff.section = name;
        compare(&diff, &place,
                or_empty(member_of(old, name), (struct value){&diff.before, &no_members}, is_map),
                or_empty(member_of(new, name), (struct value){&diff.after, &no_members}, is_map));
    }
    forget(&diff.before);
    forget(&diff.after);
}

void kern_differences_clear(struct kern_differences *found)
{
    free(found->items);
    kern_arena_free(&found->arena);
    *found = (struct kern_differences){0};
}
