// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_TESTS_MANIFEST_SAME_H
#define KERN_TESTS_MANIFEST_SAME_H

#include "manifest/manifest.h"

// Fails the test unless [a] and [b] have the same in every field but those that say where in the
// document something stood and what the document's digest is.
void assert_same_manifest(const struct kern_manifest *a, const struct kern_manifest *b);

#endif
