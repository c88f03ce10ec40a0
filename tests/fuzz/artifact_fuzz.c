// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: the input is a whole artifact. Of every piece of code in it the parameters of
// an entry are looked up; whatever is refused or cannot be read must have a reason.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rank/codes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void look_up(const struct rank_code *code, const char *entry)
{
    struct rank_layout layout = {0};
    const char *why = NULL;
    enum rank_lookup found = rank_code_layout(code, entry, &layout, &why);
    if (found == RANK_UNREADABLE && why == NULL)
        abort();
    free(layout.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct kern_diag diag = {0};
    struct kern_arena arena = {0};
    struct rank_codes codes;
    if (rank_codes_list(bytes, length, "artifact", &arena, &codes, &diag)) {
        for (size_t i = 0; i < codes.count; i++) {
            look_up(&codes.items[i], "mixed");
            look_up(&codes.items[i], "toy_scale_f32");
        }
        rank_codes_free(&codes);
    } else if (kern_diag_code(&diag) != KERN_EXIT_ARTIFACT) {
        abort();
    }
    kern_arena_free(&arena);
    kern_diag_clear(&diag);
    return 0;
}
