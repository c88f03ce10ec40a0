// SPDX-License-Identifier: Apache-2.0
#include "manifest/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "manifest/suggest.h"

enum { LIST_MAX = 400 };

const char *kern_number_text(const struct kern_json_number *number, char text[48])
{
    int length = number->length < 44 ? (int)number->length : 40;
    snprintf(text, 48, "%.*s%s", length, number->text, number->length < 44 ? "" : "...");
    return text;
}

// The first characters of a string, as kern_text_shorten has them.
static const char *shorten_string(const struct kern_reader *reader,
                                  const struct kern_json_node *json, char shown[48])
{
    char start[48];
    size_t size = json->size < sizeof start ? json->size : sizeof start - 1;
    memcpy(start, kern_json_chars(&reader->document, json), size);
    start[size] = '\0';
    // A full [start] is shortened only if there is more of the string.
    return kern_text_shorten(start, shown, json->size < sizeof start ? 48 : 47);
}

const char *kern_found(const struct kern_reader *reader, const struct kern_json_node *json,
                       char text[64])
{
    struct kern_json_number number;
    char shown[48];
    switch (json->kind) {
    case KERN_JSON_NULL:
        return "null";
    case KERN_JSON_FALSE:
        return "false";
    case KERN_JSON_TRUE:
        return "true";
    case KERN_JSON_ARRAY:
        snprintf(text, 64, "an array of %" PRIu32, json->size);
        return text;
    case KERN_JSON_OBJECT:
        return "an object";
    case KERN_JSON_STRING:
        snprintf(text, 64, "\"%s\"", shorten_string(reader, json, shown));
        return text;
    case KERN_JSON_NUMBER:
        break;
    }
    number = kern_json_number(&reader->document, json);
    return kern_number_text(&number, text);
}

bool kern_refuse_type(struct kern_reader *reader, const struct kern_node *node,
                      const char *expected)
{
    char found[64];
    kern_refuse(reader, "V-TYPE", node, "expected %s, found %s", expected,
                kern_found(reader, node->json, found));
    kern_pass_over(reader, node);
    return false;
}

// The index of the key that is the [length] bytes at [name], or keys->count.
static uint32_t find_key(const struct kern_keys *keys, const char *name, size_t length)
{
    uint32_t i = 0;
    while (i < keys->count &&
           (keys->keys[i].length != length || memcmp(keys->keys[i].name, name, length) != 0))
        i++;
    return i;
}

// The names of [keys], or of the forms among them, as "a", "b" or "c".
static const char *list_keys(const struct kern_keys *keys, bool only_forms, char text[LIST_MAX])
{
    uint32_t last = keys->count;
    while (only_forms && last > 0 && !(keys->keys[last - 1].flags & KERN_FORM))
        last--;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < last && used < LIST_MAX; i++)
        if (!only_forms || keys->keys[i].flags & KERN_FORM)
            used += (size_t)snprintf(text + used, LIST_MAX - used, "%s\"%s\"",
                                     used == 0       ? ""
                                     : i + 1 == last ? " or "
                                                     : ", ",
                                     keys->keys[i].name);
    return text;
}

// Refuses the unknown [key] of the object [node] and returns the mask of the key that was probably
// meant, or 0.
static uint32_t refuse_unknown_key(struct kern_reader *reader, const struct kern_node *node,
                                   const struct kern_json_node *key, const struct kern_keys *keys)
{
    char list[LIST_MAX];
    const char *name = kern_copy_string(reader, key);
    struct kern_node member = {key + 1, kern_place_member(&node->place, name)};
    const char *meant = kern_suggest(name, keys->keys, keys->count, sizeof *keys->keys);
    if (meant)
        kern_refuse(reader, "V-KEY", &member, "%s has no such key; did you mean \"%s\"?",
                    keys->what, meant);
    else
        kern_refuse(reader, "V-KEY", &member, "%s has no such key; its keys are %s", keys->what,
                    list_keys(keys, false, list));
    kern_pass_over(reader, &member);
    return meant ? 1u << find_key(keys, meant, strlen(meant)) : 0;
}

static bool refuse_null(struct kern_reader *reader, const struct kern_node *node,
                        const struct kern_key *key)
{
    if (key->flags & (KERN_REQUIRED | KERN_FORM))
        return kern_refuse(reader, "V-TYPE", node, "null is not allowed here: a value is needed");
    return kern_refuse(reader, "V-TYPE", node,
                       "null is not allowed here: leave the key out if nothing is meant");
}

bool kern_require(struct kern_reader *reader, const struct kern_node *node,
                  const struct kern_keys *keys, uint32_t required, uint32_t present)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if ((required & ~present) >> i & 1)
            kern_refuse(reader, "V-TYPE", node, "%s needs the key \"%s\", which is missing",
                        keys->what, keys->keys[i].name);
    return !(required & ~present);
}

// Checks that the keys in [present] are those of exactly one form. Nothing is said of a form that
// is missing beside an unknown key, which is probably its misspelt name.
static bool require_form(struct kern_reader *reader, const struct kern_node *node,
                         const struct kern_keys *keys, uint32_t forms, uint32_t present,
                         bool unknown)
{
    uint32_t found = forms & present;
    if (!forms || (found && !(found & (found - 1))))
        return true;
    if (!found && unknown)
        return false;
    char list[LIST_MAX], beside[LIST_MAX] = "none of them";
    size_t used = 0;
    for (uint32_t i = 0; i < keys->count && used < LIST_MAX; i++)
        if (found >> i & 1)
            used += (size_t)snprintf(beside + used, LIST_MAX - used, "%s\"%s\"",
                                     used ? " beside " : "", keys->keys[i].name);
    return kern_refuse(reader, "V-KEY", node, "%s has exactly one of the keys %s; found %s",
                       keys->what, list_keys(keys, true, list), beside);
}

// What is known of an object while its members are read.
struct object_state {
    const struct kern_keys *keys;
    void *into;
    uint32_t present;
    uint32_t misspelt;
    bool unknown; // it has an unknown key
    bool ok;
};

static void read_member(struct kern_reader *reader, const struct kern_node *node,
                        const struct kern_json_node *key, struct object_state *object)
{
    uint32_t i = find_key(object->keys, kern_json_chars(&reader->document, key), key->size);
    if (key->repeated) {
        struct kern_place place = kern_place_member(&node->place, kern_copy_string(reader, key));
        kern_refuse_repeated(reader, key, &place);
        object->ok = false;
        return;
    }
    if (i == object->keys->count) {
        object->unknown = true;
        object->misspelt |= refuse_unknown_key(reader, node, key, object->keys);
        object->ok = false;
        return;
    }
    const struct kern_key *known = &object->keys->keys[i];
    struct kern_node member = {key + 1, kern_place_member(&node->place, known->name)};
    object->present |= 1u << i;
    if (member.json->kind != KERN_JSON_NULL)
        object->ok &= known->read(reader, &member, (char *)object->into + known->offset);
    else if (!(known->flags & KERN_NULLABLE))
        object->ok = refuse_null(reader, &member, known);
}

bool kern_read_object(struct kern_reader *reader, const struct kern_node *node,
                      const struct kern_keys *keys, void *into, uint32_t *present)
{
    *present = 0;
    if (node->json->kind != KERN_JSON_OBJECT)
        return kern_refuse_type(reader, node, "an object");
    struct object_state object = {.keys = keys, .into = into, .ok = true};
    const struct kern_json_node *key = kern_json_first(node->json);
    for (uint32_t i = 0; i < node->json->size && !kern_reader_is_full(reader); i++) {
        read_member(reader, node, key, &object);
        key = kern_json_next(key + 1);
    }
    uint32_t required = 0, forms = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        required |= keys->keys[i].flags & KERN_REQUIRED ? 1u << i : 0;
        forms |= keys->keys[i].flags & KERN_FORM ? 1u << i : 0;
    }
    object.ok &= require_form(reader, node, keys, forms, object.present, object.unknown);
    // A key that was said to be misspelt is not said to be missing as well.
    *present = object.present | object.misspelt;
    return kern_require(reader, node, keys, required, *present) && object.ok;
}

// Stores the pointer [array] in the pointer, of whatever type, at [items].
static void store_pointer(void *items, const void *array)
{
    memcpy(items, &array, sizeof array);
}

// Whether elements of [size] bytes take so much more memory than the text of their array that not
// all of them can be what they must be: the shortest right one for its size is a launch, with 23
// times the bytes of [{"entry":""}].
static bool is_dense(const struct kern_json_node *array, size_t size)
{
    const struct kern_json_node *last = array + array->span - 1;
    size_t text = last->at + last->size - array->at;
    return array->size * size / 32 > text;
}

bool kern_read_list(struct kern_reader *reader, const struct kern_node *node,
                    const struct kern_items *list, void *items, size_t *count)
{
    if (node->json->kind != KERN_JSON_ARRAY) {
        char expected[64];
        snprintf(expected, sizeof expected, "%s, an array", list->what);
        return kern_refuse_type(reader, node, expected);
    }
    bool ok = true;
    uint32_t length = node->json->size;
    // The elements of a dense list are read, for what is wrong with them, but not kept.
    bool kept = !is_dense(node->json, list->size);
    char *array = kern_arena_array(reader->arena, kept ? length : 1, list->size);
    store_pointer(items, array);
    *count = kept ? length : 0;
    const struct kern_json_node *json = kern_json_first(node->json);
    for (uint32_t i = 0; i < length && !kern_reader_is_full(reader); i++) {
        struct kern_node element = {
            json, list->word ? kern_place_numbered(node->place.parent, list->word, i)
                             : kern_place_element(&node->place, i)};
        ok = list->read(reader, &element, array + (kept ? i * list->size : 0)) && ok;
        json = kern_json_next(json);
        if (!kept)
            memset(array, 0, list->size);
    }
    return ok;
}

bool kern_read_tuple(struct kern_reader *reader, const struct kern_node *node,
                     const struct kern_keys *parts, void *into)
{
    if (node->json->kind != KERN_JSON_ARRAY || node->json->size != parts->count) {
        char expected[64];
        snprintf(expected, sizeof expected, "an array of %" PRIu32 ", %s", parts->count,
                 parts->what);
        return kern_refuse_type(reader, node, expected);
    }
    bool ok = true;
    const struct kern_json_node *json = kern_json_first(node->json);
    for (uint32_t i = 0; i < parts->count; i++, json = kern_json_next(json)) {
        struct kern_node part = {json, kern_place_element(&node->place, i)};
        ok = parts->keys[i].read(reader, &part, (char *)into + parts->keys[i].offset) && ok;
    }
    return ok;
}

// Whether [name], which is UTF-8, has no control character.
static bool is_printable(const char *name)
{
    for (size_t length; *name; name += length) {
        length = kern_text_shown(name);
        if (length == 0)
            return false;
    }
    return true;
}

bool kern_check_name(struct kern_reader *reader, const struct kern_node *node, const char *what)
{
    if (!*node->place.name)
        return kern_refuse(reader, "V-NAME", node, "the name of %s is not empty", what);
    if (!is_printable(node->place.name))
        return kern_refuse(reader, "V-NAME", node, "the name of %s has no control characters",
                           what);
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool kern_read_map(struct kern_reader *reader, const struct kern_node *node,
                   const struct kern_items *map, void *items, uint32_t *count,
                   struct kern_names *names)
{
    if (node->json->kind != KERN_JSON_OBJECT)
        return kern_refuse_type(reader, node, "an object of named entries");
    bool ok = true;
    uint32_t length = node->json->size;
    char *array = kern_arena_array(reader->arena, length, map->size), *next = array;
    store_pointer(items, array);
    *count = 0;
    const struct kern_json_node *key = kern_json_first(node->json);
    for (uint32_t i = 0; i < length && !kern_reader_is_full(reader); i++) {
        const char *name = kern_copy_string(reader, key);
        struct kern_node entry = {key + 1, kern_place_member(&node->place, name)};
        if (key->repeated) {
            kern_refuse_repeated(reader, key, &entry.place);
        } else {
            store_pointer(next, name);
            ok = kern_check_name(reader, &entry, map->what) && ok;
            ok = map->read(reader, &entry, next) && ok;
            next += map->size;
            ++*count;
        }
        key = kern_json_next(key + 1);
    }
    if (*count > 0)
        qsort(array, *count, map->size, compare_names);
    for (uint32_t i = 0; names && i < *count; i++)
        kern_names_add(names, *(const char *const *)(array + i * map->size), i);
    return ok;
}
