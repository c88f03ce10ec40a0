// SPDX-License-Identifier: Apache-2.0
//
// Whether all ranks were started with the same command line, as far as they must be: one that does
// something else than the others would leave them waiting, or worse.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "launcher/run.h"
#include "topo/watchdog.h"

void kern_run_same_options(struct kern_run *run)
{
    struct kern_arena arena = {0};
    const char *value;
    uint8_t(*mine)[KERN_SHA256_BYTES] = NULL;
    size_t count = 0, capacity = 0;
    kern_reserve(&mine, &capacity, 1, sizeof *mine);
    while (kern_option_shared(&run->options, count, &value, &arena)) {
        kern_sha256(value, strlen(value), mine[count++]);
        kern_reserve(&mine, &capacity, count + 1, sizeof *mine);
    }
    uint8_t(*first)[KERN_SHA256_BYTES] = kern_calloc(count, sizeof *first);
    memcpy(first, mine, count * sizeof *first);
    KERN_WITH_OTHERS(&run->world, "comparing options",
                     MPI_Bcast(first, (int)(count * sizeof *first), MPI_BYTE, 0, run->world.comm));
    // A command line that is wrong in itself was read in part only.
    bool good = kern_diag_code(&run->diag) == KERN_EXIT_OK;
    for (size_t i = 0; good && i < count; i++)
        if (memcmp(first[i], mine[i], sizeof *mine) != 0)
            kern_fail(
                &run->diag, KERN_EXIT_USAGE, kern_option_shared(&run->options, i, &value, &arena),
                "differs from what rank 0 was started with; give every rank the same options");
    free(mine);
    free(first);
    kern_arena_free(&arena);
}
