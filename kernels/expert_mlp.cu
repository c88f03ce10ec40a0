// SPDX-License-Identifier: Apache-2.0
//
// The experts of one rank: out = down(silu(gate(x)) * up(x)) for every selection in the experts'
// lists.
//
//   rows         bf16 [slots][hidden]            selection s reads row s / top_k
//   counts       i32  [experts]                  length of each expert's list
//   selections   i32  [experts][slots * top_k]   the lists
//   gate, up     bf16 [experts][inner][hidden]
//   down         bf16 [experts][hidden][inner]
//   out          f32  [slots * top_k][hidden]    row s of selection s; other rows are left alone
//
// Everything between the bf16 operands and `out` is f32. A row's arithmetic is a fixed sequence of
// f32 operations, whatever rows are computed beside it, so a token's result is the same bits
// however the tokens are spread over ranks; and since neither compiler may fuse or reorder them, on
// a GPU and on emu as well.
//
// hidden and inner are multiples of 8. Any grid and block, one-dimensional; blocks take tiles of
// ROWS rows of one expert in turn. Dynamic shared memory: ROWS * (hidden + inner) * 4 bytes.
#include "kernels/numeric.h"

// A weight is read once for this many rows.
enum { ROWS = 4 };

// The dot products of ROWS rows, `n` apart from each other in `x`, with one row of weights, each in
// eight partial sums.
KERN_DEVICE void dot_rows(const float *x, const kern_bf16 *weights, int32_t n, float dot[ROWS])
{
    kern_f32x8 sum[ROWS] = {};
    for (int32_t i = 0; i < n; i += KERN_LANES) {
        const kern_f32x8 weight = kern_load8(weights + i);
        for (int row = 0; row < ROWS; row++) {
            sum[row] = sum[row] + kern_load8(x + (int64_t)row * n + i) * weight;
        }
    }
    for (int row = 0; row < ROWS; row++) {
        dot[row] = kern_sum8(sum[row]);
    }
}

KERN_KERNEL void expert_mlp(const kern_bf16 *rows, const int32_t *counts, const int32_t *selections,
                            const kern_bf16 *gate, const kern_bf16 *up, const kern_bf16 *down,
                            float *out, int32_t experts, int32_t slots, int32_t top_k,
                            int32_t hidden, int32_t inner)
{
    KERN_DYNAMIC_SHARED(float, x);
    if (hidden % KERN_LANES != 0 || inner % KERN_LANES != 0) {
        kern_trap();
    }
    float *const act = x + (int64_t)ROWS * hidden;
    int32_t tile = (int32_t)blockIdx.x; // counted on from the first tile of `expert`
    for (int32_t expert = 0; expert < experts; expert++) {
        const int32_t count = counts[expert];
        const int32_t tiles = (count + ROWS - 1) / ROWS;
        const int32_t *list = selections + (int64_t)expert * slots * top_k;
        const int64_t weights = (int64_t)expert * inner * hidden;
        for (; tile < tiles; tile += (int32_t)gridDim.x) {
            const int32_t *tile_list = list + tile * ROWS;
            const int32_t live = count - tile * ROWS < ROWS ? count - tile * ROWS : ROWS;
            for (int row = 0; row < ROWS; row++) {
                const kern_bf16 *from =
                    row < live ? rows + (int64_t)(tile_list[row] / top_k) * hidden : nullptr;
                KERN_BLOCK_RANGE(i, hidden)
                {
                    x[(int64_t)row * hidden + i] = from ? kern_to_f32(from[i]) : 0.0f;
                }
            }
            __syncthreads();
            KERN_BLOCK_RANGE(i, inner)
            {
                float gated[ROWS], upped[ROWS];
                dot_rows(x, gate + weights + i * hidden, hidden, gated);
                dot_rows(x, up + weights + i * hidden, hidden, upped);
                for (int row = 0; row < ROWS; row++) {
                    act[(int64_t)row * inner + i] = kern_silu(gated[row]) * upped[row];
                }
            }
            __syncthreads();
            KERN_BLOCK_RANGE(i, hidden)
            {
                float result[ROWS];
                dot_rows(act, down + weights + i * inner, inner, result);
                for (int row = 0; row < live; row++) {
                    out[(int64_t)tile_list[row] * hidden + i] = result[row];
                }
            }
            __syncthreads();
        }
        tile -= tiles;
    }
}

KERN_RANGE_KERNEL(expert_mlp)
KERN_MODULE(KERN_ENTRY(expert_mlp));
