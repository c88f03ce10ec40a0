// SPDX-License-Identifier: Apache-2.0
//
// Keys that stand in their object twice. Their first member is read as if it were alone; what is
// wrong with the others is their keys and those below.
#include <inttypes.h>

#include "manifest/read.h"

static void pass_over(struct kern_reader *reader, const struct kern_json_node *json,
                      const struct kern_place *place);

static void pass_over_members(struct kern_reader *reader, const struct kern_json_node *object,
                              const struct kern_place *place)
{
    const struct kern_json_node *key = kern_json_first(object);
    for (uint32_t i = 0; i < object->size && !kern_reader_is_full(reader); i++) {
        struct kern_place member = kern_place_member(place, kern_copy_string(reader, key));
        if (key->repeated)
            kern_refuse_repeated(reader, key, &member);
        else
            pass_over(reader, key + 1, &member);
        key = kern_json_next(key + 1);
    }
}

static void pass_over(struct kern_reader *reader, const struct kern_json_node *json,
                      const struct kern_place *place)
{
    if (json->kind == KERN_JSON_OBJECT) {
        pass_over_members(reader, json, place);
    } else if (json->kind == KERN_JSON_ARRAY) {
        const struct kern_json_node *element = kern_json_first(json);
        for (uint32_t i = 0; i < json->size && !kern_reader_is_full(reader); i++) {
            struct kern_place at = kern_place_element(place, i);
            pass_over(reader, element, &at);
            element = kern_json_next(element);
        }
    }
}

void kern_pass_over(struct kern_reader *reader, const struct kern_node *node)
{
    if (reader->document.repeated)
        pass_over(reader, node->json, &node->place);
}

void kern_refuse_repeated(struct kern_reader *reader, const struct kern_json_node *key,
                          const struct kern_place *place)
{
    kern_json_locate(reader->document.text, key->at, &reader->position);
    kern_place_fail(reader->diag, "V-DUP", key->at, place,
                    "this key stands in its object a second time, at line %" PRIu64
                    ", column %" PRIu64 ": keep one",
                    reader->position.line, reader->position.column);
    pass_over(reader, key + 1, place);
}
