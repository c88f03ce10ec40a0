// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the rank share: a rank on the emulated device made from a manifest that the
// test writes as a string.
#ifndef KERN_TESTS_RANK_FIXTURE_H
#define KERN_TESTS_RANK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "device/device.h"
#include "emu/stats.h"
#include "manifest/manifest.h"
#include "rank/rank.h"

#define FIXTURE_DIRECTORY KERN_BUILD_DIR "/tests/rank_kernels"
#define FIXTURE_ARTIFACT FIXTURE_DIRECTORY "/rank_kernels.so"

// Module k of the manifests below; @SHA is replaced by the digest of the fixture's artifact.
#define FIXTURE_HEAD                                                                               \
    "{'schema_version': 7, 'model': 'test',"                                                       \
    " 'modules': {'k': {'source': 'rank_kernels.so', 'sha256': '@SHA'}},"

// One launch of entry [name] of module k with one block of one thread.
#define FIXTURE_LAUNCH(name)                                                                       \
    "{'module': 'k', 'entry': '" name "', 'block': [1,1,1], 'grid': [1,1,1]"

struct rank_fixture {
    struct kern_device *device;
    struct kern_manifest *manifest;
    struct kern_rank *rank;
    struct kern_diag diag;
    uint64_t vars[8];        // all 1 at first
    uint32_t group_index[8]; // all 0 at first
    int ordinal;
    uint64_t capacity;
    uint64_t seqs;
    enum kern_graphs graphs;
    const char *artifact;    // whose digest @SHA is; NULL: FIXTURE_ARTIFACT
    const char *const *dirs; // NULL: FIXTURE_DIRECTORY
    size_t n_dirs;
};

// Fills in what is not set above, opens the emulated device (unless there is one) and parses
// [json], in which ' stands for ". The test fails if the manifest is refused; false if the device
// or the rank cannot be had.
bool fixture_create(struct rank_fixture *fixture, const char *json);

// Creates the rank, loads modules, allocates with fabric handles, takes memory for weights on the
// host and compiles; true if all did.
bool fixture_try(struct rank_fixture *fixture, const char *json);

// As fixture_try; the test fails with what the diag says if it does not succeed.
void fixture_open(struct rank_fixture *fixture, const char *json);

// Destroys everything, checks that emu holds nothing for the rank any more, and closes the device.
void fixture_close(struct rank_fixture *fixture);

// The index of a buffer or program by its name.
uint32_t fixture_buffer(const struct rank_fixture *fixture, const char *name);
uint32_t fixture_program(const struct rank_fixture *fixture, const char *name);
void fixture_set_var(struct rank_fixture *fixture, const char *name, uint64_t value);

// Issue and wait, write and read by name. The test fails if they do.
void fixture_run(struct rank_fixture *fixture, const char *program);
void fixture_write(struct rank_fixture *fixture, const char *buffer, const void *bytes,
                   size_t length);
void fixture_read(struct rank_fixture *fixture, const char *buffer, void *bytes, size_t length);

// Checks that the diag holds an error of kind [code] whose line contains each of the texts (the
// last one NULL), then clears it.
void fixture_expect(struct rank_fixture *fixture, enum kern_exit code, ...);

// What emu holds for this process on device 0.
struct kern_emu_stats fixture_stats(const struct rank_fixture *fixture);

#endif
