// SPDX-License-Identifier: Apache-2.0
#include "rank/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

// Larger files are not looked at: no code artifact is that large, checkpoints beside it are.
#define ARTIFACT_BYTES_MAX (1ull << 30)

struct search {
    const struct rank_search *asked;
    struct rank_artifacts *artifacts;
    const char **labels; // per module: the file name at the end of its source
    char **near;         // per module: a file of that name that is not it, or NULL
    size_t missing;      // digests not found yet
    struct kern_digests *digests;
    struct kern_arena arena;
};

// The file name in a source: what follows the last slash, without the revision of a registry ref.
static const char *source_file_name(struct kern_arena *arena, const char *source)
{
    const char *slash = strrchr(source, '/');
    const char *name = slash == NULL ? source : slash + 1;
    size_t length = strlen(name);
    if (strncmp(source, "hf:", 3) == 0) {
        length = strcspn(name, "@");
    }
    return kern_arena_copy(arena, name, length);
}

static void note_near(struct search *search, const char *path, const char *name, const char *text)
{
    for (uint32_t m = 0; m < search->asked->manifest->n_modules; m++) {
        if (search->near[m] == NULL && strcmp(search->labels[m], name) == 0) {
            search->near[m] = kern_arena_print(&search->arena, "%s is there but %s", path, text);
        }
    }
}

// Whether an open file can be an artifact at all: if not, errno is EFBIG.
static bool look_at(int fd, struct stat *status)
{
    if (fstat(fd, status) != 0) {
        return false;
    }
    bool can_be = S_ISREG(status->st_mode) && status->st_size >= 0 &&
                  (uint64_t)status->st_size <= ARTIFACT_BYTES_MAX;
    errno = EFBIG;
    return can_be;
}

// The [bytes] bytes of an open file, or fewer if it has become shorter, with a NUL after them; NULL
// with errno.
static uint8_t *read_artifact(int fd, size_t bytes, size_t *length)
{
    uint8_t *content = malloc(bytes + 1);
    if (content == NULL) {
        return NULL;
    }
    ssize_t got = kern_pread_all(fd, content, bytes, 0);
    if (got < 0) {
        int error = errno;
        free(content);
        errno = error;
        return NULL;
    }
    content[got] = 0;
    *length = (size_t)got;
    return content;
}

// The artifact that waits for the bytes with this digest, or NULL.
static struct rank_artifact *find_wanted(const struct search *search, const uint8_t *digest)
{
    for (size_t i = 0; i < search->artifacts->count; i++) {
        struct rank_artifact *artifact = &search->artifacts->items[i];
        if (artifact->bytes == NULL && memcmp(artifact->digest, digest, KERN_SHA256_BYTES) == 0) {
            return artifact;
        }
    }
    return NULL;
}

static void note_digest(struct search *search, const char *path, const char *name,
                        const uint8_t digest[KERN_SHA256_BYTES])
{
    char hex[KERN_SHA256_HEX + 1];
    kern_sha256_to_hex(digest, hex);
    note_near(search, path, name, kern_arena_print(&search->arena, "its sha256 is %s", hex));
}

// Looks at an open file; false with errno if it cannot be read.
static bool try_open_file(struct search *search, int fd, const char *path, const char *name)
{
    struct stat status;
    if (!look_at(fd, &status)) {
        return false;
    }
    const uint8_t *known = kern_digests_find(search->digests, &status);
    if (known != NULL && find_wanted(search, known) == NULL) {
        note_digest(search, path, name, known);
        return true;
    }
    size_t length;
    uint8_t *bytes = read_artifact(fd, (size_t)status.st_size, &length);
    if (bytes == NULL) {
        return false;
    }
    uint8_t digest[KERN_SHA256_BYTES];
    kern_sha256(bytes, length, digest);
    kern_digests_put(search->digests, &status, digest);
    struct rank_artifact *artifact = find_wanted(search, digest);
    if (artifact == NULL) {
        free(bytes);
        note_digest(search, path, name, digest);
        return true;
    }
    artifact->path = kern_strdup(path);
    artifact->bytes = bytes;
    artifact->length = length;
    search->missing--;
    return true;
}

static void try_file(struct search *search, const char *path, const char *name)
{
    // Not to be held up by a FIFO of somebody's.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool read = fd >= 0 && try_open_file(search, fd, path, name);
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!read && error != EFBIG && error != ENOENT) {
        char *text = kern_arena_print(&search->arena, "cannot be read: %s", strerror(error));
        note_near(search, path, name, text);
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

// Whether a file of a directory may be an artifact by its name. Manifests and checkpoints lie
// beside them, and these are large: they are read only if a module's source is called so.
static bool is_candidate(const struct search *search, const char *name)
{
    for (uint32_t m = 0; m < search->asked->manifest->n_modules; m++) {
        if (strcmp(search->labels[m], name) == 0) {
            return true;
        }
    }
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !ends_with(name, ".json") &&
           !ends_with(name, ".safetensors");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool search_directory(struct search *search, const char *directory, struct kern_diag *diag)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, NULL, by_name);
    if (count < 0) {
        return kern_fail(diag, KERN_EXIT_USAGE, directory,
                         "the directory of kernels cannot be read: %s", strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (search->missing > 0 && is_candidate(search, name)) {
            try_file(search, kern_arena_print(&search->arena, "%s/%s", directory, name), name);
        }
        free(entries[i]);
    }
    free(entries);
    return true;
}

// The directory of the content-addressed cache, or NULL if the environment names none.
static const char *cache_directory(struct kern_arena *arena)
{
    const char *cache = getenv("KERN_CACHE_DIR");
    if (cache != NULL && *cache != '\0') {
        return kern_arena_print(arena, "%s/blobs", cache);
    }
    const char *home = getenv("HOME");
    return home == NULL || *home == '\0' ? NULL
                                         : kern_arena_print(arena, "%s/.cache/kern/blobs", home);
}

static void search_cache(struct search *search)
{
    const char *directory = cache_directory(&search->arena);
    for (size_t i = 0; directory != NULL && i < search->artifacts->count; i++) {
        if (search->artifacts->items[i].bytes == NULL) {
            char hex[KERN_SHA256_HEX + 1];
            kern_sha256_to_hex(search->artifacts->items[i].digest, hex);
            try_file(search, kern_arena_print(&search->arena, "%s/%s", directory, hex), hex);
        }
    }
}

static const char *searched_text(struct search *search)
{
    const char *text = "";
    for (size_t i = 0; i < search->asked->n_kernel_dirs; i++) {
        text = kern_arena_print(&search->arena, "%s%s, ", text, search->asked->kernel_dirs[i]);
    }
    const char *cache = cache_directory(&search->arena);
    return kern_arena_print(&search->arena, "%s%s", text,
                            cache == NULL ? "or a cache (KERN_CACHE_DIR and HOME are not set)"
                                          : cache);
}

static void report_missing(struct search *search, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = search->asked->manifest;
    const char *searched = searched_text(search);
    for (uint32_t m = 0; m < manifest->n_modules; m++) {
        const struct rank_artifact *artifact =
            &search->artifacts->items[search->artifacts->of_module[m]];
        if (artifact->bytes != NULL) {
            continue;
        }
        char hex[KERN_SHA256_HEX + 1];
        kern_sha256_to_hex(artifact->digest, hex);
        const char *place =
            kern_arena_print(&search->arena, "modules.%s", manifest->modules[m].name);
        if (search->near[m] != NULL) {
            kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                      "no artifact of source \"%s\" was found in %s: %s, the manifest pins %s; "
                      "--kernels names other folders",
                      manifest->modules[m].source, searched, search->near[m], hex);
        } else {
            kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                      "no artifact of source \"%s\" with sha256 %s was found in %s; --kernels "
                      "names other folders",
                      manifest->modules[m].source, hex, searched);
        }
    }
}

// Gives every distinct digest an artifact to be filled.
static void list_wanted(struct search *search)
{
    const struct kern_manifest *manifest = search->asked->manifest;
    struct rank_artifacts *artifacts = search->artifacts;
    artifacts->items = kern_calloc(manifest->n_modules + 1, sizeof(*artifacts->items));
    artifacts->of_module = kern_calloc(manifest->n_modules + 1, sizeof(*artifacts->of_module));
    for (uint32_t m = 0; m < manifest->n_modules; m++) {
        const uint8_t *digest = manifest->modules[m].digest;
        size_t i = 0;
        while (i < artifacts->count &&
               memcmp(artifacts->items[i].digest, digest, KERN_SHA256_BYTES) != 0) {
            i++;
        }
        if (i == artifacts->count) {
            artifacts->items[artifacts->count++].digest = digest;
        }
        artifacts->of_module[m] = (uint32_t)i;
    }
    search->missing = artifacts->count;
}

bool rank_artifacts_find(const struct rank_search *asked, struct rank_artifacts *artifacts,
                         struct kern_diag *diag)
{
    uint32_t n_modules = asked->manifest->n_modules;
    *artifacts = (struct rank_artifacts){0};
    struct kern_digests own = {0};
    struct search search = {.asked = asked, .artifacts = artifacts};
    search.digests = asked->digests == NULL ? &own : asked->digests;
    search.labels = kern_arena_array(&search.arena, n_modules, sizeof(*search.labels));
    search.near = kern_arena_array(&search.arena, n_modules, sizeof(*search.near));
    for (uint32_t m = 0; m < n_modules; m++) {
        search.labels[m] = source_file_name(&search.arena, asked->manifest->modules[m].source);
    }
    list_wanted(&search);

    bool ok = true;
    for (size_t i = 0; ok && search.missing > 0 && i < asked->n_kernel_dirs; i++) {
        ok = search_directory(&search, asked->kernel_dirs[i], diag);
    }
    if (ok) {
        search_cache(&search);
        if (search.missing > 0) {
            report_missing(&search, diag);
            ok = false;
        }
    }
    if (!ok) {
        rank_artifacts_free(artifacts);
    }
    kern_digests_free(&own);
    kern_arena_free(&search.arena);
    return ok;
}

void rank_artifacts_free(struct rank_artifacts *artifacts)
{
    for (size_t i = 0; i < artifacts->count; i++) {
        free(artifacts->items[i].path);
        free(artifacts->items[i].bytes);
    }
    free(artifacts->items);
    free(artifacts->of_module);
    *artifacts = (struct rank_artifacts){0};
}
