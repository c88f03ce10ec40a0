// SPDX-License-Identifier: Apache-2.0
//
// Domains at run time: what values a buffer may hold for given vars, checking them, and making
// some.
#ifndef KERN_RANK_DOMAIN_H
#define KERN_RANK_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"

// What the runtime provisioned, which bounds indices into states.
struct kern_provision {
    uint64_t tokens;        // token slots that a paged state addresses
    uint64_t slots;         // sequence slots of a per-sequence state
    const uint64_t *blocks; // per state: blocks of a bound host state, 0: none; NULL: all 0
};

// An inclusive range; integral bounds are kept exactly as well.
struct kern_range {
    bool has_lo, has_hi;
    double lo, hi;
    bool integral; // lo and hi (where there) are exact in lo_integer and hi_integer
    int64_t lo_integer, hi_integer;
    bool monotone;
};

// The range of [buffer]'s domain at [vars]; all open without a domain. False if a bound overflows
// or the range is empty at these vars.
bool kern_domain_range(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                       const uint64_t *vars, const struct kern_provision *provision,
                       struct kern_range *range, struct kern_diag *diag);

// Whether each of [length] / element-size elements at [bytes] lies in [buffer]'s domain; the error
// (KERN_EXIT_ARTIFACT) names buffer, first bad index, value and bounds.
bool kern_domain_check(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                       const void *bytes, size_t length, const uint64_t *vars,
                       const struct kern_provision *provision, struct kern_diag *diag);

// Fills [length] bytes with values of [buffer]'s domain from a generator seeded by ([seed], the
// buffer's name): uniform in bounds, sorted if monotone, standard normal for an unbounded float.
// An integer buffer without any domain is refused: nobody described it.
bool kern_domain_synthesize(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                            uint64_t seed, const uint64_t *vars,
                            const struct kern_provision *provision, void *bytes, size_t length,
                            struct kern_diag *diag);

#endif
