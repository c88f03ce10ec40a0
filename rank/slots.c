// SPDX-License-Identifier: Apache-2.0
//
// The slots of a program: what of its launches depends on vars. The calls of a model's layers ask
// for the same few values over and over.
#include "rank/internal.h"

// Among so many slots made last an expression is looked for, so that a manifest with very many
// different ones takes no longer to compile than in proportion to them.
#define SLOTS_SEARCHED 64

static bool same_expr(const struct kern_expr *a, const struct kern_expr *b)
{
    if (a == NULL || b == NULL || a == b) {
        return a == b;
    }
    return a->kind == b->kind && a->var.index == b->var.index && a->value == b->value &&
           a->length == b->length && same_expr(a->a, b->a) && same_expr(a->b, b->b);
}

static struct rank_slot *find(const struct rank_program *program, const struct kern_expr *expr)
{
    struct rank_slot *slot = program->slots;
    for (int i = 0; slot != NULL && i < SLOTS_SEARCHED; i++, slot = slot->next) {
        if (same_expr(slot->expr, expr)) {
            return slot;
        }
    }
    return NULL;
}

static void depend_on(struct rank_launch *launch, const struct rank_slot *slot)
{
    for (size_t i = 0; i < launch->n_slots; i++) {
        if (launch->slots[i] == slot) {
            return;
        }
    }
    launch->slots[launch->n_slots++] = slot;
}

struct rank_slot *rank_slot_take(struct rank_call_site *site, const struct kern_expr *expr)
{
    struct rank_program *program = site->program;
    struct rank_slot *slot = find(program, expr);
    if (slot == NULL) {
        slot = kern_arena_alloc(&site->rank->arena, sizeof(*slot));
        *slot = (struct rank_slot){.expr = expr, .next = program->slots};
        program->slots = slot;
        kern_expr_vars(expr, program->reads_var);
    }
    depend_on(site->launch, slot);
    return slot;
}
