// SPDX-License-Identifier: Apache-2.0
//
// What is generated, on rank 0's standard output: as text where there is a vocabulary, else as the
// numbers that --prompt-ids takes. One prompt's comes token by token; of several, each comes whole
// when it has ended.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "launcher/generate.h"

// "<0x0A>" is a byte that no piece has.
static bool is_byte(const char *piece, unsigned *byte)
{
    int end = 0;
    return strlen(piece) == 6 && sscanf(piece, "<0x%2x>%n", byte, &end) == 1 && end == 6;
}

// "<s>" and the like, which some write with line ends round them, mark a place and are no text.
static bool is_mark(const char *piece)
{
    static const char *const marks[] = {"<s>", "</s>", "<unk>", "<pad>"};
    size_t lead = strspn(piece, "\n");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t length = strlen(marks[i]);
        if (strncmp(piece + lead, marks[i], length) == 0 &&
            piece[lead + length + strspn(piece + lead + length, "\n")] == '\0')
            return true;
    }
    return false;
}

// Puts "▁", with which SentencePiece writes a space, back to one.
static void put_piece(const char *piece, bool first)
{
    static const char space[] = "\xe2\x96\x81";
    unsigned byte;
    if (is_mark(piece))
        return;
    if (is_byte(piece, &byte)) {
        putchar((int)byte);
        return;
    }
    for (const char *at = piece; *at;) {
        bool is_space = strncmp(at, space, strlen(space)) == 0;
        size_t length = is_space ? strlen(space) : 1;
        // The space before the first word is the tokenizer's.
        if (is_space || *at == ' ')
            fputs(first && at == piece ? "" : " ", stdout);
        else
            putchar((unsigned char)*at);
        at += length;
    }
}

static bool read_piece(const struct kern_json_document *document, const struct kern_json_node *node,
                       size_t index, struct kern_vocabulary *vocabulary, const char *path,
                       struct kern_arena *arena, struct kern_diag *diag)
{
    if (node->kind == KERN_JSON_ARRAY && node->size > 0)
        node = kern_json_first(node);
    if (node->kind != KERN_JSON_STRING)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                         "element %zu is neither a piece of text nor [piece, score]", index);
    vocabulary->pieces[index] = kern_json_copy(document, node, arena);
    return true;
}

bool kern_vocabulary_read(const char *path, struct kern_vocabulary *vocabulary,
                          struct kern_arena *arena, struct kern_diag *diag)
{
    enum { DEPTH = 8, BYTES_MAX = 256 << 20 };
    struct kern_json_document document = {0};
    struct kern_json_error error;
    size_t length;
    char *text = kern_file_read(path, BYTES_MAX, &length, KERN_EXIT_USAGE, diag);
    bool good = text != NULL;
    if (good && !kern_json_parse(&document, text, length, DEPTH, &error))
        good = kern_fail(diag, KERN_EXIT_ARTIFACT, path, "byte %zu: %s", error.at, error.text);
    if (good && document.nodes[0].kind != KERN_JSON_ARRAY)
        good = kern_fail(diag, KERN_EXIT_ARTIFACT, path, "is no array with a piece of each token");
    if (good) {
        size_t count = document.nodes[0].size;
        vocabulary->pieces = kern_arena_array(arena, count, sizeof *vocabulary->pieces);
        const struct kern_json_node *node = kern_json_first(document.nodes);
        for (size_t i = 0; good && i < count; i++, node = kern_json_next(node))
            good = read_piece(&document, node, i, vocabulary, path, arena, diag);
        vocabulary->count = count;
    }
    kern_json_free(&document);
    free(text);
    return good;
}

// The piece of a token, NULL if the vocabulary has none of it.
static const char *piece_of(const struct kern_vocabulary *vocabulary, int64_t id)
{
    return id >= 0 && (uint64_t)id < vocabulary->count ? vocabulary->pieces[id] : NULL;
}

// Puts token [index] of the text, counted through the prompt and what follows it.
static void put_token(const struct kern_run *run, const struct kern_sequence *sequence,
                      size_t index)
{
    const struct kern_vocabulary *vocabulary = &run->generation->vocabulary;
    bool prompt = index < sequence->n_prompt;
    int64_t id = prompt ? sequence->prompt[index] : sequence->ids[index - sequence->n_prompt];
    if (!vocabulary->pieces) {
        printf("%s%" PRId64, index > sequence->n_prompt ? "," : "", id);
        return;
    }
    const char *piece = piece_of(vocabulary, id), *before = NULL;
    if (index == 1)
        before = piece_of(vocabulary, sequence->prompt[0]);
    if (piece)
        put_piece(piece, index == 0 || (before && is_mark(before)));
    else
        printf("<%" PRId64 ">", id);
}

// A text begins with its prompt; of numbers, only those that follow it are shown.
static void put_from(const struct kern_run *run, const struct kern_sequence *sequence, size_t first)
{
    if (!run->generation->vocabulary.pieces && first < sequence->n_prompt)
        first = sequence->n_prompt;
    for (size_t i = first; i < sequence->n_prompt + sequence->n_ids; i++)
        put_token(run, sequence, i);
    fflush(stdout);
}

void kern_generate_show_new(const struct kern_run *run, const struct kern_sequence *sequence,
                            size_t first)
{
    if (run->world.rank == 0 && !run->is_other && run->generation->count == 1)
        put_from(run, sequence, first);
}

void kern_generate_show_end(const struct kern_run *run, const struct kern_sequence *sequence)
{
    if (run->world.rank != 0 || run->is_other)
        return;
    if (run->generation->count > 1) {
        printf("# prompt %td\n", sequence - run->generation->sequences + 1);
        put_from(run, sequence, 0);
    }
    putchar('\n');
    fflush(stdout);
}
