// SPDX-License-Identifier: Apache-2.0
#include "topo/svg.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS "\xe2\x80\xa6"

// The length of the character at [text], 0 if there is none that XML takes.
static size_t character(const char *text)
{
    // U+FFFE and U+FFFF stand in no document.
    bool reserved = strncmp(text, "\xef\xbf", 2) == 0 && (unsigned char)text[2] >= 0xbe;
    return reserved ? 0 : kern_text_shown(text);
}

static void escape_span(FILE *file, const char *text, size_t length)
{
    for (const char *at = text; at < text + length;) {
        size_t bytes = character(at);
        if (bytes == 0)
            fputs(REPLACEMENT, file);
        else if (*at == '&')
            fputs("&amp;", file);
        else if (*at == '<')
            fputs("&lt;", file);
        else if (*at == '>')
            fputs("&gt;", file);
        else if (*at == '"')
            fputs("&quot;", file);
        else
            fwrite(at, 1, bytes, file);
        at += bytes ? bytes : 1;
    }
}

void kern_svg_escape(FILE *file, const char *text)
{
    escape_span(file, text, strlen(text));
}

void kern_svg_begin(FILE *file, double width, double height, const char *title)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"Inter, 'Helvetica Neue', Arial, "
            "'DejaVu Sans', sans-serif\">\n<title>",
            width, height, width, height);
    kern_svg_escape(file, title);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", file);
}

void kern_svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void kern_svg_group_begin(FILE *file, const char *title)
{
    fputs("<g><title>", file);
    kern_svg_escape(file, title);
    fputs("</title>\n", file);
}

void kern_svg_group_end(FILE *file)
{
    fputs("</g>\n", file);
}

void kern_svg_box(FILE *file, const struct kern_svg_box *box)
{
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" "
            "fill=\"#%06x\" stroke=\"#%06x\"%s/>\n",
            box->x, box->y, box->width, box->height, box->radius, box->fill, box->stroke,
            box->dashed ? " stroke-dasharray=\"4 3\"" : "");
}

// Widths of DejaVu Sans, the widest of the usual fonts, in parts of the size.
static double character_width(const char *at)
{
    if ((unsigned char)*at >= 0x80)
        return 1;
    if (strchr("mwMWQ@%", *at))
        return 0.98;
    if (strchr("fijlrtI.,:;'|!()[]/ -", *at))
        return 0.42;
    return *at >= 'A' && *at <= 'Z' ? 0.75 : 0.65;
}

double kern_svg_width(const char *text, double size)
{
    double width = 0;
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        bytes = character(text);
        width += character_width(text);
    }
    return width * size;
}

// The bytes of [text] that leave place for an ellipsis in [room].
static size_t fitting(const char *text, double size, double room)
{
    const char *at = text;
    double width = size;
    while (*at) {
        size_t bytes = character(at);
        width += character_width(at) * size;
        if (width > room)
            break;
        at += bytes ? bytes : 1;
    }
    return (size_t)(at - text);
}

void kern_svg_text(FILE *file, const struct kern_svg_text *style, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" fill=\"#%06x\"%s%s>", style->x,
            style->y, style->size, style->fill, style->bold ? " font-weight=\"bold\"" : "",
            style->anchor == KERN_SVG_END ? " text-anchor=\"end\"" : "");
    // Bold letters are wider.
    double size = style->bold ? style->size * 1.1 : style->size;
    if (kern_svg_width(text, size) <= style->room) {
        kern_svg_escape(file, text);
    } else {
        escape_span(file, text, fitting(text, size, style->room));
        fputs(ELLIPSIS, file);
    }
    fputs("</text>\n", file);
}

// Each part of [colour] moved towards that of [to] by [share].
static uint32_t mix(uint32_t colour, uint32_t to, double share)
{
    uint32_t mixed = 0;
    for (unsigned shift = 0; shift <= 16; shift += 8) {
        double a = (double)(colour >> shift & 0xff), b = (double)(to >> shift & 0xff);
        mixed |= (uint32_t)(a + (b - a) * share + 0.5) << shift;
    }
    return mixed;
}

uint32_t kern_svg_tint(uint32_t colour, double share)
{
    return mix(0xffffff, colour, share);
}

uint32_t kern_svg_colour(uint32_t index)
{
    static const uint32_t hues[] = {0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7,
                                    0x56b4e9, 0xd55e00, 0xf0e442, 0x999999};
    enum { HUES = sizeof hues / sizeof *hues };
    uint32_t hue = hues[index % HUES];
    switch (index / HUES % 3) {
    case 1:
        return mix(hue, 0xffffff, 0.5);
    case 2:
        return mix(hue, 0x000000, 0.4);
    default:
        return hue;
    }
}

// Relative luminance and contrast as WCAG 2 defines them.
uint32_t kern_svg_ink(uint32_t background)
{
    static const double weights[] = {0.0722, 0.7152, 0.2126}; // blue, green, red
    double luminance = 0;
    for (unsigned i = 0; i < 3; i++) {
        double part = (double)(background >> (8 * i) & 0xff) / 255;
        luminance +=
            weights[i] * (part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? 0x111111 : 0xffffff;
}
