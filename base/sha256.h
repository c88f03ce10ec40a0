// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_BASE_SHA256_H
#define KERN_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERN_SHA256_BYTES 32
#define KERN_SHA256_HEX 64

// The digest of [length] bytes at [bytes] (FIPS 180-4, by OpenSSL).
void kern_sha256(const void *bytes, size_t length, uint8_t digest[KERN_SHA256_BYTES]);

// Writes the digest as lower-case hex and a NUL.
void kern_sha256_to_hex(const uint8_t digest[KERN_SHA256_BYTES], char hex[KERN_SHA256_HEX + 1]);

// Reads exactly 64 hex digits of either case; false if [hex] is anything else.
bool kern_sha256_from_hex(const char *hex, uint8_t digest[KERN_SHA256_BYTES]);

#endif
