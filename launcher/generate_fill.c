// SPDX-License-Identifier: Apache-2.0
//
// What a call's inputs hold: the roles, the page tables and the line tables of its sequences. Rows
// stand sequence by sequence, and where the rows of all members of a group are counted, member by
// member; as the members drive the same calls, those are the same rows again.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/generate.h"
#include "rank/element.h"

// Where one input is put together.
struct image {
    uint32_t buffer;
    enum kern_dtype dtype;
    unsigned char *bytes;
    size_t count; // elements
};

static struct image make_image(const struct kern_run *run, uint32_t buffer, uint64_t count)
{
    enum kern_dtype dtype = run->manifest->buffers[buffer].dtype;
    return (struct image){buffer, dtype, kern_calloc(count, kern_dtype_bytes(dtype)), count};
}

// Integers as little-endian of the buffer's width, as all machines that this runs on have them.
static void store(struct image *image, size_t index, int64_t value)
{
    size_t size = kern_dtype_bytes(image->dtype);
    memcpy(image->bytes + index * size, &value, size);
}

static bool write_image(struct kern_run *run, const struct kern_serving_call *call,
                        struct image *image)
{
    bool good =
        kern_rank_write(run->rank, image->buffer, image->bytes,
                        image->count * kern_dtype_bytes(image->dtype), call->vars, &run->diag);
    free(image->bytes);
    return good;
}

// Whether the place [index] in the batch is a sequence's; the others pad.
static bool is_real(const struct kern_serving_call *call, uint64_t index)
{
    return index < call->count;
}

// The rows that the sequence at [index] has in the states.
static uint64_t fed_at(const struct kern_serving_call *call, uint64_t index)
{
    return is_real(call, index) ? call->sequences[index]->fed : 0;
}

static const struct kern_lease *lease_at(const struct kern_run *run,
                                         const struct kern_serving_call *call, uint64_t index)
{
    return is_real(call, index) ? call->sequences[index]->lease
                                : kern_rank_padding_lease(run->rank);
}

// Rows behind the last known token are for what the program proposes itself: they repeat it.
// Padding has a token that the model knows.
static int64_t token_of(const struct kern_serving_call *call, uint64_t index, uint64_t row)
{
    if (!is_real(call, index))
        return call->sequences[0]->prompt[0];
    const struct kern_sequence *sequence = call->sequences[index];
    uint64_t at = sequence->fed + row, last = sequence->n_prompt + sequence->n_ids - 1;
    at = at < last ? at : last;
    return at < sequence->n_prompt ? sequence->prompt[at] : sequence->ids[at - sequence->n_prompt];
}

// The role's value for row [row] of the sequence at [index].
static int64_t row_value(const struct kern_run *run, const struct kern_serving_call *call,
                         enum kern_fill fill, uint64_t index, uint64_t row)
{
    const struct kern_lease *lease = lease_at(run, call, index);
    uint64_t position = fed_at(call, index) + row;
    size_t pages;
    switch (fill) {
    case KERN_FILL_TOKEN:
        return token_of(call, index, row);
    case KERN_FILL_POSITION:
        return (int64_t)position;
    case KERN_FILL_VALID:
        return is_real(call, index);
    case KERN_FILL_SLOT:
        kern_lease_pages(lease, &pages);
        return pages ? (int64_t)kern_lease_token_slot(lease, position) : 0;
    default:
        return 0;
    }
}

// A number of 64 bits that looks random, from others (the finalizer of SplitMix64).
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// The seed of one draw: it depends on the prompt and the position, not on what else is in the
// batch.
static int64_t draw_seed(const struct kern_run *run, const struct kern_sequence *sequence)
{
    uint64_t seed = run->options.sampling.seed;
    uint64_t number = (uint64_t)(sequence - run->generation->sequences);
    seed = scramble(seed == UINT64_MAX ? 1 : seed);
    return (int64_t)(scramble(scramble(seed ^ number) ^ sequence->fed) >> 1);
}

// The role's value for the sequence at [index]; padding has what leaves everything as it is.
static double sequence_value(const struct kern_run *run, const struct kern_serving_call *call,
                             enum kern_fill fill, uint64_t index)
{
    const struct kern_sampling *sampling = &run->options.sampling;
    bool real = is_real(call, index);
    switch (fill) {
    case KERN_FILL_SEQ_LEN:
        return (double)(fed_at(call, index) + call->rows);
    case KERN_FILL_TEMPERATURE:
        return real && sampling->temperature >= 0 ? sampling->temperature : 0;
    case KERN_FILL_TOP_K:
        return real && sampling->top_k != UINT64_MAX ? (double)sampling->top_k : 0;
    case KERN_FILL_TOP_P:
        return real && sampling->top_p >= 0 ? sampling->top_p : 1;
    case KERN_FILL_MIN_P:
        return real && sampling->min_p >= 0 ? sampling->min_p : 0;
    default:
        return 0;
    }
}

static enum kern_axis axis_of(const struct kern_run *run, const struct kern_buffer *buffer)
{
    return run->manifest->vars[buffer->shape[0].var.index].axis;
}

// A role over the rows, or over the rows of all members.
static bool fill_rows(struct kern_run *run, const struct kern_serving_call *call, uint32_t buffer)
{
    const struct kern_buffer *declared = &run->manifest->buffers[buffer];
    uint64_t rows = call->padded * call->rows;
    uint64_t members = axis_of(run, declared) == KERN_AXIS_RANKS ? run->generation->members : 1;
    struct image image = make_image(run, buffer, members * rows);
    for (uint64_t i = 0; i < image.count; i++) {
        uint64_t at = i % rows;
        store(&image, i, row_value(run, call, declared->fill, at / call->rows, at % call->rows));
    }
    return write_image(run, call, &image);
}

// A role over the sequences.
static bool fill_sequences(struct kern_run *run, const struct kern_serving_call *call,
                           uint32_t buffer)
{
    enum kern_fill fill = run->manifest->buffers[buffer].fill;
    struct image image = make_image(run, buffer, call->padded);
    for (uint64_t i = 0; i < image.count; i++) {
        if (fill == KERN_FILL_TOKEN)
            store(&image, i, token_of(call, i, 0));
        else if (fill == KERN_FILL_SEED)
            store(&image, i, is_real(call, i) ? draw_seed(run, call->sequences[i]) : 0);
        else
            kern_element_store(image.dtype, image.bytes, i, sequence_value(run, call, fill, i));
    }
    return write_image(run, call, &image);
}

// Where each of [count] parts of [rows] rows begins, and where the last one ends.
static bool fill_sums(struct kern_run *run, const struct kern_serving_call *call, uint32_t buffer,
                      uint64_t count, uint64_t rows)
{
    struct image image = make_image(run, buffer, count + 1);
    for (uint64_t i = 0; i <= count; i++)
        store(&image, i, (int64_t)(i * rows));
    return write_image(run, call, &image);
}

static bool fill_role(struct kern_run *run, const struct kern_serving_call *call, uint32_t buffer)
{
    const struct kern_buffer *declared = &run->manifest->buffers[buffer];
    if (declared->fill == KERN_FILL_CU_SEQLENS)
        return fill_sums(run, call, buffer, call->padded, call->rows);
    if (declared->fill == KERN_FILL_BLOCKS)
        return fill_sums(run, call, buffer, run->generation->members, call->padded * call->rows);
    return axis_of(run, declared) == KERN_AXIS_GROUPS ? fill_sequences(run, call, buffer)
                                                      : fill_rows(run, call, buffer);
}

// The pages of each sequence. An entry covers fewer tokens than a page where another table is
// coarser. Entries past the pages repeat the first, so that whatever is read is the sequence's own.
static bool fill_pages(struct kern_run *run, const struct kern_serving_call *call,
                       const struct kern_page_table *table)
{
    struct image image = make_image(run, table->buffer, call->padded * table->pages);
    uint64_t entries = kern_rank_page_tokens(run->rank) / table->tokens;
    for (uint64_t i = 0; i < call->padded; i++) {
        size_t count;
        const uint32_t *pages = kern_lease_pages(lease_at(run, call, i), &count);
        for (uint64_t j = 0; j < table->pages; j++) {
            bool has = j / entries < count;
            uint64_t page = pages[has ? j / entries : 0];
            store(&image, i * table->pages + j,
                  (int64_t)(page * entries + (has ? j % entries : 0)));
        }
    }
    return write_image(run, call, &image);
}

// The lines of each sequence's slot; of several entries for a line the first has it, and the others
// name line 0, which is nobody's.
static bool fill_lines(struct kern_run *run, const struct kern_serving_call *call,
                       const struct kern_line_table *table)
{
    uint64_t rows = call->padded * call->rows;
    bool ranks = table->axis == KERN_AXIS_RANKS;
    uint64_t columns = ranks ? rows * run->generation->members : call->padded;
    uint64_t slot_lines = run->manifest->states[table->state].bytes_per_seq / table->bytes;
    struct image image = make_image(run, table->buffer, table->lines * columns * table->width);
    for (uint64_t line = 0; line < table->lines; line++)
        for (uint64_t c = 0; c < columns; c++) {
            const struct kern_lease *lease = lease_at(run, call, ranks ? c % rows / call->rows : c);
            store(&image, (line * columns + c) * table->width,
                  (int64_t)(kern_lease_slot(lease) * slot_lines + line));
        }
    return write_image(run, call, &image);
}

bool kern_generate_fill(struct kern_run *run, const struct kern_serving_call *call)
{
    const struct kern_serving *serving = &run->generation->serving;
    const bool *touches = call->driven->facts.touches_buffer;
    bool good = true;
    for (enum kern_axis axis = KERN_AXIS_ROWS; axis <= KERN_AXIS_RANKS && good; axis++)
        if (serving->token[axis] != KERN_NONE && touches[serving->token[axis]])
            good = fill_role(run, call, serving->token[axis]);
    for (enum kern_fill fill = KERN_FILL_POSITION; fill <= KERN_FILL_SEED && good; fill++)
        if (serving->fills[fill] != KERN_NONE && touches[serving->fills[fill]])
            good = fill_role(run, call, serving->fills[fill]);
    for (size_t i = 0; i < serving->n_page_tables && good; i++)
        if (touches[serving->page_tables[i].buffer])
            good = fill_pages(run, call, &serving->page_tables[i]);
    for (size_t i = 0; i < serving->n_line_tables && good; i++)
        if (touches[serving->line_tables[i].buffer])
            good = fill_lines(run, call, &serving->line_tables[i]);
    return good;
}
