// SPDX-License-Identifier: Apache-2.0
//
// From the bytes to the typed manifest: a JSON document and one walk in its order.
#include <inttypes.h>

#include "base/memory.h"
#include "manifest/parse.h"

static bool read_version(struct kern_reader *reader, const struct kern_node *node, void *unused)
{
    (void)unused;
    uint32_t version = 0;
    // No constant may stand here, so that a reader of the file always knows what it reads.
    if (node->json->kind == KERN_JSON_STRING)
        return kern_refuse_type(reader, node, "the number 7");
    if (!kern_read_u32(reader, node, &version))
        return false;
    return version == 7 || kern_refuse(reader, "V-VERSION", node,
                                       "this is a manifest of version 7, found %u", version);
}

static bool read_var_axis(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_axis_words, into);
}

bool kern_read_var(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("max", KERN_REQUIRED, offsetof(struct kern_var, max), kern_read_u64),
        KERN_KEY("axis", KERN_NULLABLE, offsetof(struct kern_var, axis), read_var_axis),
    };
    static const struct kern_keys keys = KERN_KEYS("a var", table);
    struct kern_var *var = into;
    uint32_t present;
    var->order = node->json->at;
    return kern_read_object(reader, node, &keys, var, &present);
}

bool kern_read_module(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("source", KERN_REQUIRED, offsetof(struct kern_module, source), kern_read_string),
        KERN_KEY("sha256", KERN_REQUIRED, offsetof(struct kern_module, sha256), kern_read_string),
    };
    static const struct kern_keys keys = KERN_KEYS("a module", table);
    struct kern_module *module = into;
    uint32_t present;
    module->order = node->json->at;
    bool ok = kern_read_object(reader, node, &keys, module, &present);
    // Whether these are 64 hex digits is for the verification to say.
    if (module->sha256)
        kern_sha256_from_hex(module->sha256, module->digest);
    return ok;
}

static bool read_group(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_group *group = into;
    group->order = node->json->at;
    return kern_read_u64(reader, node, &group->size);
}

// Defines read_NAMEs, which reads the map of all [name]s of the manifest [into].
#define READ_MAP(name, an_entry, read_entry)                                                       \
    static bool read_##name##s(struct kern_reader *reader, const struct kern_node *node,           \
                               void *into)                                                         \
    {                                                                                              \
        static const struct kern_items map = {                                                     \
            .what = an_entry, .size = sizeof(struct kern_##name), .read = read_entry};             \
        struct kern_manifest *manifest = into;                                                     \
        return kern_read_map(reader, node, &map, &manifest->name##s, &manifest->n_##name##s,       \
                             &manifest->name##_names);                                             \
    }

READ_MAP(var, "a var", kern_read_var)
READ_MAP(group, "a group", read_group)
READ_MAP(state, "a state", kern_read_state)
READ_MAP(buffer, "a buffer", kern_read_buffer)
READ_MAP(module, "a module", kern_read_module)
READ_MAP(op, "an op", kern_read_op)
READ_MAP(program, "a program", kern_read_program)

static bool read_topology(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {KERN_KEY("groups", KERN_REQUIRED, 0, read_groups)};
    static const struct kern_keys keys = KERN_KEYS("a topology", table);
    struct kern_manifest *manifest = into;
    uint32_t present;
    manifest->has_topology = true;
    return kern_read_object(reader, node, &keys, manifest, &present);
}

static bool read_cut(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("id", KERN_REQUIRED, offsetof(struct kern_cut, id), kern_read_string),
        KERN_KEY("stage", KERN_REQUIRED, offsetof(struct kern_cut, stage), kern_read_u64),
        KERN_KEY("stages", KERN_REQUIRED, offsetof(struct kern_cut, stages), kern_read_u64),
    };
    static const struct kern_keys keys = KERN_KEYS("a cut", table);
    struct kern_manifest *manifest = into;
    struct kern_cut *cut = kern_arena_alloc(reader->arena, sizeof *cut);
    uint32_t present;
    cut->order = node->json->at;
    manifest->cut = cut;
    return kern_read_object(reader, node, &keys, cut, &present);
}

static bool read_chat(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("tool_parser", KERN_NULLABLE, offsetof(struct kern_manifest, tool_parser),
                 kern_read_string),
    };
    static const struct kern_keys keys = KERN_KEYS("a chat", table);
    struct kern_manifest *manifest = into;
    uint32_t present;
    manifest->has_chat = true;
    return kern_read_object(reader, node, &keys, manifest, &present);
}

static bool read_root(struct kern_reader *reader)
{
    static const struct kern_key table[] = {
        KERN_KEY("schema_version", KERN_REQUIRED, 0, read_version),
        KERN_KEY("model", KERN_REQUIRED, offsetof(struct kern_manifest, model), kern_read_string),
        KERN_KEY("constants", 0, 0, kern_read_constants),
        KERN_KEY("vars", 0, 0, read_vars),
        KERN_KEY("topology", KERN_NULLABLE, 0, read_topology),
        KERN_KEY("cut", KERN_NULLABLE, 0, read_cut),
        KERN_KEY("chat", KERN_NULLABLE, 0, read_chat),
        KERN_KEY("states", 0, 0, read_states),
        KERN_KEY("buffers", KERN_REQUIRED, 0, read_buffers),
        KERN_KEY("modules", KERN_REQUIRED, 0, read_modules),
        KERN_KEY("ops", KERN_REQUIRED, 0, read_ops),
        KERN_KEY("programs", KERN_REQUIRED, 0, read_programs),
    };
    static const struct kern_keys keys = KERN_KEYS("a manifest", table);
    uint32_t present;
    struct kern_node node = {.json = reader->document.nodes};
    return kern_read_object(reader, &node, &keys, reader->manifest, &present);
}

// Refuses the text as such at its byte [at].
static bool refuse_text(const char *text, size_t at, const char *name, const char *what,
                        struct kern_diag *diag)
{
    struct kern_json_position position = {0};
    kern_json_locate(text, at, &position);
    const char *place = kern_arena_print(&diag->arena, "%s:%" PRIu64 ":%" PRIu64, name,
                                         position.line, position.column);
    return kern_fail_rule(diag, "V-JSON", 0, place, "%s", what);
}

static bool read_text(struct kern_reader *reader, const char *text, size_t length, const char *name)
{
    struct kern_json_error error;
    if (!kern_json_parse(&reader->document, text, length, KERN_MANIFEST_DEPTH_MAX, &error))
        return refuse_text(text, error.at, name, error.text, reader->diag);
    const struct kern_json_node *root = reader->document.nodes;
    if (root->kind != KERN_JSON_OBJECT)
        return refuse_text(text, root->at, name, "a manifest is one JSON object", reader->diag);
    kern_constants_collect(reader);
    return read_root(reader);
}

struct kern_manifest *kern_manifest_parse(const char *text, size_t length, const char *name,
                                          struct kern_diag *diag)
{
    if (length > KERN_MANIFEST_BYTES_MAX) {
        kern_fail_rule(diag, "V-JSON", 0, name, "a manifest of more than 256 MiB is refused");
        return NULL;
    }
    struct kern_manifest *manifest = kern_calloc(1, sizeof *manifest);
    kern_sha256(text, length, manifest->digest);
    struct kern_reader reader = {.manifest = manifest, .arena = &manifest->arena, .diag = diag};
    size_t errors_before = diag->errors;
    read_text(&reader, text, length, name);
    kern_constants_free(&reader.constants);
    kern_json_free(&reader.document);
    if (diag->errors == errors_before)
        return manifest;
    kern_diag_sort(diag);
    kern_manifest_destroy(manifest);
    return NULL;
}
