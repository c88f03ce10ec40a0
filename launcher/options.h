// SPDX-License-Identifier: Apache-2.0
//
// The command line of kern-rank: one table makes the parser and --help.
#ifndef KERN_LAUNCHER_OPTIONS_H
#define KERN_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/diag.h"
#include "device/device.h"
#include "launcher/points.h"
#include "rank/rank.h"
#include "topo/layout.h"
#include "topo/place.h"

struct kern_list {
    const char **items;
    size_t count, capacity;
};

// How tokens are drawn, for manifests that draw them by such inputs. What is not given is negative,
// or UINT64_MAX.
struct kern_sampling {
    double temperature, top_p, min_p;
    uint64_t top_k, seed;
};

struct kern_options {
    struct kern_list manifests; // one, or the stages of a pipeline in any order
    const char *manifest;       // the first of them
    struct kern_points cut;     // where it is cut into stages
    size_t n_stages;            // that these are; 1: no pipeline
    uint64_t depth;             // items that an edge between stages holds
    struct kern_list kernels;   // directories
    struct kern_list weights;   // files and directories
    struct kern_list programs;  // empty: the default choice
    struct kern_list vars;      // "NAME=N", in order
    struct kern_list groups;    // "NAME=block", in order
    const char *groups_file;
    const char *input, *output, *check; // "{rank}" stands for the rank
    const char *json;
    const char *picture;       // where the run is drawn
    const char *trace;         // where its spans go
    const char *compare;       // another manifest
    uint64_t generate;         // tokens that follow each prompt; 0: programs are driven
    struct kern_list prompts;  // "1,2,3", in order
    struct kern_list stop_ids; // numbers
    const char *vocab;
    const char *check_ids;
    double margin;
    struct kern_sampling sampling;
    uint64_t steps, warmup;
    uint64_t seed;
    bool seed_per_rank;
    uint64_t capacity, seqs;
    uint64_t host_blocks; // 0: none
    double atol, rtol;
    double timeout; // seconds
    enum kern_device_choice device;
    enum kern_bind bind;
    enum kern_graphs graphs;
    bool eager; // graphs are off
    bool share_devices;
    bool help, version;
};

// Fills [options] from the command line; every mistake is in [diag] (KERN_EXIT_USAGE).
bool kern_options_parse(int argc, char **argv, struct kern_options *options,
                        struct kern_diag *diag);

void kern_options_help(FILE *file);
void kern_options_free(struct kern_options *options);

// Option [index] of the command line, by the name that the user knows it by, with what all ranks of
// a run must have been told alike of it in *[value]: its value, whether it is given, or nothing.
// Both live as long as [arena] and the command line. NULL behind the last one, which stands for the
// manifests.
const char *kern_option_shared(const struct kern_options *options, size_t index, const char **value,
                               struct kern_arena *arena);

// "NAME=VALUE" apart: true with the length of NAME in *[length] and VALUE in *[value].
bool kern_option_pair(const char *text, size_t *length, const char **value);

#endif
