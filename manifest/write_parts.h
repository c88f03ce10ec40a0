// SPDX-License-Identifier: Apache-2.0
//
// The writers of the schema's types, by the file that has them. Each writes one value.
#ifndef KERN_MANIFEST_WRITE_PARTS_H
#define KERN_MANIFEST_WRITE_PARTS_H

#include "manifest/internal.h"
#include "manifest/json_writer.h"

// write_value.c
void kern_write_shape(struct kern_json *json, const struct kern_dim *shape, size_t rank);
void kern_write_dim(struct kern_json *json, const struct kern_dim *dim);
void kern_write_expr(struct kern_json *json, const struct kern_expr *expr);
void kern_write_values(struct kern_json *json, const struct kern_value *values, size_t count);
void kern_write_u64s(struct kern_json *json, const uint64_t *numbers, size_t count);
void kern_write_u32s(struct kern_json *json, const uint32_t *numbers, size_t count);
void kern_write_pairs(struct kern_json *json, const uint64_t (*pairs)[2], size_t count);
void kern_write_word(struct kern_json *json, const char *key, const struct kern_words *words,
                     unsigned word);

// Members that are left out at their default: text that is NULL, a number that is [usual], false.
void kern_write_text(struct kern_json *json, const char *key, const char *text);
void kern_write_number(struct kern_json *json, const char *key, uint64_t number, uint64_t usual);
void kern_write_flag(struct kern_json *json, const char *key, bool flag);

// write_buffer.c
void kern_write_buffer(struct kern_json *json, const struct kern_buffer *buffer);

// write_op.c
void kern_write_op(struct kern_json *json, const struct kern_op *op);

#endif
