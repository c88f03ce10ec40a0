// SPDX-License-Identifier: Apache-2.0
//
// The readers of the schema's types, by the file that has them.
#ifndef KERN_MANIFEST_PARSE_H
#define KERN_MANIFEST_PARSE_H

#include "manifest/read.h"

// parse_expr.c: a shape into an array of kern_dim and its length; a kern_dim; an expression and a
// bound. An expression is stored as a pointer to a new kern_expr.
bool kern_read_shape(struct kern_reader *reader, const struct kern_node *node,
                     const struct kern_dim **shape, size_t *rank);
kern_read kern_read_dim, kern_read_expr, kern_read_bound;

// parse_bind.c: a segment into a kern_segment.
kern_read kern_read_segment;

// parse_value.c: an argument of a call or a launch into a kern_value.
kern_read kern_read_call_arg, kern_read_launch_arg;

// parse_tensormap.c: a tensormap, stored as a pointer to a new kern_tensormap.
kern_read kern_read_tensormap;

// parse_param.c: a parameter such as "in buffer<bf16>" into a kern_param.
kern_read kern_read_param;

// parse_launch.c: a launch into a kern_launch.
kern_read kern_read_launch;

// The entries of the root's maps, each into the struct of that name.
kern_read kern_read_var, kern_read_state, kern_read_buffer, kern_read_module, kern_read_op,
    kern_read_program;

#endif
