// SPDX-License-Identifier: Apache-2.0
//
// Which keys of an object stand in it a second time.
#ifndef KERN_BASE_JSON_KEYS_H
#define KERN_BASE_JSON_KEYS_H

#include "base/json.h"

// Marks in [document] every key of [object], whose members are all there, that equals an earlier
// one. The time is that of reading the keys once, whatever they are.
void kern_json_mark_repeated(struct kern_json_document *document,
                             const struct kern_json_node *object);

#endif
