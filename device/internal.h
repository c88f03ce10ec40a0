// SPDX-License-Identifier: Apache-2.0
//
// What the files of device/ share: a table of function pointers and how it is filled.
#ifndef KERN_DEVICE_INTERNAL_H
#define KERN_DEVICE_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"

// What to do about an emulated GPU that lacks a function.
#define KERN_DEVICE_EMU_REMEDY "take the library of the same build as this program"

// Where the address of [symbol] goes in a table of function pointers.
struct kern_device_slot {
    const char *symbol;
    size_t offset;
};

// Looks every symbol up in the library of [handle] and writes the addresses into [table]. Returns
// NULL, or the first symbol that the library lacks (the slots of all missing ones become NULL).
const char *kern_device_fill(void *handle, void *table, const struct kern_device_slot *slots,
                             size_t count);

// dlopen with every symbol bound at once and none offered to other libraries. Returns NULL with
// *[error] pointing at the loader's words, in [texts].
void *kern_device_dlopen(const char *name, const char **error, struct kern_arena *texts);

// The file that [handle] was loaded from, in [texts].
const char *kern_device_library_path(void *handle, struct kern_arena *texts);

#endif
