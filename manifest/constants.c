// SPDX-License-Identifier: Apache-2.0
#include "manifest/constants.h"

#include "manifest/read.h"

static bool is_number(struct json_object *json)
{
    return json_object_is_type(json, json_type_int) || json_object_is_type(json, json_type_double);
}

void kern_constants_collect(struct kern_constants *constants, struct json_object *root,
                            struct kern_arena *arena)
{
    struct json_object *map = json_object_object_get(root, "constants");
    if (!json_object_is_type(map, json_type_object))
        return;
    size_t count = (size_t)json_object_object_length(map);
    constants->values = kern_arena_array(arena, count, sizeof *constants->values);
    uint32_t index = 0;
    struct json_object_iter member;
    json_object_object_foreachC(map, member)
    {
        kern_names_add(&constants->names, member.key, index);
        constants->values[index++] = member.val;
    }
}

bool kern_constants_find(const struct kern_constants *constants, const char *name,
                         struct json_object **value)
{
    uint32_t index = kern_names_find(&constants->names, name);
    if (index == KERN_NONE)
        return false;
    *value = constants->values[index];
    return true;
}

static bool check(struct kern_reader *reader, const struct kern_node *node,
                  struct json_object *vars)
{
    char found[64];
    bool ok = true;
    if (!*node->place.name)
        ok = kern_refuse(reader, "V-CONST", node, "the name of a constant is not empty");
    if (json_object_is_type(vars, json_type_object) &&
        json_object_object_get_ex(vars, node->place.name, NULL))
        ok = kern_refuse(reader, "V-CONST", node,
                         "a var has this name too, so that a string in an extent or expression "
                         "could mean either: rename one");
    if (is_number(node->json))
        return ok;
    kern_refuse(reader, "V-CONST", node, "a constant is a number, found %s",
                kern_found(node->json, found));
    kern_count_below(reader, node->json);
    return false;
}

bool kern_read_constants(struct kern_reader *reader, const struct kern_node *node, void *unused)
{
    (void)unused;
    if (!json_object_is_type(node->json, json_type_object)) {
        char found[64];
        kern_refuse(reader, "V-CONST", node, "expected an object of named numbers, found %s",
                    kern_found(node->json, found));
        kern_count_below(reader, node->json);
        return false;
    }
    struct json_object *vars = json_object_object_get(reader->root, "vars");
    bool ok = true;
    struct json_object_iter member;
    json_object_object_foreachC(node->json, member)
    {
        struct kern_node constant = {
            .json = member.val,
            .place = kern_place_member(&node->place, member.key),
            .order = ++reader->order,
        };
        ok = check(reader, &constant, vars) && ok;
    }
    return ok;
}

void kern_constants_free(struct kern_constants *constants)
{
    kern_names_free(&constants->names);
    *constants = (struct kern_constants){0};
}
