// SPDX-License-Identifier: Apache-2.0
//
// What the environment says about the emulated machine.
#include "emu/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UUID_TEXT = sizeof "GPU-00000000-0000-0000-0000-000000000000" };

bool emu_config_refuse(const char *variable, const char *value, const char *expected)
{
    emu_log_once("%s=%s: expected %s", variable, value, expected);
    return false;
}

static bool parse_unsigned(const char *text, uint64_t *value, const char **end)
{
    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    char *stop;
    *value = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

bool emu_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    const char *end;
    uint64_t value;
    if (!parse_unsigned(text, &value, &end)) {
        return false;
    }
    uint64_t unit = 1;
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
        if (suffix == NULL || end[1] != '\0') {
            return false;
        }
        unit = (uint64_t)1 << (10 * (suffix - suffixes + 1));
    }
    return !__builtin_mul_overflow(value, unit, bytes);
}

static bool read_devices(struct emu_config *config)
{
    const char *text = getenv("KERN_EMU_DEVICES");
    uint64_t n = 8;
    const char *end = "";
    if (text != NULL &&
        (!parse_unsigned(text, &n, &end) || *end != '\0' || n < 1 || n > EMU_MAX_DEVICES)) {
        return emu_config_refuse("KERN_EMU_DEVICES", text, "a number from 1 to 256");
    }
    config->n_installed = (unsigned)n;
    return true;
}

static bool read_memory(struct emu_config *config)
{
    const char *text = getenv("KERN_EMU_MEMORY");
    config->memory = (uint64_t)16 << 30;
    if (text != NULL && (!emu_parse_bytes(text, &config->memory) || config->memory == 0)) {
        return emu_config_refuse("KERN_EMU_MEMORY", text, "bytes, as in 16G, 512M or 1048576");
    }
    return true;
}

static bool read_fabric(struct emu_config *config)
{
    static const struct {
        const char *text;
        enum emu_fabric fabric;
    } words[] = {{"0", EMU_FABRIC_NONE}, {"1", EMU_FABRIC_READY}, {"refuse", EMU_FABRIC_REFUSED}};

    const char *text = getenv("KERN_EMU_FABRIC");
    if (text == NULL) {
        text = "1";
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i].text) == 0) {
            config->fabric = words[i].fabric;
            return true;
        }
    }
    return emu_config_refuse("KERN_EMU_FABRIC", text, "0, 1 or refuse");
}

static bool read_node_limit(struct emu_config *config)
{
    const char *text = getenv("KERN_EMU_NODE_LIMIT");
    if (text != NULL && strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return emu_config_refuse("KERN_EMU_NODE_LIMIT", text, "0 or 1");
    }
    config->node_limit = text != NULL && text[0] == '1';
    return true;
}

static bool read_numa(struct emu_config *config)
{
    const char *text = getenv("KERN_EMU_NUMA");
    uint64_t node;
    const char *end;
    config->numa = -1;
    if (text == NULL) {
        return true;
    }
    if (!parse_unsigned(text, &node, &end) || *end != '\0' || node > 65535) {
        return emu_config_refuse("KERN_EMU_NUMA", text, "a NUMA node's number");
    }
    config->numa = (int)node;
    return true;
}

static bool read_delays(struct emu_config *config)
{
    const char *most = getenv("KERN_EMU_DELAY_US_MAX"), *seed = getenv("KERN_EMU_SEED");
    const char *end;
    uint64_t delay = 0;
    if (most != NULL && (!parse_unsigned(most, &delay, &end) || *end != '\0' || delay > 1000000)) {
        return emu_config_refuse("KERN_EMU_DELAY_US_MAX", most, "microseconds, 0 to 1000000");
    }
    config->delay = (uint32_t)delay;
    config->seed = 0;
    if (seed != NULL && (!parse_unsigned(seed, &config->seed, &end) || *end != '\0')) {
        return emu_config_refuse("KERN_EMU_SEED", seed, "a whole number");
    }
    return true;
}

static void format_uuid(uint64_t node, unsigned installed, char text[UUID_TEXT])
{
    unsigned char uuid[16];
    emu_device_uuid(node, installed, uuid);
    char *out = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        out += sprintf(out, "%s%02x", dash, uuid[i]);
    }
}

// The one installed device whose UUID begins with [prefix]; -1 if there is none or more than one.
static long match_uuid(const struct emu_config *config, const char *prefix)
{
    long match = -1;
    for (unsigned i = 0; i < config->n_installed; i++) {
        char uuid[UUID_TEXT];
        format_uuid(config->node, i, uuid);
        if (strncasecmp(uuid, prefix, strlen(prefix)) == 0) {
            if (match >= 0) {
                return -1;
            }
            match = (long)i;
        }
    }
    return match;
}

// One entry of CUDA_VISIBLE_DEVICES; -1 for one that names no device. Numbers are read as strtol
// reads them, so that "1x" is 1, which is what the driver does.
static long match_entry(const struct emu_config *config, const char *entry)
{
    if (strncmp(entry, "GPU-", 4) == 0) {
        return match_uuid(config, entry);
    }
    char *end;
    long number = strtol(entry, &end, 10);
    return end != entry && number >= 0 && number < (long)config->n_installed ? number : -1;
}

// As the driver: the first entry that names no device ends the list, and a device that stands twice
// in it leaves no device at all.
static bool read_visible(struct emu_config *config)
{
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    if (value == NULL) {
        for (unsigned i = 0; i < config->n_installed; i++) {
            config->visible[i] = i;
        }
        config->n_visible = config->n_installed;
        return true;
    }
    char *list = strdup(value);
    if (list == NULL) {
        return emu_config_refuse("CUDA_VISIBLE_DEVICES", value, "more memory");
    }
    bool taken[EMU_MAX_DEVICES] = {false};
    config->n_visible = 0;
    char *rest = list;
    for (char *entry; (entry = strsep(&rest, ",")) != NULL;) {
        long device = match_entry(config, entry + strspn(entry, " \t"));
        if (device < 0) {
            break;
        }
        if (taken[device]) {
            config->n_visible = 0;
            break;
        }
        taken[device] = true;
        config->visible[config->n_visible++] = (unsigned)device;
    }
    free(list);
    return true;
}

bool emu_config_read(struct emu_config *config)
{
    config->node = emu_node_id();
    return read_devices(config) && read_memory(config) && read_fabric(config) &&
           read_node_limit(config) && read_numa(config) && read_delays(config) &&
           read_visible(config);
}
