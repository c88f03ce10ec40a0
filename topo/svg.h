// SPDX-License-Identifier: Apache-2.0
//
// The few shapes that the picture of a run is made of, as SVG. Lengths are in pixels.
#ifndef KERN_TOPO_SVG_H
#define KERN_TOPO_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Prints [text] so that XML takes it: marks are escaped, and what XML has no place for (control
// characters, bytes that are no UTF-8) becomes U+FFFD.
void kern_svg_escape(FILE *file, const char *text);

void kern_svg_begin(FILE *file, double width, double height, const char *title);
void kern_svg_end(FILE *file);

// What stands between these two shows [title] when it is pointed at.
void kern_svg_group_begin(FILE *file, const char *title);
void kern_svg_group_end(FILE *file);

struct kern_svg_box {
    double x, y, width, height, radius;
    uint32_t fill, stroke; // 0xRRGGBB
    bool dashed;
};
void kern_svg_box(FILE *file, const struct kern_svg_box *box);

enum kern_svg_anchor { KERN_SVG_START, KERN_SVG_END };

// One line that is cut to [room] with an ellipsis; [y] is its base line.
struct kern_svg_text {
    double x, y, size, room;
    uint32_t fill;
    bool bold;
    enum kern_svg_anchor anchor;
};
void kern_svg_text(FILE *file, const struct kern_svg_text *style, const char *text);

// How wide [text] is at most, in the fonts that a viewer is likely to have.
double kern_svg_width(const char *text, double size);

// The colour of the [index]th thing of a kind: eight that also colour-blind people tell apart
// (Okabe and Ito, https://jfly.uni-koeln.de/color/), then lighter and darker ones of them.
uint32_t kern_svg_colour(uint32_t index);

// Black or white, whichever can be read better on [background].
uint32_t kern_svg_ink(uint32_t background);

// [colour] as it is on white paper at an opacity of [share].
uint32_t kern_svg_tint(uint32_t colour, double share);

#endif
