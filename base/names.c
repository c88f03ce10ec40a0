// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"

struct kern_name_slot {
    const char *name; // NULL: free
    uint64_t hash;
    uint32_t index;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

struct state {
    uint64_t a, b, c, d;
};

static inline void mix(struct state *s)
{
    s->a += s->b;
    s->b = rotate(s->b, 13) ^ s->a;
    s->a = rotate(s->a, 32);
    s->c += s->d;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotate(s->b, 17) ^ s->c;
    s->c = rotate(s->c, 32);
}

// SipHash-1-3 (Aumasson and Bernstein, https://131002.net/siphash): a keyed hash made for tables.
static uint64_t hash_name(const struct kern_names *names, const char *name, size_t length)
{
    uint64_t k0 = names->key[0], k1 = names->key[1];
    struct state s = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                      k1 ^ 0x7465646279746573};
    uint64_t word, last = (uint64_t)length << 56;
    for (; length >= 8; name += 8, length -= 8) {
        memcpy(&word, name, 8);
        s.d ^= word;
        mix(&s);
        s.a ^= word;
    }
    word = 0;
    memcpy(&word, name, length);
    last |= word;
    s.d ^= last;
    mix(&s);
    s.a ^= last;
    s.c ^= 0xff;
    mix(&s);
    mix(&s);
    mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

// The slot that holds [name], or the free one where it belongs.
static struct kern_name_slot *find_slot(const struct kern_names *names, const char *name,
                                        uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & names->mask;; i = (i + 1) & names->mask) {
        struct kern_name_slot *slot = &names->slots[i];
        if (!slot->name || (slot->hash == hash && strcmp(slot->name, name) == 0))
            return slot;
    }
}

static void grow(struct kern_names *names)
{
    struct kern_names larger = *names;
    larger.mask = names->mask ? names->mask * 2 + 1 : 15;
    larger.slots = kern_calloc((size_t)larger.mask + 1, sizeof *larger.slots);
    for (uint32_t i = 0; names->slots && i <= names->mask; i++)
        if (names->slots[i].name)
            *find_slot(&larger, names->slots[i].name, names->slots[i].hash) = names->slots[i];
    free(names->slots);
    *names = larger;
}

uint32_t kern_names_add(struct kern_names *names, const char *name, uint32_t index)
{
    if (!names->slots && getrandom(names->key, sizeof names->key, GRND_NONBLOCK) < 0)
        names->key[0] = (uintptr_t)names;
    if (names->count + 1 > names->mask / 4 * 3)
        grow(names);
    uint64_t hash = hash_name(names, name, strlen(name));
    struct kern_name_slot *slot = find_slot(names, name, hash);
    if (slot->name)
        return slot->index;
    *slot = (struct kern_name_slot){name, hash, index};
    names->count++;
    return KERN_NONE;
}

uint32_t kern_names_find(const struct kern_names *names, const char *name)
{
    if (!names->count)
        return KERN_NONE;
    const struct kern_name_slot *slot = find_slot(names, name, hash_name(names, name, strlen(name)));
    return slot->name ? slot->index : KERN_NONE;
}

void kern_names_free(struct kern_names *names)
{
    free(names->slots);
    *names = (struct kern_names){0};
}
