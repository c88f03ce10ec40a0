// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/memory.h"

void kern_sha256(const void *bytes, size_t length, uint8_t digest[KERN_SHA256_BYTES])
{
    // The digest itself cannot fail; what can is OpenSSL's allocation of its context.
    if (!EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL))
        kern_out_of_memory(length);
}

void kern_sha256_to_hex(const uint8_t digest[KERN_SHA256_BYTES], char hex[KERN_SHA256_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < KERN_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[KERN_SHA256_HEX] = '\0';
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool kern_sha256_from_hex(const char *hex, uint8_t digest[KERN_SHA256_BYTES])
{
    if (strlen(hex) != KERN_SHA256_HEX)
        return false;
    for (size_t i = 0; i < KERN_SHA256_BYTES; i++) {
        int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
