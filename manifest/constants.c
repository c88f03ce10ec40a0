// SPDX-License-Identifier: Apache-2.0
#include "manifest/constants.h"

#include "manifest/read.h"

// The constant called as [name], or NULL.
static struct kern_constant *find(const struct kern_reader *reader,
                                  const struct kern_json_node *name)
{
    const struct kern_constants *constants = &reader->constants;
    uint32_t index = kern_names_find_span(&constants->names,
                                          kern_json_chars(&reader->document, name), name->size);
    return index == KERN_NONE ? NULL : &constants->constants[index];
}

const struct kern_json_node *kern_constants_find(const struct kern_reader *reader,
                                                 const struct kern_json_node *name)
{
    const struct kern_constant *constant = find(reader, name);
    return constant ? constant->value : NULL;
}

// The root's member [key] if it is an object; else an object without members.
static const struct kern_json_node *find_map(const struct kern_reader *reader, const char *key)
{
    static const struct kern_json_node empty = {.kind = KERN_JSON_OBJECT};
    const struct kern_json_document *document = &reader->document;
    const struct kern_json_node *map = kern_json_find(document, document->nodes, key);
    return map && map->kind == KERN_JSON_OBJECT ? map : &empty;
}

void kern_constants_collect(struct kern_reader *reader)
{
    struct kern_constants *constants = &reader->constants;
    const struct kern_json_node *map = find_map(reader, "constants"), *key = kern_json_first(map);
    if (map->size == 0)
        return;
    constants->constants =
        kern_arena_array(&constants->arena, map->size, sizeof *constants->constants);
    for (uint32_t i = 0; i < map->size; i++, key = kern_json_next(key + 1)) {
        // Of a repeated key the first one counts.
        const char *name = kern_json_copy(&reader->document, key, &constants->arena);
        kern_names_add(&constants->names, name, i);
        constants->constants[i].value = key + 1;
    }
    const struct kern_json_node *vars = find_map(reader, "vars");
    key = kern_json_first(vars);
    for (uint32_t i = 0; i < vars->size; i++, key = kern_json_next(key + 1)) {
        struct kern_constant *constant = find(reader, key);
        if (constant)
            constant->is_var = true;
    }
}

// Checks the constant [key] at [node].
static bool check(struct kern_reader *reader, const struct kern_json_node *key,
                  const struct kern_node *node)
{
    char found[64];
    bool ok = kern_check_name(reader, node, "a constant");
    if (find(reader, key)->is_var)
        ok = kern_refuse(reader, "V-CONST", node,
                         "a var has this name too, so that a string in an extent or expression "
                         "could mean either: rename one");
    if (node->json->kind == KERN_JSON_NUMBER)
        return ok;
    kern_refuse(reader, "V-CONST", node, "a constant is a number, found %s",
                kern_found(reader, node->json, found));
    kern_pass_over(reader, node);
    return false;
}

bool kern_read_constants(struct kern_reader *reader, const struct kern_node *node, void *unused)
{
    (void)unused;
    if (node->json->kind != KERN_JSON_OBJECT) {
        char found[64];
        kern_refuse(reader, "V-CONST", node, "expected an object of named numbers, found %s",
                    kern_found(reader, node->json, found));
        kern_pass_over(reader, node);
        return false;
    }
    bool ok = true;
    const struct kern_json_node *key = kern_json_first(node->json);
    for (uint32_t i = 0; i < node->json->size && !kern_reader_is_full(reader); i++) {
        struct kern_node constant = {
            key + 1, kern_place_member(&node->place, kern_copy_string(reader, key))};
        if (key->repeated)
            kern_refuse_repeated(reader, key, &constant.place);
        else
            ok = check(reader, key, &constant) && ok;
        key = kern_json_next(key + 1);
    }
    return ok;
}

void kern_constants_free(struct kern_constants *constants)
{
    kern_names_free(&constants->names);
    kern_arena_free(&constants->arena);
    *constants = (struct kern_constants){0};
}
