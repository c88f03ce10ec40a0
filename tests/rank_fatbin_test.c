// SPDX-License-Identifier: Apache-2.0
//
// Telling artifacts apart and splitting fatbin containers, of well-formed and of hostile bytes.
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "rank/internal.h"

#define HEADER_BYTES 16

static void put_container(uint8_t *at, uint16_t header_bytes, uint64_t payload)
{
    uint32_t magic = 0xBA55ED50u;
    memcpy(at, &magic, 4);
    memcpy(at + 6, &header_bytes, 2);
    memcpy(at + 8, &payload, 8);
}

// Section 1 holds two containers at [begin] and [begin] + 40; section 2 the names.
struct object {
    Elf64_Ehdr header;
    uint8_t fatbin[96];
    char names[32];
    Elf64_Shdr sections[3];
};

static struct object good_object(void)
{
    struct object object = {
        .header = {.e_machine = EM_X86_64,
                   .e_shoff = offsetof(struct object, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3,
                   .e_shstrndx = 2},
        .names = "\0.nv_fatbin\0.shstrtab",
        .sections = {{0},
                     {.sh_name = 1,
                      .sh_type = SHT_PROGBITS,
                      .sh_offset = offsetof(struct object, fatbin),
                      .sh_size = sizeof(object.fatbin)},
                     {.sh_name = 12,
                      .sh_type = SHT_STRTAB,
                      .sh_offset = offsetof(struct object, names),
                      .sh_size = sizeof(object.names)}},
    };
    memcpy(object.header.e_ident, ELFMAG, SELFMAG);
    object.header.e_ident[EI_CLASS] = ELFCLASS64;
    object.header.e_ident[EI_DATA] = ELFDATA2LSB;
    put_container(object.fatbin, HEADER_BYTES, 20);
    put_container(object.fatbin + 40, HEADER_BYTES, 8);
    return object;
}

static size_t split(const void *bytes, size_t length, struct rank_span *spans)
{
    struct kern_diag diag = {0};
    struct rank_span *found = NULL;
    size_t count = 0;
    bool ok = rank_fatbin_split(bytes, length, "artifact", &found, &count, &diag);
    assert_int_equal(ok, diag.errors == 0);
    assert_int_equal(kern_diag_code(&diag), ok ? KERN_EXIT_OK : KERN_EXIT_ARTIFACT);
    for (size_t i = 0; spans != NULL && i < count; i++) {
        spans[i] = found[i];
    }
    free(found);
    kern_diag_clear(&diag);
    return ok ? count : 0;
}

static void kinds_are_told_by_the_first_bytes(void **state)
{
    (void)state;
    struct object object = good_object();
    assert_int_equal(rank_image_kind((uint8_t *)&object, sizeof(object)), RANK_IMAGE_SHARED_OBJECT);
    object.header.e_machine = 190;
    assert_int_equal(rank_image_kind((uint8_t *)&object, sizeof(object)), RANK_IMAGE_CUBIN);
    assert_int_equal(rank_image_kind((uint8_t *)&object, 20), RANK_IMAGE_UNKNOWN);
    assert_int_equal(rank_image_kind(object.fatbin, sizeof(object.fatbin)), RANK_IMAGE_FATBIN);
    const char ptx[] = "// a comment\n.version 8.0\n.target sm_90\n";
    assert_int_equal(rank_image_kind((const uint8_t *)ptx, strlen(ptx)), RANK_IMAGE_PTX);
    assert_int_equal(rank_image_kind((const uint8_t *)"version", 7), RANK_IMAGE_UNKNOWN);
    assert_int_equal(rank_image_kind((const uint8_t *)"", 0), RANK_IMAGE_UNKNOWN);
}

static void containers_of_a_shared_object(void **state)
{
    (void)state;
    struct object object = good_object();
    struct rank_span spans[4];
    assert_int_equal(split(&object, sizeof(object), spans), 2);
    assert_int_equal(spans[0].offset, offsetof(struct object, fatbin));
    assert_int_equal(spans[0].length, 36);
    assert_int_equal(spans[1].offset, offsetof(struct object, fatbin) + 40);
    assert_int_equal(spans[1].length, 24);
}

static void containers_of_a_plain_fatbin(void **state)
{
    (void)state;
    struct object object = good_object();
    struct rank_span spans[4] = {0};
    assert_int_equal(split(object.fatbin, sizeof(object.fatbin), spans), 2);
    assert_int_equal(spans[1].offset, 40);
}

static void a_shared_object_without_device_code(void **state)
{
    (void)state;
    struct object object = good_object();
    memcpy(object.names + 1, ".nv_xxxxxx", 10);
    assert_int_equal(split(&object, sizeof(object), NULL), 0);
}

// Section 0 is none, so that what stands in its header is nobody's: not the names either.
static void a_shared_object_whose_sections_have_no_names(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct object object = good_object();
    object.header.e_shstrndx = SHN_UNDEF;
    object.sections[0] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = UINT64_C(1) << 60, .sh_size = UINT64_C(1) << 50};
    assert_true(rank_elf_check((uint8_t *)&object, sizeof(object), "artifact", &diag));
    assert_int_equal(split(&object, sizeof(object), NULL), 0);
}

// Each of these must be refused, and no byte outside the copy be read, which a sanitizer sees.
static void hostile_headers(void **state)
{
    (void)state;
    struct object good = good_object();
    static const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
    } changes[] = {
        {offsetof(struct object, header.e_shoff), UINT64_MAX, 8},
        {offsetof(struct object, header.e_shoff), sizeof(struct object) - 10, 8},
        {offsetof(struct object, header.e_shnum), 0xfeff, 2},
        {offsetof(struct object, header.e_shentsize), 8, 2},
        {offsetof(struct object, header.e_shstrndx), 3, 2},
        {offsetof(struct object, sections[1].sh_offset), UINT64_MAX - 4, 8},
        {offsetof(struct object, sections[1].sh_size), UINT64_MAX, 8},
        {offsetof(struct object, sections[2].sh_size), sizeof(struct object), 8},
        {offsetof(struct object, sections[1].sh_name), UINT32_MAX, 4},
        {offsetof(struct object, fatbin) + 6, 0, 2},
        {offsetof(struct object, fatbin) + 6, 0xffff, 2},
        {offsetof(struct object, fatbin) + 8, UINT64_MAX - 15, 8},
        {offsetof(struct object, fatbin) + 8, 81, 8},
        {offsetof(struct object, fatbin) + 40, 1, 4},
        {offsetof(struct object, fatbin) + 90, 0x50, 1},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        struct object *object = malloc(sizeof(*object));
        assert_non_null(object);
        *object = good;
        memcpy((uint8_t *)object + changes[i].at, &changes[i].value, changes[i].bytes);
        if (split(object, sizeof(*object), NULL) != 0) {
            fail_msg("change %zu was not noticed", i);
        }
        free(object);
    }
}

static void every_truncation(void **state)
{
    (void)state;
    struct object good = good_object();
    for (size_t length = 1; length < sizeof(good); length++) {
        uint8_t *bytes = malloc(length);
        assert_non_null(bytes);
        memcpy(bytes, &good, length);
        assert_int_equal(split(bytes, length, NULL), 0);
        free(bytes);
    }
}

// What nvcc makes of the examples' kernels, where it is there.
static void containers_of_a_real_artifact(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    size_t length = 0, count = 0;
    struct rank_span *spans = NULL;
    char *bytes = kern_file_read(KERN_BUILD_DIR "/kernels/toy_scale.so", 1 << 26, &length,
                                 KERN_EXIT_USAGE, &diag);
    kern_diag_clear(&diag);
    if (bytes == NULL || memmem(bytes, length, ".nv_fatbin", 10) == NULL) {
        free(bytes);
        skip();
        return; // skip() does not return, which not every reader of this knows
    }
    assert_int_equal(rank_image_kind((uint8_t *)bytes, length), RANK_IMAGE_SHARED_OBJECT);
    assert_true(rank_fatbin_split((uint8_t *)bytes, length, "toy", &spans, &count, &diag));
    assert_true(count >= 1);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rank_image_kind((uint8_t *)bytes + spans[i].offset, spans[i].length),
                         RANK_IMAGE_FATBIN);
    }
    free(spans);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told_by_the_first_bytes),
        cmocka_unit_test(containers_of_a_shared_object),
        cmocka_unit_test(containers_of_a_plain_fatbin),
        cmocka_unit_test(a_shared_object_without_device_code),
        cmocka_unit_test(a_shared_object_whose_sections_have_no_names),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(containers_of_a_real_artifact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
