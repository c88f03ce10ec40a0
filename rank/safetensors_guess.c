// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>

#include "rank/safetensors_set.h"

// The first bytes, in upper or lower case, of what is found under the name of a checkpoint.
static const struct {
    const char *start;
    size_t length;
    const char *guess;
} starts[] = {
    {"version https://git-lfs", 23,
     "; it seems to be a git LFS pointer: fetch it with git lfs pull"},
    {"<!doctype html", 14, "; it seems to be an HTML page, an answer in place of the file"},
    {"<html", 5, "; it seems to be an HTML page, an answer in place of the file"},
    {"<?xml", 5, "; it seems to be XML, an answer in place of the file"},
    {"\x1f\x8b", 2, "; it seems to be compressed by gzip: unpack it"},
    {"\x28\xb5\x2f\xfd", 4, "; it seems to be compressed by zstd: unpack it"},
    {"PK\x03\x04", 4, "; it seems to be a zip archive or a PyTorch checkpoint: convert it"},
    {"\x80\x02", 2, "; it seems to be a Python pickle (a PyTorch checkpoint): convert it"},
    {"GGUF", 4, "; it seems to be a GGUF model: convert it"},
    {"\x93NUMPY", 6, "; it seems to be a NumPy array: convert it"},
    {"\x89HDF", 4, "; it seems to be HDF5: convert it"},
    {"\0\0\0\0\0\0\0\0", 8, "; it begins with zeros, as a file does whose download broke off"},
};

static bool begins_with(const char *bytes, const char *start, size_t length)
{
    // strncasecmp ends at a NUL, and some of these have one.
    for (size_t i = 0; i < length; i++)
        if (tolower((unsigned char)bytes[i]) != tolower((unsigned char)start[i]))
            return false;
    return true;
}

// Whether [bytes] begin as JSON text. A safetensors file may begin with such a byte too, but not
// with eight of them: its header would have more than 2^56 bytes.
static bool is_json(const unsigned char *bytes, size_t length)
{
    if (length < 2 || (bytes[0] != '{' && bytes[0] != '['))
        return false;
    for (size_t i = 1; i < length && i < 8; i++)
        if (bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\t' && bytes[i] < ' ')
            return false;
    return true;
}

const char *kern_safetensors_guess(const void *bytes, size_t length)
{
    if (length == 0)
        return "; it is empty";
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (length >= starts[i].length && begins_with(bytes, starts[i].start, starts[i].length))
            return starts[i].guess;
    if (is_json(bytes, length))
        return "; it seems to be JSON text: give the directory of an index, not the index";
    return "";
}
