// SPDX-License-Identifier: Apache-2.0
//
// What bench/ep.sh compares with: the exchange of examples/ep by a program that has MPI_Alltoallv
// and no mapping of its peers' memory.
//
//     mpirun -np R ep_alltoallv TOKENS HIDDEN TOP_K EXPERTS STEPS WARMUP [FOLDER]
//
// The same tokens travel by the same routing, as the same bytes: a row goes out in bf16 once per
// (token, rank), with the route of each of its selections, and back in f32 once per selection.
// Every step does what an MPI program must do and no more:
//
//   dispatch   count and pack records, MPI_Alltoall of the counts, one MPI_Alltoallv of the records
//              (rows and routes in one, so that there is no second exchange), list the arrivals by
//              expert
//   combine    pack the rows of the results by source, MPI_Alltoallv, add up each token's rows with
//              its weights where they were received, without another copy
//
// As there, the experts' results are written outside of the timed steps. Rank 0 prints one JSON
// object. With FOLDER, inputs-R.safetensors and expected-R.safetensors of every rank are written
// for kern-rank; what is expected is computed from the tokens alone.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/safetensors.h"

struct config {
    int rank, ranks, tokens, hidden, top_k, experts, owned;
};

// A record: top_k routes (an index among the receiver's experts, or -1), then the row.
struct exchange {
    struct config config;
    MPI_Datatype record, row;
    size_t route_bytes, record_bytes;
    uint16_t *x;   // [tokens][hidden] bf16
    int32_t *ids;  // [tokens][top_k]
    float *weight; // [tokens][top_k]
    float *y;      // [tokens][hidden]
    unsigned char *sent, *received;
    size_t arrivals;                  // records of one step: the routing is the same in all
    int *to, *to_at, *from, *from_at; // records per rank and where they begin
    int *back, *back_at, *returned, *returned_at; // rows of results per rank, the same
    int32_t *counts, *selections;                 // [owned], [owned][arrivals * top_k]
    float *expert_out;                            // [arrivals * top_k][hidden]
    float *packed, *results; // rows of results as they are sent and as they come
    int *cursor;
};

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static float from_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

// Multiples of 2^-7 of at most seven bits, which bf16 holds exactly; experts that differ.
static void draw_tokens(struct exchange *e)
{
    const struct config *c = &e->config;
    uint64_t state = (uint64_t)c->rank << 32;
    for (size_t i = 0; i < (size_t)c->tokens * (size_t)c->hidden; i++) {
        float value = (float)((int)(next_random(&state) % 255) - 127) / 128;
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        e->x[i] = (uint16_t)(word >> 16);
    }
    int32_t *all = kern_calloc((size_t)c->experts, sizeof *all);
    for (int i = 0; i < c->experts; i++)
        all[i] = i;
    for (int t = 0; t < c->tokens; t++)
        for (int k = 0; k < c->top_k; k++) {
            int left = c->experts - k; // at least one, as top_k is at most experts
            int other = k + (int)(next_random(&state) % (uint64_t)(left > 0 ? left : 1));
            int32_t chosen = all[other];
            all[other] = all[k];
            all[k] = chosen;
            e->ids[t * c->top_k + k] = chosen;
            e->weight[t * c->top_k + k] = (float)(next_random(&state) % 1000 + 1) / 1024;
        }
    free(all);
}

static int *counters(const struct config *config)
{
    return kern_calloc((size_t)config->ranks, sizeof(int));
}

static void create(struct exchange *e, const struct config *config)
{
    *e = (struct exchange){.config = *config};
    size_t tokens = (size_t)config->tokens, hidden = (size_t)config->hidden;
    size_t top_k = (size_t)config->top_k, ranks = (size_t)config->ranks;
    e->route_bytes = (top_k * sizeof(int32_t) + 15) / 16 * 16;
    e->record_bytes = e->route_bytes + hidden * sizeof *e->x;
    MPI_Type_contiguous((int)e->record_bytes, MPI_BYTE, &e->record);
    MPI_Type_commit(&e->record);
    MPI_Type_contiguous(config->hidden, MPI_FLOAT, &e->row);
    MPI_Type_commit(&e->row);
    e->x = kern_calloc(tokens * hidden, sizeof *e->x);
    e->y = kern_calloc(tokens * hidden, sizeof *e->y);
    e->ids = kern_calloc(tokens * top_k, sizeof *e->ids);
    e->weight = kern_calloc(tokens * top_k, sizeof *e->weight);
    e->sent = kern_calloc(tokens * (top_k < ranks ? top_k : ranks), e->record_bytes);
    e->results = kern_calloc(tokens * top_k * hidden, sizeof *e->results);
    e->counts = kern_calloc((size_t)config->owned, sizeof *e->counts);
    int **arrays[] = {&e->to,   &e->to_at,   &e->from,     &e->from_at,
                      &e->back, &e->back_at, &e->returned, &e->returned_at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = counters(config);
    e->cursor = counters(config);
}

static void destroy(struct exchange *e)
{
    void *all[] = {e->x,           e->y,       e->ids,        e->weight,     e->sent,
                   e->received,    e->results, e->counts,     e->to,         e->to_at,
                   e->from,        e->from_at, e->back,       e->back_at,    e->returned,
                   e->returned_at, e->cursor,  e->selections, e->expert_out, e->packed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    MPI_Type_free(&e->record);
    MPI_Type_free(&e->row);
}

static int start_at(const int *count, int *at, int ranks)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++) {
        at[r] = sum;
        sum += count[r];
    }
    return sum;
}

// Counts what goes to each rank; the same experts say how many rows of results come back.
static void count_records(struct exchange *e)
{
    const struct config *c = &e->config;
    memset(e->to, 0, (size_t)c->ranks * sizeof *e->to);
    memset(e->returned, 0, (size_t)c->ranks * sizeof *e->returned);
    for (int t = 0; t < c->tokens; t++) {
        const int32_t *ids = e->ids + (size_t)t * (size_t)c->top_k;
        for (int k = 0; k < c->top_k; k++) {
            int owner = ids[k] / c->owned, seen = 0;
            for (int before = 0; before < k; before++)
                seen |= ids[before] / c->owned == owner;
            e->to[owner] += !seen;
            e->returned[owner]++;
        }
    }
    start_at(e->to, e->to_at, c->ranks);
    start_at(e->returned, e->returned_at, c->ranks);
}

static void pack_records(struct exchange *e)
{
    const struct config *c = &e->config;
    memcpy(e->cursor, e->to_at, (size_t)c->ranks * sizeof *e->cursor);
    for (int t = 0; t < c->tokens; t++) {
        const int32_t *ids = e->ids + (size_t)t * (size_t)c->top_k;
        for (int k = 0; k < c->top_k; k++) {
            int owner = ids[k] / c->owned, seen = 0;
            for (int before = 0; before < k; before++)
                seen |= ids[before] / c->owned == owner;
            if (seen)
                continue;
            unsigned char *record = e->sent + (size_t)e->cursor[owner]++ * e->record_bytes;
            int32_t *routes = (int32_t *)(void *)record;
            for (int j = 0; j < c->top_k; j++)
                routes[j] = ids[j] / c->owned == owner ? ids[j] % c->owned : -1;
            memcpy(record + e->route_bytes, e->x + (size_t)t * (size_t)c->hidden,
                   (size_t)c->hidden * sizeof *e->x);
        }
    }
}

static const int32_t *routes_of(const struct exchange *e, int record)
{
    return (const int32_t *)(void *)(e->received + (size_t)record * e->record_bytes);
}

// Room for what arrives; the first step makes it.
static void make_room(struct exchange *e, int arrivals)
{
    const struct config *c = &e->config;
    if ((size_t)arrivals == e->arrivals)
        return;
    size_t selections = (size_t)arrivals * (size_t)c->top_k, hidden = (size_t)c->hidden;
    e->arrivals = (size_t)arrivals;
    free(e->received);
    free(e->selections);
    free(e->expert_out);
    free(e->packed);
    e->received = kern_calloc((size_t)arrivals, e->record_bytes);
    e->selections = kern_calloc((size_t)c->owned * selections, sizeof *e->selections);
    e->expert_out = kern_calloc(selections * hidden, sizeof *e->expert_out);
    e->packed = kern_calloc(selections * hidden, sizeof *e->packed);
}

static void dispatch(struct exchange *e)
{
    const struct config *c = &e->config;
    count_records(e);
    MPI_Alltoall(e->to, 1, MPI_INT, e->from, 1, MPI_INT, MPI_COMM_WORLD);
    int arrivals = start_at(e->from, e->from_at, c->ranks);
    make_room(e, arrivals);
    pack_records(e);
    MPI_Alltoallv(e->sent, e->to, e->to_at, e->record, e->received, e->from, e->from_at, e->record,
                  MPI_COMM_WORLD);
    memset(e->counts, 0, (size_t)c->owned * sizeof *e->counts);
    memset(e->back, 0, (size_t)c->ranks * sizeof *e->back);
    for (int source = 0; source < c->ranks; source++)
        for (int i = e->from_at[source]; i < e->from_at[source] + e->from[source]; i++)
            for (int k = 0; k < c->top_k; k++) {
                int32_t expert = routes_of(e, i)[k];
                if (expert < 0)
                    continue;
                size_t list = (size_t)expert * e->arrivals * (size_t)c->top_k;
                e->selections[list + (size_t)e->counts[expert]++] = i * c->top_k + k;
                e->back[source]++;
            }
    start_at(e->back, e->back_at, c->ranks);
}

static void run_experts(struct exchange *e)
{
    const struct config *c = &e->config;
    for (int expert = 0; expert < c->owned; expert++)
        for (int i = 0; i < e->counts[expert]; i++) {
            size_t list = (size_t)expert * e->arrivals * (size_t)c->top_k;
            int32_t selection = e->selections[list + (size_t)i];
            const uint16_t *row =
                (const uint16_t *)(void *)(e->received +
                                           (size_t)(selection / c->top_k) * e->record_bytes +
                                           e->route_bytes);
            float *out = e->expert_out + (size_t)selection * (size_t)c->hidden;
            for (int h = 0; h < c->hidden; h++)
                out[h] = from_bf16(row[h]) * (float)(c->rank * c->owned + expert + 1);
        }
}

static void add_row(float *restrict y, const float *restrict row, float weight, int hidden)
{
    for (int h = 0; h < hidden; h++)
        y[h] += row[h] * weight;
}

static void combine(struct exchange *e)
{
    const struct config *c = &e->config;
    size_t hidden = (size_t)c->hidden;
    float *next = e->packed;
    for (int i = 0; i < (int)e->arrivals; i++)
        for (int k = 0; k < c->top_k; k++)
            if (routes_of(e, i)[k] >= 0) {
                memcpy(next, e->expert_out + (size_t)(i * c->top_k + k) * hidden,
                       hidden * sizeof *next);
                next += hidden;
            }
    MPI_Alltoallv(e->packed, e->back, e->back_at, e->row, e->results, e->returned, e->returned_at,
                  e->row, MPI_COMM_WORLD);
    memcpy(e->cursor, e->returned_at, (size_t)c->ranks * sizeof *e->cursor);
    for (int t = 0; t < c->tokens; t++) {
        float *y = e->y + (size_t)t * hidden;
        memset(y, 0, hidden * sizeof *y);
        for (int k = 0; k < c->top_k; k++) {
            int selection = t * c->top_k + k;
            size_t row = (size_t)e->cursor[e->ids[selection] / c->owned]++;
            add_row(y, e->results + row * hidden, e->weight[selection], c->hidden);
        }
    }
}

// What y must be, by the tokens alone.
static float *expect(const struct exchange *e)
{
    const struct config *c = &e->config;
    size_t hidden = (size_t)c->hidden;
    float *y = kern_calloc((size_t)c->tokens * hidden, sizeof *y);
    for (size_t t = 0; t < (size_t)c->tokens; t++)
        for (size_t k = 0; k < (size_t)c->top_k; k++)
            for (size_t h = 0; h < hidden; h++) {
                size_t selection = t * (size_t)c->top_k + k;
                float row = from_bf16(e->x[t * hidden + h]) * (float)(e->ids[selection] + 1);
                y[t * hidden + h] += row * e->weight[selection];
            }
    return y;
}

static bool write_file(const char *folder, const char *what, int rank,
                       const struct kern_tensor_data *tensors, size_t count)
{
    struct kern_diag diag = {0};
    struct kern_arena arena = {0};
    const char *path = kern_arena_print(&arena, "%s/%s-%d.safetensors", folder, what, rank);
    bool good = kern_safetensors_write(path, tensors, count, &diag);
    kern_diag_print(&diag, stderr, 10);
    kern_diag_clear(&diag);
    kern_arena_free(&arena);
    return good;
}

static bool write_files(const struct exchange *e, const float *expected, const char *folder)
{
    const struct config *c = &e->config;
    uint64_t rows[2] = {(uint64_t)c->tokens, (uint64_t)c->hidden};
    uint64_t choices[2] = {(uint64_t)c->tokens, (uint64_t)c->top_k}, one[1] = {1};
    size_t elements = rows[0] * rows[1], selections = choices[0] * choices[1];
    int32_t error = 0;
    const struct kern_tensor_data inputs[] = {
        {"expert_ids", KERN_I32, choices, 2, e->ids, selections * sizeof *e->ids},
        {"expert_weights", KERN_F32, choices, 2, e->weight, selections * sizeof *e->weight},
        {"x", KERN_BF16, rows, 2, e->x, elements * sizeof *e->x},
    };
    const struct kern_tensor_data outputs[] = {
        {"error", KERN_I32, one, 1, &error, sizeof error},
        {"y", KERN_F32, rows, 2, expected, elements * sizeof *expected},
    };
    return write_file(folder, "inputs", c->rank, inputs, 3) &&
           write_file(folder, "expected", c->rank, outputs, 2);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A step is as slow as its slowest rank, as in kern-rank's report.
static void print_times(const struct config *c, double *seconds, int steps)
{
    if (c->rank == 0)
        MPI_Reduce(MPI_IN_PLACE, seconds, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    else
        MPI_Reduce(seconds, NULL, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (c->rank != 0)
        return;
    qsort(seconds, (size_t)steps, sizeof *seconds, by_value);
    printf("{\"ranks\": %d, \"tokens\": %d, \"steps\": %d, \"step_ns\": {\"min\": %.0f, "
           "\"median\": %.0f, \"max\": %.0f}}\n",
           c->ranks, c->tokens, steps, seconds[0] * 1e9, seconds[steps / 2] * 1e9,
           seconds[steps - 1] * 1e9);
}

static bool run(struct exchange *e, int steps, int warmup, const char *folder)
{
    double *seconds = kern_calloc((size_t)steps, sizeof *seconds);
    draw_tokens(e);
    float *expected = expect(e);
    bool good = folder == NULL || write_files(e, expected, folder);
    dispatch(e);
    run_experts(e);
    for (int step = -warmup; step < steps; step++) {
        double began = MPI_Wtime();
        dispatch(e);
        combine(e);
        if (step >= 0)
            seconds[step] = MPI_Wtime() - began;
    }
    size_t bytes = (size_t)e->config.tokens * (size_t)e->config.hidden * sizeof *e->y;
    if (memcmp(e->y, expected, bytes) != 0) {
        fprintf(stderr, "ep_alltoallv: rank %d: y is not what the tokens give\n", e->config.rank);
        good = false;
    }
    print_times(&e->config, seconds, steps);
    free(expected);
    free(seconds);
    return good;
}

int main(int argc, char **argv)
{
    struct config config;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &config.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &config.ranks);
    int number[6] = {0};
    bool good = argc == 7 || argc == 8;
    for (int i = 0; good && i < 6; i++) {
        number[i] = atoi(argv[i + 1]);
        good = number[i] > 0;
    }
    config.tokens = number[0];
    config.hidden = number[1];
    config.top_k = number[2];
    config.experts = number[3];
    config.owned = config.experts / config.ranks;
    good = good && config.experts % config.ranks == 0 && config.top_k <= config.experts;
    if (good) {
        struct exchange e;
        create(&e, &config);
        good = run(&e, number[4], number[5], argc == 8 ? argv[7] : NULL);
        destroy(&e);
    } else if (config.rank == 0) {
        fprintf(stderr,
                "usage: ep_alltoallv TOKENS HIDDEN TOP_K EXPERTS STEPS WARMUP [FOLDER]\n"
                "(numbers above 0; EXPERTS a multiple of the ranks, TOP_K at most EXPERTS)\n");
    }
    int failed = !good;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
