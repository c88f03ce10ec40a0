// SPDX-License-Identifier: Apache-2.0
#include "base/siphash.h"

#include <string.h>
#include <sys/random.h>

struct state {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

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

void kern_siphash_key(uint64_t key[2])
{
    // Where the system has no random numbers yet, the address says at least something.
    if (getrandom(key, 2 * sizeof *key, GRND_NONBLOCK) < 0)
        key[0] = (uintptr_t)key;
}

uint64_t kern_siphash(const uint64_t key[2], const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    struct state s = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                      key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    uint64_t word, last = (uint64_t)length << 56;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        s.d ^= word;
        mix(&s);
        s.a ^= word;
    }
    word = 0;
    memcpy(&word, at, length);
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
