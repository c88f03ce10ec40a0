// SPDX-License-Identifier: Apache-2.0
#include "manifest/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "manifest/manifest.h"
#include "manifest/place.h"
#include "manifest/scan_keys.h"
#include "manifest/scan_token.h"

// An open object or array.
struct level {
    bool is_object;
    bool repeated;              // object: the member being scanned has a repeated key
    struct kern_scan_keys keys; // object
    struct kern_scan_key key;   // object: of the member being scanned
    uint64_t index;             // array: of the element being scanned
    const char *comma;          // object: before the member being scanned
};

// What comes next.
enum next { VALUE, KEY, AFTER_VALUE, DONE };

struct scanner {
    const char *text;
    const char *end;
    const char *at;
    const char *line_start;
    uint64_t line;
    const char *name;
    struct kern_scan *scan;
    struct kern_diag *diag;
    struct kern_scan_stack stack;
    struct kern_arena decoded; // keys that are written with escapes
    uint64_t order;            // values so far, without those that are left out
    unsigned depth;
    unsigned left_out_depth; // of the object whose repeated member is being scanned; 0: none
    struct level levels[KERN_MANIFEST_DEPTH_MAX];
};

static bool refuse(struct scanner *s, const char *at, const char *what)
{
    if (at != s->end && *at == '\0')
        what = "a NUL byte is not allowed";
    return kern_fail_rule(s->diag, "V-JSON", 0,
                          kern_arena_print(&s->decoded, "%s:%" PRIu64 ":%zu", s->name, s->line,
                                           (size_t)(at - s->line_start) + 1),
                          "%s", what);
}

static void skip_space(struct scanner *s)
{
    for (;; s->at++) {
        if (*s->at == '\n') {
            s->line++;
            s->line_start = s->at + 1;
        } else if (*s->at != ' ' && *s->at != '\t' && *s->at != '\r') {
            return;
        }
    }
}

static void add_edit(struct scanner *s, const char *from, const char *to)
{
    kern_reserve(&s->scan->edits, &s->scan->capacity, s->scan->count + 1, sizeof *s->scan->edits);
    s->scan->edits[s->scan->count++] =
        (struct kern_scan_edit){(size_t)(from - s->text), (size_t)(to - s->text)};
}

// The place of the element that is being scanned of the array [level] at [place]. Arguments and
// fields stand directly on what they belong to, see place.h.
static struct kern_place element_place(const struct level *level, const struct kern_place *place)
{
    static const struct {
        const char *key, *word;
        int above; // steps from the array to what the element belongs to
    } words[] = {{"args", "arg", 1}, {"fields", "field", 2}};
    for (size_t i = 0; place && place->name && i < sizeof words / sizeof *words; i++) {
        if (strcmp(place->name, words[i].key) != 0)
            continue;
        for (int step = 0; place && step < words[i].above; step++)
            place = place->parent;
        return kern_place_numbered(place, words[i].word, level->index);
    }
    return kern_place_element(place, level->index);
}

// Reports the repeated key of the innermost object with the place of the member.
static void refuse_repeated(struct scanner *s, const char *key)
{
    struct kern_place places[KERN_MANIFEST_DEPTH_MAX];
    const struct kern_place *parent = NULL;
    struct kern_arena names = {0};
    for (unsigned i = 0; i < s->depth; i++) {
        const struct level *level = &s->levels[i];
        if (level->is_object) {
            size_t length = level->key.length < KERN_PLACE_MAX ? level->key.length : KERN_PLACE_MAX;
            const char *name = kern_arena_copy(&names, level->key.text, length);
            places[i] = kern_place_member(parent, name);
        } else {
            places[i] = element_place(level, parent);
        }
        parent = &places[i];
    }
    kern_place_fail(s->diag, "V-DUP", s->order + 1, parent,
                    "this key stands in its object a second time, at line %" PRIu64
                    ", column %zu: keep one",
                    s->line, (size_t)(key - s->line_start) + 1);
    kern_arena_free(&names);
}

static bool scan_key(struct scanner *s, enum next *next)
{
    struct level *level = &s->levels[s->depth - 1];
    if (*s->at != '"')
        return refuse(s, s->at,
                      *s->at == '\''  ? "a key stands in double quotes"
                      : *s->at == '}' ? "a comma stands before the end of an object"
                                      : "expected a key in double quotes");
    const char *quote = s->at;
    struct kern_token token = kern_token_string(quote);
    if (token.error)
        return refuse(s, token.end, token.error);
    level->key = (struct kern_scan_key){quote + 1, (size_t)(token.end - quote) - 2};
    if (token.escaped) {
        char *decoded = kern_arena_alloc(&s->decoded, level->key.length);
        level->key.length = kern_token_decode(level->key.text, level->key.length, decoded);
        level->key.text = decoded;
    }
    level->repeated = !kern_scan_keys_add(&s->stack, &level->keys, level->key);
    if (level->repeated) {
        refuse_repeated(s, quote);
        if (!s->left_out_depth)
            s->left_out_depth = s->depth;
    }
    s->at = token.end;
    skip_space(s);
    if (*s->at != ':')
        return refuse(s, s->at, "expected a colon after the key");
    s->at++;
    *next = VALUE;
    return true;
}

static bool open_level(struct scanner *s, enum next *next)
{
    if (s->depth == KERN_MANIFEST_DEPTH_MAX)
        return refuse(s, s->at, "nesting deeper than 64 levels is refused");
    struct level *level = &s->levels[s->depth++];
    *level = (struct level){.is_object = *s->at == '{'};
    if (level->is_object)
        kern_scan_keys_open(&s->stack, &level->keys);
    s->at++;
    skip_space(s);
    if (*s->at == (level->is_object ? '}' : ']'))
        *next = AFTER_VALUE;
    else
        *next = level->is_object ? KEY : VALUE;
    return true;
}

static bool scan_word(struct scanner *s, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(s->at, word, length) != 0)
        return refuse(s, s->at, "expected a value: true, false and null are the words of JSON");
    s->at += length;
    return true;
}

// What is wrong with a text that has no value where one must stand.
static const char *no_value(const struct scanner *s)
{
    switch (*s->at) {
    case '\0':
        return "the text ends where a value must stand";
    case '\'':
        return "a string stands in double quotes";
    case ']':
    case '}':
        return "a value must stand here: there is no comma or colon before the end";
    case '/':
    case '#':
        return "JSON has no comments";
    }
    return strncmp(s->at, "\xef\xbb\xbf", 3) == 0
               ? "a byte order mark is not allowed"
               : "expected a value (there is no NaN and no Infinity in JSON)";
}

static bool scan_value(struct scanner *s, enum next *next)
{
    if (!s->left_out_depth)
        s->order++;
    *next = AFTER_VALUE;
    switch (*s->at) {
    case '{':
    case '[':
        return open_level(s, next);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    }
    bool is_string = *s->at == '"';
    if (!is_string && *s->at != '-' && (*s->at < '0' || *s->at > '9'))
        return refuse(s, s->at, no_value(s));
    struct kern_token token = is_string ? kern_token_string(s->at) : kern_token_number(s->at);
    if (token.error)
        return refuse(s, token.end, token.error);
    s->at = token.end;
    if (token.unsafe && !s->left_out_depth)
        add_edit(s, s->at, s->at);
    return true;
}

// The member of the innermost object that is being scanned ends before s->at.
static void end_member(struct scanner *s, struct level *level)
{
    if (level->repeated && s->left_out_depth == s->depth) {
        add_edit(s, level->comma, s->at);
        s->left_out_depth = 0;
    }
    level->repeated = false;
}

static bool after_value(struct scanner *s, enum next *next)
{
    if (s->depth == 0) {
        *next = DONE;
        return s->at == s->end || refuse(s, s->at, "nothing may follow the end of the object");
    }
    struct level *level = &s->levels[s->depth - 1];
    if (level->is_object)
        end_member(s, level);
    if (*s->at == ',') {
        level->comma = s->at++;
        level->index++;
        *next = level->is_object ? KEY : VALUE;
        return true;
    }
    if (*s->at != (level->is_object ? '}' : ']'))
        return refuse(s, s->at,
                      s->at == s->end    ? "the text ends before its object does"
                      : level->is_object ? "expected a comma or the end of the object, }"
                                         : "expected a comma or the end of the array, ]");
    if (level->is_object)
        kern_scan_keys_close(&s->stack, &level->keys);
    s->at++;
    s->depth--;
    *next = AFTER_VALUE;
    return true;
}

static bool scan_object(struct scanner *s)
{
    skip_space(s);
    if (s->at != s->end && strchr("[\"tfn-0123456789", *s->at) && *s->at)
        return refuse(s, s->at, "a manifest is one JSON object");
    bool ok = true;
    for (enum next next = VALUE; ok && next != DONE;) {
        skip_space(s);
        ok = next == VALUE ? scan_value(s, &next)
             : next == KEY ? scan_key(s, &next)
                           : after_value(s, &next);
    }
    return ok;
}

bool kern_scan_text(const char *text, size_t length, const char *name, struct kern_scan *scan,
                    struct kern_diag *diag)
{
    struct scanner *s = kern_calloc(1, sizeof *s);
    *s = (struct scanner){
        .text = text,
        .end = text + length,
        .at = text,
        .line_start = text,
        .line = 1,
        .name = name,
        .scan = scan,
        .diag = diag,
    };
    bool ok = scan_object(s);
    // After an error there are open objects whose keys are still held.
    while (s->depth > 0)
        if (s->levels[--s->depth].is_object)
            kern_scan_keys_close(&s->stack, &s->levels[s->depth].keys);
    free(s->stack.keys);
    kern_arena_free(&s->decoded);
    free(s);
    return ok;
}

void kern_scan_free(struct kern_scan *scan)
{
    free(scan->edits);
    *scan = (struct kern_scan){0};
}
