// SPDX-License-Identifier: Apache-2.0
//
// Where the parameters of a kernel lie: as the driver says it, as it stands in code that no driver
// has seen yet, and as a launch declares it.
#ifndef KERN_RANK_LAYOUT_H
#define KERN_RANK_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"

// A parameter in the parameter block: bytes from its start, and its own bytes.
struct rank_param {
    uint64_t offset;
    uint64_t bytes;
};

// All zero is a kernel without parameters; the owner frees the items.
struct rank_layout {
    struct rank_param *items;
    size_t count, capacity;
};

void rank_layout_add(struct rank_layout *layout, uint64_t offset, uint64_t bytes);

// The index of the first parameter that does not lie as the launch declares it, where one that one
// side lacks counts as such; KERN_NONE if all do.
uint32_t rank_layout_misfit(const struct rank_layout *layout, const struct kern_launch *launch);

// "8 bytes at 0, 4 bytes at 8", in [arena].
const char *rank_layout_text(struct kern_arena *arena, const struct rank_layout *layout);

// What is wrong with parameter [index], the misfit: "parameter 1 is declared i32, 4 bytes at 8; it
// is 8 bytes at 8".
const char *rank_layout_misfit_text(struct kern_arena *arena, const struct rank_layout *layout,
                                    const struct kern_launch *launch, uint32_t index);

enum rank_lookup { RANK_ABSENT, RANK_FOUND, RANK_UNREADABLE };

// Finds [entry] in code of a kind and adds its parameters to [layout], which is empty. If it is
// there and they cannot be read, *[why] is the reason, a phrase such as "its … is damaged".
//
// A cubin: the attributes KPARAM_INFO of the section .nv.info.ENTRY.
enum rank_lookup rank_layout_of_cubin(const uint8_t *bytes, size_t length, const char *entry,
                                      struct rank_layout *layout, const char **why);
// PTX text, which need not end with a NUL.
enum rank_lookup rank_layout_of_ptx(const uint8_t *bytes, size_t length, const char *entry,
                                    struct rank_layout *layout, const char **why);
// A shared object with a host half (device/abi/host_module.h), of which nothing is run.
enum rank_lookup rank_layout_of_host(const uint8_t *bytes, size_t length, const char *entry,
                                     struct rank_layout *layout, const char **why);

#endif
