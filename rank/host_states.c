// SPDX-License-Identifier: Apache-2.0
//
// States in memory of the program that embeds the rank, which proves that it is laid out as the
// manifest declares.
#include "rank/internal.h"

#include "manifest/provision.h"

static bool check_memory(const struct kern_host_layout *layout,
                         const struct kern_host_memory *memory, const char *place,
                         struct kern_diag *diag)
{
    if (memory->address == 0) {
        return kern_fail(diag, KERN_EXIT_USAGE, place, "there is no memory at address 0");
    }
    if (memory->dtype != layout->dtype) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "the memory holds %s, the state is declared as %s",
                         kern_dtype_name(memory->dtype), kern_dtype_name(layout->dtype));
    }
    if (memory->n != layout->rank) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "the memory has %zu extents, the state is declared with %zu", memory->n,
                         layout->rank);
    }
    for (size_t i = 0; i < memory->n; i++) {
        bool open = i == 0 && layout->shape[0] == 0;
        if (open ? memory->shape[0] == 0 : memory->shape[i] != layout->shape[i]) {
            return kern_fail(diag, KERN_EXIT_USAGE, place,
                             "extent %zu of the memory is %llu; %s%llu", i,
                             (unsigned long long)memory->shape[i],
                             open ? "it must be at least " : "the state is declared with ",
                             (unsigned long long)(open ? 1 : layout->shape[i]));
        }
        if (memory->strides[i] != layout->strides[i]) {
            return kern_fail(diag, KERN_EXIT_USAGE, place,
                             "stride %zu of the memory is %llu elements; the state is declared "
                             "with %llu",
                             i, (unsigned long long)memory->strides[i],
                             (unsigned long long)layout->strides[i]);
        }
    }
    return true;
}

bool kern_rank_bind_host_state(struct kern_rank *rank, uint32_t state,
                               const struct kern_host_memory *memory, struct kern_diag *diag)
{
    const struct kern_state *declared = &rank->manifest->states[state];
    char place[RANK_WHAT];
    uint64_t bytes = 0;
    rank_print(place, "states.%s", declared->name);
    if (declared->host == NULL) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "it has no host layout, so its memory is the rank's own");
    }
    // Launch lists have addresses in them.
    if (!rank->allocated || rank->programs != NULL) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "host states are bound after memory is allocated and before programs are "
                         "compiled");
    }
    if (!check_memory(declared->host, memory, place, diag)) {
        return false;
    }
    if (!kern_host_bytes(declared->host, memory->shape[0], &bytes)) {
        return kern_fail(diag, KERN_EXIT_USAGE, place, "%llu blocks span 2^64 bytes or more",
                         (unsigned long long)memory->shape[0]);
    }
    rank->states[state].address = memory->address;
    rank->states[state].bytes = bytes;
    rank->blocks[state] = memory->shape[0];
    return true;
}

bool rank_host_states_bound(const struct kern_rank *rank, struct kern_diag *diag)
{
    bool bound = true;
    for (uint32_t s = 0; s < rank->manifest->n_states; s++) {
        const struct kern_state *state = &rank->manifest->states[s];
        if (state->host != NULL && rank->states[s].address == 0) {
            char place[RANK_WHAT];
            rank_print(place, "states.%s", state->name);
            bound = kern_fail(diag, KERN_EXIT_USAGE, place,
                              "a state with a host layout lives in memory of the embedding "
                              "program, which has bound none");
        }
    }
    return bound;
}
