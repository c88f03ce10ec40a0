// SPDX-License-Identifier: Apache-2.0
//
// Whether manifests are the stages of one cut, and hand over to each other what they say they do.
#ifndef KERN_MANIFEST_CHAIN_H
#define KERN_MANIFEST_CHAIN_H

#include "manifest/manifest.h"

// Puts [count] >= 2 verified [stages], given in any order, and with them their [names] into the
// order of the pipeline. They must be all stages of one cut; every buffer that arrives at one must
// leave the stage before under its name, dtype and shape, and every output of that must arrive;
// vars and the programs with a batch must agree. False with every reason in [diag]: each names both
// stages, what is wrong between them, and what would be right.
bool kern_manifest_chain(struct kern_manifest **stages, const char **names, size_t count,
                         struct kern_diag *diag);

#endif
