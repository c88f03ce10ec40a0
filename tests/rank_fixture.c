// SPDX-License-Identifier: Apache-2.0
#include "tests/rank_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "tests/text.h"

static void fail_with_diag(struct rank_fixture *fixture, const char *what)
{
    kern_diag_print(&fixture->diag, stderr, 20);
    fail_msg("%s failed", what);
}

// The manifest's text with " for ' and the artifact's digest for @SHA; the caller frees it.
static char *manifest_text(struct rank_fixture *fixture, const char *json)
{
    size_t length = 0;
    const char *path = fixture->artifact != NULL ? fixture->artifact : FIXTURE_ARTIFACT;
    char *artifact = kern_file_read(path, 1 << 26, &length, KERN_EXIT_USAGE, &fixture->diag);
    if (artifact == NULL) {
        fail_with_diag(fixture, "reading the artifact");
    }
    uint8_t digest[KERN_SHA256_BYTES];
    char hex[KERN_SHA256_HEX + 1];
    kern_sha256(artifact, length, digest);
    kern_sha256_to_hex(digest, hex);
    free(artifact);

    char *text = calloc(1, strlen(json) * 16 + 1);
    assert_non_null(text);
    char *to = text;
    for (const char *from = json; *from != '\0';) {
        if (strncmp(from, "@SHA", 4) == 0) {
            memcpy(to, hex, KERN_SHA256_HEX);
            to += KERN_SHA256_HEX;
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    text_swap(text, '\'', '"');
    return text;
}

bool fixture_create(struct rank_fixture *fixture, const char *json)
{
    static const char *const own_dirs[] = {FIXTURE_DIRECTORY};
    if (fixture->dirs == NULL) {
        fixture->dirs = own_dirs;
        fixture->n_dirs = 1;
    }
    char *text = manifest_text(fixture, json);
    fixture->manifest = kern_manifest_parse(text, strlen(text), "test", &fixture->diag);
    free(text);
    if (fixture->manifest == NULL || !kern_manifest_verify(fixture->manifest, &fixture->diag)) {
        fail_with_diag(fixture, "the manifest");
    }
    kern_diag_clear(&fixture->diag);
    assert_true(fixture->manifest->n_vars <= 8 && fixture->manifest->n_groups <= 8);
    for (size_t v = 0; v < 8; v++) {
        fixture->vars[v] = 1;
    }
    if (fixture->device == NULL) {
        fixture->device = kern_device_open(KERN_DEVICE_WANT_EMU,
                                           KERN_BUILD_DIR "/lib/libkern-emu.so", &fixture->diag);
    }
    if (fixture->device == NULL) {
        return false;
    }
    struct kern_rank_config config = {
        .device = fixture->device,
        .ordinal = fixture->ordinal,
        .manifest = fixture->manifest,
        .group_index = fixture->group_index,
        .kernel_dirs = fixture->dirs,
        .n_kernel_dirs = fixture->n_dirs,
        .capacity = fixture->capacity,
        .seqs = fixture->seqs,
        .graphs = fixture->graphs,
    };
    fixture->rank = kern_rank_create(&config, &fixture->diag);
    return fixture->rank != NULL;
}

// Memory of this process alone, as if it had the node for itself.
static bool adopt_host_weights(struct rank_fixture *fixture)
{
    const struct kern_host_weight *weights;
    size_t count = kern_rank_host_weights(fixture->rank, &weights);
    for (size_t i = 0; i < count; i++) {
        void *memory = mmap(NULL, weights[i].bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED);
        if (!kern_rank_adopt_host_weight(fixture->rank, weights[i].buffer, memory, true,
                                         &fixture->diag)) {
            munmap(memory, weights[i].bytes);
            return false;
        }
    }
    return true;
}

bool fixture_try(struct rank_fixture *fixture, const char *json)
{
    return fixture_create(fixture, json) && kern_rank_load_modules(fixture->rank, &fixture->diag) &&
           kern_rank_allocate(fixture->rank, KERN_HANDLE_FABRIC, &fixture->diag) &&
           adopt_host_weights(fixture) && kern_rank_compile(fixture->rank, &fixture->diag);
}

void fixture_open(struct rank_fixture *fixture, const char *json)
{
    if (!fixture_try(fixture, json)) {
        fail_with_diag(fixture, "making the rank");
    }
}

struct kern_emu_stats fixture_stats(const struct rank_fixture *fixture)
{
    int (*read_stats)(int, struct kern_emu_stats *) =
        (int (*)(int, struct kern_emu_stats *))dlsym(fixture->device->handle, "kern_emu_stats");
    assert_non_null(read_stats);
    struct kern_emu_stats stats = {0};
    assert_int_equal(read_stats(0, &stats), 0);
    return stats;
}

void fixture_close(struct rank_fixture *fixture)
{
    kern_rank_destroy(fixture->rank, false);
    struct kern_emu_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.streams + stats.events + stats.modules + stats.functions, 0);
    assert_int_equal(stats.graphs + stats.graph_execs, 0);
    assert_int_equal(stats.memory_handles + stats.mappings + stats.reservations, 0);
    assert_int_equal(stats.allocations + stats.host_ranges, 0);
    kern_device_close(fixture->device);
    kern_manifest_destroy(fixture->manifest);
    kern_diag_clear(&fixture->diag);
    *fixture = (struct rank_fixture){0};
}

uint32_t fixture_buffer(const struct rank_fixture *fixture, const char *name)
{
    uint32_t index = kern_names_find(&fixture->manifest->buffer_names, name);
    assert_true(index != KERN_NONE);
    return index;
}

uint32_t fixture_program(const struct rank_fixture *fixture, const char *name)
{
    uint32_t index = kern_names_find(&fixture->manifest->program_names, name);
    assert_true(index != KERN_NONE);
    return index;
}

void fixture_set_var(struct rank_fixture *fixture, const char *name, uint64_t value)
{
    uint32_t index = kern_names_find(&fixture->manifest->var_names, name);
    assert_true(index != KERN_NONE);
    fixture->vars[index] = value;
}

void fixture_run(struct rank_fixture *fixture, const char *program)
{
    if (!kern_rank_issue(fixture->rank, fixture_program(fixture, program), fixture->vars,
                         &fixture->diag) ||
        !kern_rank_wait(fixture->rank, kern_deadline_in(20), NULL, &fixture->diag)) {
        fail_with_diag(fixture, program);
    }
}

void fixture_write(struct rank_fixture *fixture, const char *buffer, const void *bytes,
                   size_t length)
{
    if (!kern_rank_write(fixture->rank, fixture_buffer(fixture, buffer), bytes, length,
                         fixture->vars, &fixture->diag)) {
        fail_with_diag(fixture, buffer);
    }
}

void fixture_read(struct rank_fixture *fixture, const char *buffer, void *bytes, size_t length)
{
    if (!kern_rank_read(fixture->rank, fixture_buffer(fixture, buffer), bytes, length,
                        &fixture->diag)) {
        fail_with_diag(fixture, buffer);
    }
}

void fixture_expect(struct rank_fixture *fixture, enum kern_exit code, ...)
{
    if (kern_diag_code(&fixture->diag) != code) {
        fail_with_diag(fixture, "expecting another exit code: this");
    }
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < fixture->diag.count && found == SIZE_MAX; i++) {
        const char *line = kern_diag_line(&fixture->diag, i);
        bool all = true;
        va_list texts;
        va_start(texts, code);
        for (const char *text = va_arg(texts, const char *); text != NULL;
             text = va_arg(texts, const char *)) {
            all = all && strstr(line, text) != NULL;
        }
        va_end(texts);
        found = all ? i : SIZE_MAX;
    }
    if (found == SIZE_MAX) {
        fail_with_diag(fixture, "expecting another text: this");
    }
    kern_diag_clear(&fixture->diag);
}
