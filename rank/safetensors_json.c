// SPDX-License-Identifier: Apache-2.0
#include "rank/safetensors_json.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

static bool fail(const struct kern_tensor_json *json, size_t at, const char *what)
{
    return kern_fail(json->diag, KERN_EXIT_ARTIFACT, json->path, "byte %zu of %s: %s", at,
                     json->part, what);
}

bool kern_tensor_json_parse(struct kern_tensor_json *json, const char *text, size_t length)
{
    struct kern_json_error error;
    if (!kern_json_parse(&json->document, text, length, DEPTH_MAX, &error))
        return fail(json, error.at, error.text);
    return kern_tensor_json_expect(json, json->document.nodes, KERN_JSON_OBJECT);
}

bool kern_tensor_json_expect(const struct kern_tensor_json *json, const struct kern_json_node *node,
                             enum kern_json_kind kind)
{
    if (node->kind == kind)
        return true;
    const char *begin = kind == KERN_JSON_OBJECT ? "{" : kind == KERN_JSON_ARRAY ? "[" : "\"";
    return fail(json, node->at,
                kern_arena_print(&json->diag->arena, "'%s' is expected, '%c' is there", begin,
                                 json->document.text[node->at]));
}

const char *kern_tensor_json_copy(const struct kern_tensor_json *json,
                                  const struct kern_json_node *node)
{
    return kern_json_copy(&json->document, node, json->arena);
}

bool kern_tensor_json_uint(const struct kern_tensor_json *json, const struct kern_json_node *node,
                           uint64_t *value)
{
    const char *text = json->document.text + node->at;
    if (node->kind != KERN_JSON_NUMBER || *text == '-')
        return fail(json, node->at,
                    kern_arena_print(&json->diag->arena,
                                     "an integer of at least 0 is expected, '%c' is there", *text));
    if (strcspn(text, ".eE") < node->size)
        return fail(json, node->at, "an integer has no fraction and no exponent");
    struct kern_json_number number = kern_json_number(&json->document, node);
    *value = number.magnitude;
    return number.fits || fail(json, node->at, "an integer is larger than 18446744073709551615");
}
