// SPDX-License-Identifier: Apache-2.0
//
// Texts that are made to take much memory for their size: parsing and verifying one takes no more
// than 64 times its bytes, the process itself 16 MiB aside. Each is tried by a process of its own,
// whose peak is read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "manifest/manifest.h"

enum { TEXT_BYTES = 2 << 20 };

// A text: [before], then [unit] again and again, then [after]. A "%zu" in the unit counts.
static const struct {
    const char *before, *unit, *after;
} shapes[] = {
    {"[", "{},", "0]"},
    {"[", "[],", "0]"},
    {"[", "{\"a\":{}},", "0]"},
    {"[", "0,", "0]"},
    {"[", "1e-7,", "0]"},
    {"[", "null,", "0]"},
    {"[", "\"\",", "0]"},
    {"[", "\"\\n\",", "0]"},
    {"[", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],", "0]"},
    {"{\"a\":\"", "x", "\"}"},
    {"{\"a\":\"", "\\u00e9", "\"}"},
    {"{\"", "x", "\":0}"},
    {"{", "\"a\":{},", "\"a\":0}"},
    {"{", "\"%zx\":{},", "\"a\":0}"},
    {"{", "\"\\u0061%zx\":0,", "\"a\":0}"},
    {"{\"constants\":{", "\"%zx\":0,", "\"a\":0}}"},
    {"{\"vars\":{", "\"%zx\":{},", "\"a\":0}}"},
    {"{\"vars\":{", "\"%zx\":{\"max\":1},", "\"a\":0}}"},
    {"{\"buffers\":{", "\"%zx\":0,", "\"a\":0}}"},
    {"{\"buffers\":{", "\"%zx\":{\"domain\":{}},", "\"a\":0}}"},
    {"{\"buffers\":{\"a\":{\"shape\":[", "0,", "0]}}}"},
    {"{\"buffers\":{\"a\":{\"bind\":[", "{},", "0]}}}"},
    {"{\"buffers\":{\"a\":{\"bind\":[", "{\"tensor\":\"\"},", "0]}}}"},
    {"{\"ops\":{", "\"%zx\":{},", "\"a\":0}}"},
    {"{\"ops\":{\"f\":{\"params\":[", "\"u8\",", "\"u8\"]}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[", "{},", "0]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[", "0,", "0]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[", "{\"entry\":\"\"},", "0]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[", "{\"algo\":{},\"when\":{}},", "0]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[", "{\"grid\":[0,0,0]},", "0]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[{\"args\":[", "{\"u8\":0},", "0]}]}}}}"},
    {"{\"ops\":{\"f\":{\"impl\":{\"launches\":[{\"args\":[{\"pack\":{\"fields\":[", "{\"at\":0},",
     "0]}}]}]}}}}"},
    {"{\"programs\":{\"p\":{\"calls\":[", "{},", "0]}}}"},
    {"{\"programs\":{\"p\":{\"calls\":[", "{\"op\":\"\",\"args\":[]},", "0]}}}"},
    {"{\"programs\":{\"p\":{\"calls\":[{\"args\":[", "{\"expr\":0},", "0]}]}}}"},
    // A manifest that verifies, but for what uses the vars.
    {"{\"schema_version\":7,\"model\":\"\",\"buffers\":{},\"modules\":{},\"ops\":{},"
     "\"programs\":{\"p\":{\"calls\":[]}},\"vars\":{",
     "\"%zx\":{\"max\":1},", "\"a\":{\"max\":1}}}"},
};

static char *write_text(size_t shape)
{
    const char *unit = shapes[shape].unit;
    char *text = kern_calloc(1, TEXT_BYTES + 256), *at = stpcpy(text, shapes[shape].before);
    for (size_t i = 0; at < text + TEXT_BYTES; i++) {
        const char *count = strstr(unit, "%zx");
        if (count)
            at += snprintf(at, 64, "%.*s%zx%s", (int)(count - unit), unit, i, count + 3);
        else
            at = stpcpy(at, unit);
    }
    snprintf(at, (size_t)(text + TEXT_BYTES + 256 - at), "%s", shapes[shape].after);
    return text;
}

static void parse_and_verify(const char *text)
{
    struct kern_diag diag = {0};
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "m.json", &diag);
    if (manifest)
        kern_manifest_verify(manifest, &diag);
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
}

static void test_peaks(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); // their own memory is several times as much
#endif
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char *text = write_text(i);
        size_t length = strlen(text);
        struct rusage usage;
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            parse_and_verify(text);
            _exit(0);
        }
        assert_int_equal(wait4(child, &status, 0, &usage), child);
        assert_int_equal(status, 0);
        size_t peak = (size_t)usage.ru_maxrss << 10, most = 64 * length + (16u << 20);
        print_message("%5.1f times the bytes of %s %s...\n", (double)peak / (double)length,
                      shapes[i].before, shapes[i].unit);
        if (peak > most)
            fail_msg("%zu bytes for a text of %zu; there may be %zu", peak, length, most);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peaks)};
    return cmocka_run_group_tests_name("manifest_memory", tests, NULL, NULL);
}
