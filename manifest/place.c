// SPDX-License-Identifier: Apache-2.0
#include "manifest/place.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

// The most bytes of a message, and of a name in a place.
enum { TEXT_MAX = 1024, NAME_SHOWN = 104 };

static bool is_plain(const char *name)
{
    if (!*name)
        return false;
    for (size_t length; *name; name += length) {
        length = kern_text_shown(name);
        if (length == 0 || strchr(" \"[]()", *name))
            return false;
    }
    return true;
}

// Appends to [text] at *[used]; a text that is full stays as it is.
static void append(char text[KERN_PLACE_MAX], size_t *used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char text[KERN_PLACE_MAX], size_t *used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + *used, KERN_PLACE_MAX - *used, format, arguments);
    va_end(arguments);
    *used += length < 0 ? 0 : (size_t)length;
    if (*used >= KERN_PLACE_MAX)
        *used = KERN_PLACE_MAX - 1;
}

static void append_name(char text[KERN_PLACE_MAX], size_t *used, const char *name)
{
    char shown[NAME_SHOWN];
    const char *quote = is_plain(name) ? "" : "\"";
    append(text, used, "%s%s%s", quote, kern_text_shorten(name, shown, sizeof shown), quote);
}

static void append_place(char text[KERN_PLACE_MAX], size_t *used, const struct kern_place *place)
{
    if (!place)
        return;
    append_place(text, used, place->parent);
    if (place->name) {
        append(text, used, "%s", *used ? "." : "");
        append_name(text, used, place->name);
    } else if (place->word) {
        append(text, used, " %s %" PRIu64, place->word, place->index);
    } else if (place->parent) {
        append(text, used, "[%" PRIu64 "]", place->index);
    }
    if (place->label) {
        append(text, used, " (");
        append_name(text, used, place->label);
        append(text, used, ")");
    }
}

const char *kern_place_text(const struct kern_place *place, char text[KERN_PLACE_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    append_place(text, &used, place);
    if (used == KERN_PLACE_MAX - 1)
        memcpy(text + used - 3, "...", 3);
    return text;
}

void kern_place_error(struct kern_diag *diag, const char *rule, uint64_t order,
                      const struct kern_place *place, const char *format, ...)
{
    if (diag->errors == KERN_MANIFEST_ERRORS_MAX)
        kern_error_rule(diag, NULL, UINT64_MAX, NULL,
                        "there are more than %d errors; the others are not listed",
                        KERN_MANIFEST_ERRORS_MAX);
    if (diag->errors >= KERN_MANIFEST_ERRORS_MAX)
        return;
    char where[KERN_PLACE_MAX], text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kern_place_text(place, where);
    kern_error_rule(diag, rule, order, *where ? where : NULL, "%s", text);
}

void kern_place_warn(struct kern_diag *diag, const char *rule, uint64_t order,
                     const struct kern_place *place, const char *format, ...)
{
    char where[KERN_PLACE_MAX], text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kern_place_text(place, where);
    kern_warn(diag, rule, order, *where ? where : NULL, "%s", text);
}
