// SPDX-License-Identifier: Apache-2.0
//
// E. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986): for each
// number d of elements without a match, how far one gets on each diagonal k = x - y, where x and y
// count elements of a and b. Row d of the table holds the diagonals -d, -d + 2, … d.
#include "manifest/align.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/names.h"

// The table then has two million entries.
#define UNMATCHED_MAX 2048

struct alignment {
    const uint32_t *a, *b;
    int64_t n, m;
    int64_t *rows[UNMATCHED_MAX + 1];
    int64_t last; // the row that reaches both ends, or -1
};

static int64_t furthest(const struct alignment *alignment, int64_t row, int64_t diagonal)
{
    return alignment->rows[row][(diagonal + row) / 2];
}

// Whether diagonal [k] of row [d] > 0 is best reached from the one above it, by an element of b.
static bool comes_from_above(const struct alignment *alignment, int64_t d, int64_t k)
{
    return k == -d ||
           (k != d && furthest(alignment, d - 1, k - 1) < furthest(alignment, d - 1, k + 1));
}

// Where diagonal [k] of row [d] begins, before equal elements are passed.
static int64_t begin_of(const struct alignment *alignment, int64_t d, int64_t k)
{
    if (d == 0)
        return 0;
    return comes_from_above(alignment, d, k) ? furthest(alignment, d - 1, k + 1)
                                             : furthest(alignment, d - 1, k - 1) + 1;
}

static void fill_row(struct alignment *alignment, int64_t d)
{
    alignment->rows[d] = kern_calloc((size_t)d + 1, sizeof **alignment->rows);
    for (int64_t k = -d; k <= d; k += 2) {
        int64_t x = begin_of(alignment, d, k);
        while (x < alignment->n && x - k < alignment->m && alignment->a[x] == alignment->b[x - k])
            x++;
        alignment->rows[d][(k + d) / 2] = x;
        if (x >= alignment->n && x - k >= alignment->m)
            alignment->last = d;
    }
}

static void trace_back(const struct alignment *alignment, uint32_t first_b, uint32_t *matches)
{
    int64_t x = alignment->n;
    int64_t k = alignment->n - alignment->m;
    for (int64_t d = alignment->last; d >= 0; d--) {
        for (int64_t begin = begin_of(alignment, d, k); x > begin; x--)
            matches[x - 1] = first_b + (uint32_t)(x - 1 - k);
        if (d == 0)
            break;
        bool above = comes_from_above(alignment, d, k);
        k += above ? 1 : -1;
        x -= !above;
    }
}

static void align_middle(struct alignment *alignment, uint32_t first_b, uint32_t *matches)
{
    int64_t d = 0;
    alignment->last = -1;
    for (; d <= UNMATCHED_MAX && alignment->last < 0; d++)
        fill_row(alignment, d);
    if (alignment->last >= 0)
        trace_back(alignment, first_b, matches);
    while (d-- > 0)
        free(alignment->rows[d]);
}

void kern_align(const uint32_t *a, size_t n, const uint32_t *b, size_t m, uint32_t *matches)
{
    size_t head = 0, tail = 0;
    while (head < n && head < m && a[head] == b[head])
        head++;
    while (tail < n - head && tail < m - head && a[n - 1 - tail] == b[m - 1 - tail])
        tail++;
    for (size_t i = 0; i < n; i++)
        matches[i] = i < head ? (uint32_t)i : i >= n - tail ? (uint32_t)(m - n + i) : KERN_NONE;
    struct alignment *alignment = kern_calloc(1, sizeof *alignment);
    alignment->a = a + head;
    alignment->b = b + head;
    alignment->n = (int64_t)(n - head - tail);
    alignment->m = (int64_t)(m - head - tail);
    align_middle(alignment, (uint32_t)head, matches + head);
    free(alignment);
}
