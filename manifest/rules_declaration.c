// SPDX-License-Identifier: Apache-2.0
//
// V-VAR, V-MODULE, V-TOPO and V-CUT: the declarations that stand for themselves.
#include <inttypes.h>
#include <string.h>

#include "manifest/verify.h"

static void check_vars(struct kern_verify *verify)
{
    static const char *const axes[] = {"none", "rows", "groups", "ranks"};
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place vars = kern_place_member(NULL, "vars");
    const struct kern_var *counting[4] = {NULL};
    for (uint32_t i = 0; i < manifest->n_vars; i++) {
        const struct kern_var *var = &manifest->vars[i];
        struct kern_place place = kern_place_member(&vars, var->name);
        if (var->max == 0) {
            struct kern_place max = kern_place_member(&place, "max");
            kern_place_fail(verify->diag, "V-VAR", var->order, &max,
                            "max is 0; a var starts at 1, so it must be at least 1");
        }
        if (var->axis == KERN_AXIS_NONE)
            continue;
        const struct kern_var *other = counting[var->axis];
        if (!other) {
            counting[var->axis] = var;
            continue;
        }
        // The one that the reader meets second is the one too many.
        const struct kern_var *second = var->order > other->order ? var : other;
        const struct kern_var *first = second == var ? other : var;
        struct kern_place second_place = kern_place_member(&vars, second->name);
        struct kern_place axis = kern_place_member(&second_place, "axis");
        kern_place_fail(verify->diag, "V-VAR", second->order, &axis,
                        "\"%s\" counts the %s already; at most one var may", first->name,
                        axes[var->axis]);
        counting[var->axis] = first;
    }
}

// Whether [text] of [length] bytes is parts between slashes, [least] of them or more, none of them
// empty, "." or "..".
static bool is_path(const char *text, size_t length, size_t least)
{
    size_t parts = 0;
    const char *end = text + length;
    for (const char *part = text;; parts++) {
        const char *slash = memchr(part, '/', (size_t)(end - part));
        size_t size = (size_t)((slash ? slash : end) - part);
        if (size == 0 || (size == 1 && part[0] == '.') ||
            (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!slash)
            return parts + 1 >= least;
        part = slash + 1;
    }
}

// hf:ORG/REPO/PATH[@REV]; the last @ begins the revision.
static bool is_hf(const char *rest)
{
    const char *at = strrchr(rest, '@');
    if (at && (!at[1] || strchr(at, '/')))
        return false;
    return is_path(rest, at ? (size_t)(at - rest) : strlen(rest), 3);
}

// https://HOST/PATH
static bool is_https(const char *rest)
{
    if (strncmp(rest, "//", 2) != 0 || strpbrk(rest, " \t\r\n\f\v"))
        return false;
    const char *host = rest + 2;
    const char *slash = strchr(host, '/');
    return slash && slash > host && slash[1];
}

static void check_source(struct kern_verify *verify, const struct kern_module *module,
                         const struct kern_place *place)
{
    const char *source = module->source;
    const char *wanted = NULL;
    if (!*source)
        wanted = "a file name, hf:ORG/REPO/PATH[@REV] or https://HOST/PATH";
    else if (strncmp(source, "hf:", 3) == 0)
        wanted = is_hf(source + 3) ? NULL : "hf:ORG/REPO/PATH[@REV] with no empty part";
    else if (strncmp(source, "https:", 6) == 0)
        wanted = is_https(source + 6) ? NULL : "https://HOST/PATH without white space";
    else if (strstr(source, "://"))
        wanted = "a file name, hf: or https:, and no other scheme";
    if (wanted)
        kern_place_fail(verify->diag, "V-MODULE", module->order, place,
                        "the source is \"%s\"; it must be %s", source, wanted);
}

static void check_modules(struct kern_verify *verify)
{
    struct kern_place modules = kern_place_member(NULL, "modules");
    for (uint32_t i = 0; i < verify->manifest->n_modules; i++) {
        struct kern_module *module = kern_rewrite(&verify->manifest->modules[i]);
        struct kern_place place = kern_place_member(&modules, module->name);
        struct kern_place source = kern_place_member(&place, "source");
        struct kern_place sha256 = kern_place_member(&place, "sha256");
        check_source(verify, module, &source);
        if (!kern_sha256_from_hex(module->sha256, module->digest))
            kern_place_fail(verify->diag, "V-MODULE", module->order, &sha256,
                            "the hash is \"%s\"; it must be the artifact's sha256 in 64 hex digits",
                            module->sha256);
    }
}

static void check_groups(struct kern_verify *verify)
{
    struct kern_place topology = kern_place_member(NULL, "topology");
    struct kern_place groups = kern_place_member(&topology, "groups");
    for (uint32_t i = 0; i < verify->manifest->n_groups; i++) {
        const struct kern_group *group = &verify->manifest->groups[i];
        struct kern_place place = kern_place_member(&groups, group->name);
        if (group->size == 0)
            kern_place_fail(verify->diag, "V-TOPO", group->order, &place,
                            "the group has no members; its size must be at least 1");
    }
}

static void check_cut(struct kern_verify *verify)
{
    const struct kern_cut *cut = verify->manifest->cut;
    if (!cut)
        return;
    struct kern_place place = kern_place_member(NULL, "cut");
    struct kern_place id = kern_place_member(&place, "id");
    struct kern_place stage = kern_place_member(&place, "stage");
    struct kern_place stages = kern_place_member(&place, "stages");
    if (!*cut->id)
        kern_place_fail(verify->diag, "V-CUT", cut->order, &id,
                        "the id is empty; the stages of a cut are told by it");
    if (cut->stages < 2)
        kern_place_fail(verify->diag, "V-CUT", cut->order, &stages,
                        "a pipeline of %" PRIu64 " stage%s; there must be at least 2", cut->stages,
                        kern_plural(cut->stages));
    else if (cut->stage >= cut->stages)
        kern_place_fail(verify->diag, "V-CUT", cut->order, &stage,
                        "stage %" PRIu64 " of %" PRIu64 "; the last one is %" PRIu64, cut->stage,
                        cut->stages, cut->stages - 1);
}

void kern_rules_declaration(struct kern_verify *verify)
{
    check_vars(verify);
    check_modules(verify);
    check_groups(verify);
    check_cut(verify);
}
