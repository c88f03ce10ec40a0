// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_TOPO_PICTURE_LEGEND_H
#define KERN_TOPO_PICTURE_LEGEND_H

#include <stdio.h>

#include "topo/picture.h"

// The colour of group [number] of the [which]th name. Names begin at different colours.
uint32_t kern_picture_colour(uint32_t which, uint32_t number);

// Draws for each name of groups which ranks are in which of them, [width] wide with its upper left
// corner at [x], [y]; only measures if [file] is NULL. Returns the height.
double kern_picture_legend(FILE *file, const struct kern_picture *picture, double x, double y,
                           double width);

#endif
