// SPDX-License-Identifier: Apache-2.0
//
// Reads texts from standard input, each after its length in bytes and a line break, and prints what
// the JSON reader makes of it on one line: "refused" and why, or the value, with "TEXT = DOUBLE"
// for a number. For json_random.py.
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/memory.h"

static void print_string(const struct kern_json_document *document,
                         const struct kern_json_node *node)
{
    const char *chars = kern_json_chars(document, node);
    putchar('"');
    for (uint32_t i = 0; i < node->size; i++) {
        if ((unsigned char)chars[i] < ' ' || chars[i] == '"' || chars[i] == '\\')
            printf("\\u%04x", (unsigned)chars[i]);
        else
            putchar(chars[i]);
    }
    putchar('"');
}

static const struct kern_json_node *print_value(const struct kern_json_document *document,
                                                const struct kern_json_node *node);

static void print_items(const struct kern_json_document *document,
                        const struct kern_json_node *node)
{
    bool is_object = node->kind == KERN_JSON_OBJECT;
    const struct kern_json_node *item = kern_json_first(node);
    putchar(is_object ? '{' : '[');
    for (uint32_t i = 0; i < node->size; i++) {
        if (i > 0)
            putchar(',');
        if (is_object) {
            print_string(document, item);
            putchar(':');
            item++;
        }
        item = print_value(document, item);
    }
    putchar(is_object ? '}' : ']');
}

static const struct kern_json_node *print_value(const struct kern_json_document *document,
                                                const struct kern_json_node *node)
{
    struct kern_json_number number;
    switch (node->kind) {
    case KERN_JSON_NULL:
        printf("null");
        break;
    case KERN_JSON_FALSE:
        printf("false");
        break;
    case KERN_JSON_TRUE:
        printf("true");
        break;
    case KERN_JSON_NUMBER:
        number = kern_json_number(document, node);
        printf("\"%.*s = %a\"", (int)node->size, kern_json_chars(document, node),
               kern_json_double(&number));
        break;
    case KERN_JSON_STRING:
        print_string(document, node);
        break;
    case KERN_JSON_ARRAY:
    case KERN_JSON_OBJECT:
        print_items(document, node);
        break;
    }
    return kern_json_next(node);
}

int main(void)
{
    size_t length;
    while (scanf("%zu", &length) == 1 && getchar() == '\n') {
        char *text = kern_calloc(1, length + 1);
        struct kern_json_document document = {0};
        struct kern_json_error error;
        if (fread(text, 1, length, stdin) != length)
            return 1;
        if (kern_json_parse(&document, text, length, 64, &error))
            print_value(&document, document.nodes);
        else
            printf("refused at byte %zu: %s", error.at, error.text);
        putchar('\n');
        kern_json_free(&document);
        free(text);
    }
    return 0;
}
