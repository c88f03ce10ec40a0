// SPDX-License-Identifier: Apache-2.0
//
// Causal attention of new rows over a cache in pages, with grouped heads: query head h reads key
// head h * kv_heads / q_heads.
//
//   qkv       bf16 [rows][(q_heads + 2 * kv_heads) * head_dim]   only the queries are read
//   cache     bf16 [slots][2][kv_heads][head_dim]                keys, then values, of a slot
//   pages     i32  [sequences][table_width]
//   seq_len   i32  [sequences]                                   the new rows included
//   y         bf16 [rows][q_heads][head_dim]
//
// Each sequence has `rows_per_seq` rows, its last ones, which are in the cache already. Key k of a
// sequence lies in slot pages[k / page_tokens] * page_tokens + k % page_tokens. A row that would
// lie before the start of its sequence sees no key and gives zeros.
//
// Grid: rows by q_heads, any number of threads. Softmax is taken in f32 over tiles of TILE keys;
// its bits depend on nothing but the row's own keys. head_dim is a multiple of 8, arrays 16-byte
// aligned. Dynamic shared memory: head_dim * 4 bytes.
#include "kernels/numeric.h"

enum { TILE = 128 };

struct paged_attention_shared {
    float score[TILE];
    float weight[TILE];
    int32_t slot[TILE];
};

KERN_DEVICE float dot(const kern_bf16 *a, const kern_bf16 *b, int32_t n)
{
    kern_f32x8 sum = {};
    for (int32_t i = 0; i < n; i += KERN_LANES) {
        sum = sum + kern_load8(a + i) * kern_load8(b + i);
    }
    return kern_sum8(sum);
}

KERN_KERNEL void paged_attention(const kern_bf16 *qkv, const kern_bf16 *cache, const int32_t *pages,
                                 const int32_t *seq_len, kern_bf16 *y, int32_t q_heads,
                                 int32_t kv_heads, int32_t head_dim, int32_t rows_per_seq,
                                 int32_t table_width, int32_t page_tokens, float scale)
{
    KERN_SHARED(struct paged_attention_shared, shared);
    KERN_DYNAMIC_SHARED(float, sum);
    const int32_t row = (int32_t)blockIdx.x;
    const int32_t head = (int32_t)blockIdx.y;
    const int32_t seq = row / rows_per_seq;
    const int32_t keys = seq_len[seq] - (rows_per_seq - 1 - row % rows_per_seq);
    if (head_dim % KERN_LANES != 0 || keys > table_width * page_tokens) {
        kern_trap();
    }
    const int32_t *table = pages + (int64_t)seq * table_width;
    const int64_t kv_width = (int64_t)kv_heads * head_dim;
    const int64_t kv_head = head * kv_heads / q_heads;
    const kern_bf16 *query = qkv + (row * (q_heads + 2 * (int64_t)kv_heads) + head) * head_dim;
    const kern_bf16 *head_keys = cache + kv_head * head_dim;
    const kern_bf16 *head_values = head_keys + kv_width;
    const kern_f32x8 zero = {};
    KERN_BLOCK_RANGE(pack, head_dim / KERN_LANES)
    {
        kern_store8(sum + pack * KERN_LANES, zero);
    }
    float top = kern_f32_of_bits(0xff800000u);
    float total = 0.0f;
    for (int32_t first = 0; first < keys; first += TILE) {
        const int32_t count = keys - first < TILE ? keys - first : TILE;
        KERN_BLOCK_RANGE(i, count)
        {
            const int32_t key = first + (int32_t)i;
            const int32_t slot = table[key / page_tokens] * page_tokens + key % page_tokens;
            shared.slot[i] = slot;
            shared.score[i] = dot(query, head_keys + slot * 2 * kv_width, head_dim) * scale;
        }
        __syncthreads();
        float new_top = top;
        for (int32_t i = 0; i < count; i++) {
            new_top = shared.score[i] > new_top ? shared.score[i] : new_top;
        }
        KERN_BLOCK_RANGE(i, count)
        {
            shared.weight[i] = kern_exp(shared.score[i] - new_top);
        }
        __syncthreads();
        // What was summed up so far was weighted by exp(score - top).
        const float fade = kern_exp(top - new_top);
        top = new_top;
        total *= fade;
        for (int32_t i = 0; i < count; i++) {
            total += shared.weight[i];
        }
        KERN_BLOCK_RANGE(pack, head_dim / KERN_LANES)
        {
            const kern_bf16 *values = head_values + pack * KERN_LANES;
            kern_f32x8 s = kern_load8(sum + pack * KERN_LANES) * fade;
            for (int32_t i = 0; i < count; i++) {
                s = s + kern_load8(values + shared.slot[i] * 2 * kv_width) * shared.weight[i];
            }
            kern_store8(sum + pack * KERN_LANES, s);
        }
        // The next tile's slots are written before its first barrier.
        __syncthreads();
    }
    const float share = keys > 0 ? 1.0f / total : 0.0f;
    kern_bf16 *to = y + ((int64_t)row * q_heads + head) * head_dim;
    KERN_BLOCK_RANGE(pack, head_dim / KERN_LANES)
    {
        kern_store8(to + pack * KERN_LANES, kern_load8(sum + pack * KERN_LANES) * share);
    }
}

KERN_RANGE_KERNEL_SHARED(paged_attention, struct paged_attention_shared)
KERN_MODULE(KERN_ENTRY(paged_attention));
