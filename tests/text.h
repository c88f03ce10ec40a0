// SPDX-License-Identifier: Apache-2.0
//
// Texts that tests make of others. JSON in C is easier to read with single quotes, which are
// swapped for double ones last.
#ifndef KERN_TESTS_TEXT_H
#define KERN_TESTS_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct text_edit {
    const char *from; // stands exactly once in the text
    const char *to;
};

static inline void text_swap(char *text, char from, char to)
{
    for (char *at = strchr(text, from); at; at = strchr(at, from))
        *at = to;
}

// A copy of [text] with every ' as "; the caller frees it.
static inline char *text_requoted(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    text_swap(copy, '\'', '"');
    return copy;
}

// A copy of [text] with the only occurrence of [from] replaced by [to]; the caller frees it.
static inline char *text_replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from)) {
        fail_msg("\"%s\" stands %s in the text", from, at ? "more than once" : "nowhere");
        return NULL;
    }
    size_t size = strlen(text) + strlen(to) + 1;
    char *result = malloc(size);
    assert_non_null(result);
    snprintf(result, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return result;
}

// A copy of [text] after the edits, which are [most] or end with one that has no [from]; the caller
// frees it.
static inline char *text_edited(const char *text, const struct text_edit *edits, size_t most)
{
    char *edited = strdup(text);
    assert_non_null(edited);
    for (size_t i = 0; i < most && edits[i].from; i++) {
        char *next = text_replaced(edited, edits[i].from, edits[i].to);
        free(edited);
        edited = next;
    }
    return edited;
}

#endif
