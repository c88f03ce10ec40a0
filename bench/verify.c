// SPDX-License-Identifier: Apache-2.0
//
// What reading a manifest costs, measured against json-c's parse of the same bytes into its tree,
// which checks nothing:
//
//     bench_verify time FILE ROUNDS          milliseconds of the processor, and their ratio
//     bench_verify memory kern|json-c FILE   peak resident KiB of a process that does only this
#include <json-c/json.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/memory.h"
#include "manifest/manifest.h"

struct text {
    const char *path;
    char *bytes;
    size_t length;
};

// Time of the processor: nothing waits here, and whoever else is on the machine does not count.
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Parses and verifies; the time without freeing.
static double read_manifest(const struct text *text)
{
    struct kern_diag diag = {0};
    double start = now();
    struct kern_manifest *manifest =
        kern_manifest_parse(text->bytes, text->length, text->path, &diag);
    bool ok = manifest && kern_manifest_verify(manifest, &diag);
    double seconds = now() - start;
    kern_diag_print(&diag, stderr, 10);
    if (!ok)
        exit(KERN_EXIT_MANIFEST);
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return seconds;
}

static double read_tree(const struct text *text)
{
    double start = now();
    struct json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *root = json_tokener_parse_ex(tokener, text->bytes, (int)text->length + 1);
    double seconds = now() - start;
    if (!root) {
        fprintf(stderr, "json-c: %s\n", json_tokener_error_desc(json_tokener_get_error(tokener)));
        exit(KERN_EXIT_MANIFEST);
    }
    json_object_put(root);
    json_tokener_free(tokener);
    // A large request makes malloc gather the pieces of the tree, which is part of freeing it; the
    // next one to ask would pay for that.
    free(kern_calloc(1, 64 << 20));
    return seconds;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void print_times(const struct text *text, size_t rounds)
{
    // What is freed stays with the process, so that both find their pages warm after the first
    // turn.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    double *ours = kern_calloc(rounds, sizeof *ours), *theirs = kern_calloc(rounds, sizeof *theirs);
    double *ratios = kern_calloc(rounds, sizeof *ratios);
    // Once each to warm up.
    read_manifest(text);
    read_tree(text);
    for (size_t i = 0; i < rounds; i++) {
        ours[i] = read_manifest(text);
        theirs[i] = read_tree(text);
        // Of neighbours in time: a machine that others use is not always as fast.
        ratios[i] = ours[i] / theirs[i];
    }
    printf("%.2f %.2f %.3f\n", median(ours, rounds) * 1e3, median(theirs, rounds) * 1e3,
           median(ratios, rounds));
    free(ratios);
    free(ours);
    free(theirs);
}

static void print_peak(void)
{
    char line[256];
    unsigned long peak = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %lu kB", &peak);
    if (file)
        fclose(file);
    printf("%lu\n", peak);
}

int main(int argc, char **argv)
{
    bool time = argc == 4 && strcmp(argv[1], "time") == 0;
    bool memory = argc == 4 && strcmp(argv[1], "memory") == 0;
    if (!time && !memory) {
        fprintf(stderr, "usage: bench_verify time FILE ROUNDS | memory kern|json-c FILE\n");
        return KERN_EXIT_USAGE;
    }
    struct kern_diag diag = {0};
    struct text text = {.path = argv[time ? 2 : 3]};
    text.bytes =
        kern_file_read(text.path, KERN_MANIFEST_BYTES_MAX, &text.length, KERN_EXIT_USAGE, &diag);
    if (!text.bytes) {
        kern_diag_print(&diag, stderr, 10);
        return KERN_EXIT_USAGE;
    }
    if (time) {
        print_times(&text, strtoul(argv[3], NULL, 10));
    } else {
        if (strcmp(argv[2], "kern") == 0)
            read_manifest(&text);
        else
            read_tree(&text);
        print_peak();
    }
    free(text.bytes);
    return KERN_EXIT_OK;
}
