// SPDX-License-Identifier: Apache-2.0
//
// The table of live handles. A handle's value holds, from the top bit down, a magic number (12
// bits), the kind (4), the generation of the slot (24) and the slot's number plus one (24). Ending
// a handle moves its slot to the next generation, so an old value never comes to mean a new object;
// a slot whose generations are used up is not used again.
#include "emu/internal.h"

#include <pthread.h>
#include <stdlib.h>

#define MAGIC ((uint64_t)0xE5A)
#define GENERATIONS ((uint32_t)1 << 24)
#define MAX_SLOTS (((uint32_t)1 << 24) - 1)
#define NO_SLOT UINT32_MAX

struct slot {
    struct emu_handle *object; // NULL while the slot is free
    uint32_t generation;
    uint32_t next_free;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static uint32_t n_slots;
// Free slots wait in a queue, so that each generation lasts as long as possible.
static uint32_t first_free = NO_SLOT;
static uint32_t last_free = NO_SLOT;
static size_t counts[EMU_KINDS];

static uint64_t make_value(enum emu_kind kind, uint32_t slot, uint32_t generation)
{
    return MAGIC << 52 | (uint64_t)kind << 48 | (uint64_t)generation << 24 | (slot + 1);
}

static enum emu_kind kind_of(uint64_t value)
{
    return (enum emu_kind)(value >> 48 & 0xf);
}

static void push_free(uint32_t slot)
{
    slots[slot].next_free = NO_SLOT;
    if (last_free == NO_SLOT) {
        first_free = slot;
    } else {
        slots[last_free].next_free = slot;
    }
    last_free = slot;
}

static uint32_t pop_free(void)
{
    uint32_t slot = first_free;
    if (slot != NO_SLOT) {
        first_free = slots[slot].next_free;
        if (first_free == NO_SLOT) {
            last_free = NO_SLOT;
        }
    }
    return slot;
}

static bool grow(void)
{
    uint32_t n = n_slots == 0 ? 256 : n_slots * 2;
    if (n > MAX_SLOTS) {
        n = MAX_SLOTS;
    }
    struct slot *more = n == n_slots ? NULL : realloc(slots, n * sizeof *slots);
    if (more == NULL) {
        return false;
    }
    slots = more;
    for (uint32_t i = n_slots; i < n; i++) {
        slots[i] = (struct slot){.next_free = NO_SLOT};
        push_free(i);
    }
    n_slots = n;
    return true;
}

// The slot of a live handle, or NULL; the table is locked.
static struct slot *find_slot(uint64_t value, enum emu_kind kind)
{
    uint32_t slot = (uint32_t)(value & 0xffffff) - 1;
    if (value >> 52 != MAGIC || kind_of(value) != kind || slot >= n_slots) {
        return NULL;
    }
    struct slot *found = &slots[slot];
    return found->object != NULL && found->object->value == value ? found : NULL;
}

void *emu_handle_new(enum emu_kind kind, size_t bytes, struct emu_context *context,
                     void (*destroy)(void *object))
{
    struct emu_handle *object = calloc(1, bytes);
    if (object == NULL) {
        return NULL;
    }
    object->context = context;
    object->destroy = destroy == NULL ? free : destroy;
    atomic_init(&object->references, 1);
    pthread_mutex_lock(&table_lock);
    uint32_t slot = first_free == NO_SLOT && !grow() ? NO_SLOT : pop_free();
    if (slot != NO_SLOT) {
        object->value = make_value(kind, slot, slots[slot].generation);
        slots[slot].object = object;
        counts[kind]++;
    }
    pthread_mutex_unlock(&table_lock);
    if (slot == NO_SLOT) {
        free(object);
        return NULL;
    }
    return object;
}

void *emu_handle_live(uint64_t handle, enum emu_kind kind)
{
    pthread_mutex_lock(&table_lock);
    struct slot *slot = find_slot(handle, kind);
    struct emu_handle *object = slot == NULL ? NULL : slot->object;
    pthread_mutex_unlock(&table_lock);
    return object;
}

void *emu_handle_get(uint64_t handle, enum emu_kind kind)
{
    pthread_mutex_lock(&table_lock);
    struct slot *slot = find_slot(handle, kind);
    struct emu_handle *object = slot == NULL ? NULL : slot->object;
    if (object != NULL) {
        atomic_fetch_add(&object->references, 1);
    }
    pthread_mutex_unlock(&table_lock);
    return object;
}

void emu_handle_ref(void *object)
{
    struct emu_handle *handle = object;
    atomic_fetch_add(&handle->references, 1);
}

void emu_handle_put(void *object)
{
    struct emu_handle *handle = object;
    if (atomic_fetch_sub(&handle->references, 1) == 1) {
        handle->destroy(object);
    }
}

// Takes the object out of its slot; the table is locked.
static void end_slot(struct slot *slot)
{
    counts[kind_of(slot->object->value)]--;
    slot->object = NULL;
    slot->generation++;
    if (slot->generation < GENERATIONS) {
        push_free((uint32_t)(slot - slots));
    }
}

bool emu_handle_free(void *object)
{
    struct emu_handle *handle = object;
    pthread_mutex_lock(&table_lock);
    struct slot *slot = find_slot(handle->value, kind_of(handle->value));
    if (slot != NULL) {
        end_slot(slot);
    }
    pthread_mutex_unlock(&table_lock);
    if (slot != NULL) {
        emu_handle_put(object);
    }
    return slot != NULL;
}

void emu_handle_free_all(struct emu_context *context)
{
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&table_lock);
        struct emu_handle *object = i < n_slots ? slots[i].object : NULL;
        bool ends = object != NULL && object->context == context;
        bool last = i >= n_slots;
        if (ends) {
            end_slot(&slots[i]);
        }
        pthread_mutex_unlock(&table_lock);
        if (last) {
            return;
        }
        if (ends) {
            emu_handle_put(object);
        }
    }
}

size_t emu_handle_count(enum emu_kind kind)
{
    pthread_mutex_lock(&table_lock);
    size_t count = counts[kind];
    pthread_mutex_unlock(&table_lock);
    return count;
}
