// SPDX-License-Identifier: Apache-2.0
#include "manifest/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/suggest.h"

enum { LIST_MAX = 400 };

void kern_count_below(struct kern_reader *reader, struct json_object *json)
{
    if (json_object_is_type(json, json_type_array)) {
        size_t count = json_object_array_length(json);
        reader->order += count;
        for (size_t i = 0; i < count; i++)
            kern_count_below(reader, json_object_array_get_idx(json, i));
    } else if (json_object_is_type(json, json_type_object)) {
        struct json_object_iter member;
        json_object_object_foreachC(json, member)
        {
            reader->order++;
            kern_count_below(reader, member.val);
        }
    }
}

const char *kern_found(struct json_object *json, char text[64])
{
    struct kern_number number;
    char digits[48], shown[48];
    switch (json_object_get_type(json)) {
    case json_type_null:
        return "null";
    case json_type_boolean:
        return json_object_get_boolean(json) ? "true" : "false";
    case json_type_array:
        snprintf(text, 64, "an array of %zu", json_object_array_length(json));
        return text;
    case json_type_object:
        return "an object";
    case json_type_string:
        snprintf(text, 64, "\"%s\"", kern_place_shorten(json_object_get_string(json), shown, 48));
        return text;
    default:
        number = kern_number_of(json);
        snprintf(text, 64, "%s", kern_number_text(&number, digits));
        return text;
    }
}

bool kern_refuse_type(struct kern_reader *reader, const struct kern_node *node,
                      const char *expected)
{
    char found[64];
    kern_refuse(reader, "V-TYPE", node, "expected %s, found %s", expected,
                kern_found(node->json, found));
    kern_count_below(reader, node->json);
    return false;
}

static struct kern_node node_at(struct kern_reader *reader, struct json_object *json,
                                struct kern_place place)
{
    return (struct kern_node){.json = json, .place = place, .order = ++reader->order};
}

// The index of the key [name], or keys->count.
static uint32_t find_key(const struct kern_keys *keys, const char *name)
{
    size_t length = strlen(name);
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

// Refuses the key of [node] and returns the mask of the key that was probably meant, or 0.
static uint32_t refuse_unknown_key(struct kern_reader *reader, const struct kern_node *node,
                                   const struct kern_keys *keys)
{
    char list[LIST_MAX];
    const char *meant = kern_suggest(node->place.name, keys->keys, keys->count, sizeof *keys->keys);
    if (meant)
        kern_refuse(reader, "V-KEY", node, "%s has no such key; did you mean \"%s\"?", keys->what,
                    meant);
    else
        kern_refuse(reader, "V-KEY", node, "%s has no such key; its keys are %s", keys->what,
                    list_keys(keys, false, list));
    kern_count_below(reader, node->json);
    return meant ? 1u << find_key(keys, meant) : 0;
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

bool kern_read_object(struct kern_reader *reader, const struct kern_node *node,
                      const struct kern_keys *keys, void *into, uint32_t *present)
{
    *present = 0;
    if (!json_object_is_type(node->json, json_type_object))
        return kern_refuse_type(reader, node, "an object");
    bool ok = true, unknown = false;
    uint32_t misspelt = 0;
    struct json_object_iter iter;
    json_object_object_foreachC(node->json, iter)
    {
        struct kern_node member =
            node_at(reader, iter.val, kern_place_member(&node->place, iter.key));
        uint32_t i = find_key(keys, iter.key);
        if (i == keys->count) {
            unknown = true;
            misspelt |= refuse_unknown_key(reader, &member, keys);
            ok = false;
            continue;
        }
        const struct kern_key *key = &keys->keys[i];
        *present |= 1u << i;
        if (iter.val)
            ok = key->read(reader, &member, (char *)into + key->offset) && ok;
        else if (!(key->flags & KERN_NULLABLE))
            ok = refuse_null(reader, &member, key);
    }
    uint32_t required = 0, forms = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        required |= keys->keys[i].flags & KERN_REQUIRED ? 1u << i : 0;
        forms |= keys->keys[i].flags & KERN_FORM ? 1u << i : 0;
    }
    ok = require_form(reader, node, keys, forms, *present, unknown) && ok;
    // A key that was said to be misspelt is not said to be missing as well.
    *present |= misspelt;
    return kern_require(reader, node, keys, required, *present) && ok;
}

// Stores the pointer [array] in the pointer, of whatever type, at [items].
static void store_pointer(void *items, const void *array)
{
    memcpy(items, &array, sizeof array);
}

bool kern_read_list(struct kern_reader *reader, const struct kern_node *node,
                    const struct kern_items *list, void *items, size_t *count)
{
    if (!json_object_is_type(node->json, json_type_array)) {
        char expected[64];
        snprintf(expected, sizeof expected, "%s, an array", list->what);
        return kern_refuse_type(reader, node, expected);
    }
    bool ok = true;
    size_t length = json_object_array_length(node->json);
    char *array = kern_arena_array(reader->arena, length, list->size);
    store_pointer(items, array);
    *count = length;
    for (size_t i = 0; i < length; i++) {
        struct kern_place place = list->word
                                      ? kern_place_numbered(node->place.parent, list->word, i)
                                      : kern_place_element(&node->place, i);
        struct kern_node element = node_at(reader, json_object_array_get_idx(node->json, i), place);
        ok = list->read(reader, &element, array + i * list->size) && ok;
    }
    return ok;
}

bool kern_read_tuple(struct kern_reader *reader, const struct kern_node *node,
                     const struct kern_keys *parts, void *into)
{
    if (!json_object_is_type(node->json, json_type_array) ||
        json_object_array_length(node->json) != parts->count) {
        char expected[64];
        snprintf(expected, sizeof expected, "an array of %" PRIu32 ", %s", parts->count,
                 parts->what);
        return kern_refuse_type(reader, node, expected);
    }
    bool ok = true;
    for (uint32_t i = 0; i < parts->count; i++) {
        struct kern_node part = node_at(reader, json_object_array_get_idx(node->json, i),
                                        kern_place_element(&node->place, i));
        ok = parts->keys[i].read(reader, &part, (char *)into + parts->keys[i].offset) && ok;
    }
    return ok;
}

// Whether [name] has no control character: none of U+0000 to U+001F and U+007F to U+009F.
static bool is_printable(const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] <= 0x9f))
            return false;
    return true;
}

static bool check_name(struct kern_reader *reader, const struct kern_node *node,
                       const struct kern_items *map)
{
    if (!*node->place.name)
        return kern_refuse(reader, "V-NAME", node, "the name of %s is not empty", map->what);
    if (!is_printable(node->place.name))
        return kern_refuse(reader, "V-NAME", node, "the name of %s has no control characters",
                           map->what);
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
    if (!json_object_is_type(node->json, json_type_object))
        return kern_refuse_type(reader, node, "an object of named entries");
    bool ok = true;
    uint32_t length = (uint32_t)json_object_object_length(node->json);
    char *array = kern_arena_array(reader->arena, length, map->size), *next = array;
    store_pointer(items, array);
    *count = length;
    struct json_object_iter iter;
    json_object_object_foreachC(node->json, iter)
    {
        struct kern_node entry =
            node_at(reader, iter.val, kern_place_member(&node->place, iter.key));
        store_pointer(next, kern_arena_copy(reader->arena, iter.key, strlen(iter.key)));
        ok = check_name(reader, &entry, map) && ok;
        ok = map->read(reader, &entry, next) && ok;
        next += map->size;
    }
    if (length > 0)
        qsort(array, length, map->size, compare_names);
    for (uint32_t i = 0; names && i < length; i++)
        kern_names_add(names, *(const char *const *)(array + i * map->size), i);
    return ok;
}
