// SPDX-License-Identifier: Apache-2.0
//
// The canonical text of a manifest.
#ifndef KERN_MANIFEST_WRITE_H
#define KERN_MANIFEST_WRITE_H

#include <stddef.h>

#include "manifest/manifest.h"

// The JSON text of [manifest], which need not be verified, with a line break and a NUL at its end;
// *[length] is without the NUL, and the caller frees it. Two manifests that mean the same and are
// in the same order where order matters have the same text: numbers are resolved and there are no
// constants, maps are sorted byte by byte, members of objects stand in the schema's order, those at
// their default are left out, and what a launch takes from its op is not repeated.
char *kern_manifest_write(const struct kern_manifest *manifest, size_t *length);

#endif
