// SPDX-License-Identifier: Apache-2.0
//
// The report for machines: every figure, in base units (bytes, nanoseconds, seconds).
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "launcher/generate.h"
#include "launcher/report.h"

// Of the environment only what explains a run; the rest may hold secrets.
static const char *const variables[] = {
    "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING",  "KERN_EMU_DEVICES",      "KERN_EMU_MEMORY",
    "KERN_EMU_FABRIC",      "KERN_EMU_FAIL",        "KERN_EMU_DELAY_US_MAX", "KERN_EMU_SEED",
    "NCCL_PROTO",           "NCCL_RUNTIME_CONNECT", "SLURM_JOB_ID",          "SLURM_JOB_NODELIST",
    "SLURM_NNODES",         "SLURM_RESTART_COUNT",
};

// JSON is UTF-8, which file names and the environment need not be: what is not becomes U+FFFD.
static struct json_object *make_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    struct kern_arena arena = {0};
    char *clean = kern_arena_array(&arena, strlen(text) + 1, sizeof replacement), *end = clean;
    while (*text) {
        size_t length = kern_text_utf8_length(text);
        size_t copied = length ? length : strlen(replacement);
        memcpy(end, length ? text : replacement, copied);
        end += copied;
        text += length ? length : 1;
    }
    struct json_object *made = json_object_new_string_len(clean, (int)(end - clean));
    kern_arena_free(&arena);
    return made;
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, make_text(text));
}

static void add_optional(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, text ? make_text(text) : NULL);
}

static void add_count(struct json_object *object, const char *key, uint64_t count)
{
    json_object_object_add(object, key, json_object_new_uint64(count));
}

static void add_real(struct json_object *object, const char *key, double real)
{
    json_object_object_add(object, key, json_object_new_double(real));
}

// Of one rank: its stage, and how the items went through it.
static struct json_object *make_flow(const struct kern_report *report, int r)
{
    const struct kern_flow_figures *flow = &report->ranks[r].flow;
    struct json_object *object = json_object_new_object();
    add_count(object, "stage", (uint64_t)(r / report->run->stage.size));
    add_count(object, "items", flow->items);
    add_count(object, "busy_ns", flow->busy);
    add_count(object, "input_wait_ns", flow->input);
    add_count(object, "room_wait_ns", flow->room);
    add_count(object, "copy_ns", flow->copy);
    add_count(object, "span_ns", flow->span);
    return object;
}

static struct json_object *make_rank(const struct kern_report *report, int r)
{
    const struct kern_run *run = report->run;
    const struct kern_rank_figures *figures = &report->ranks[r];
    const struct kern_place *place = &run->places[r];
    struct json_object *rank = json_object_new_object();
    add_count(rank, "rank", (uint64_t)r);
    add_text(rank, "host", run->world.members[r].host);
    add_count(rank, "node", (uint64_t)run->world.members[r].node);
    add_count(rank, "local_rank", (uint64_t)run->world.members[r].local_rank);
    add_count(rank, "device", (uint64_t)place->ordinal);
    add_text(rank, "device_name", place->name);
    add_text(rank, "bus_id", place->bus_id);
    json_object_object_add(rank, "numa", place->numa < 0 ? NULL : json_object_new_int(place->numa));
    add_text(rank, "cpus", place->cpus);
    add_text(rank, "bound", place->bound);
    struct json_object *groups = json_object_new_object();
    for (size_t n = 0; n < report->n_names; n++) {
        const int *cell = &report->places[2 * ((size_t)r * report->n_names + n)];
        if (cell[0] < 0)
            continue;
        struct json_object *at = json_object_new_object();
        add_count(at, "number", (uint64_t)cell[0]);
        add_count(at, "index", (uint64_t)cell[1]);
        json_object_object_add(groups, report->names[n], at);
    }
    json_object_object_add(rank, "groups", groups);
    struct json_object *memory = json_object_new_object();
    add_count(memory, "weights", figures->memory.weights);
    add_count(memory, "workspace", figures->memory.workspace);
    add_count(memory, "carry", figures->memory.carry);
    add_count(memory, "io", figures->memory.io);
    add_count(memory, "peer", figures->memory.peer);
    add_count(memory, "scratch", figures->memory.scratch);
    add_count(memory, "states", figures->memory.states);
    add_count(memory, "exported", figures->memory.exported);
    json_object_object_add(rank, "memory_bytes", memory);
    struct json_object *fabric = json_object_new_object();
    add_count(fabric, "collectives", figures->fabric.collectives);
    add_count(fabric, "handles", figures->fabric.handles);
    add_count(fabric, "mappings", figures->fabric.mappings);
    add_count(fabric, "mapped_bytes", figures->fabric.mapped);
    json_object_object_add(rank, "fabric", fabric);
    if (run->n_stages > 1)
        json_object_object_add(rank, "pipeline", make_flow(report, r));
    add_real(rank, "start_seconds", figures->start_seconds);
    add_real(rank, "mpi_seconds", figures->mpi_seconds);
    return rank;
}

static struct json_object *make_group(const struct kern_report *report, size_t g)
{
    const struct kern_run *run = report->run;
    const struct kern_group_figures *figures = &report->groups[g];
    struct json_object *group = json_object_new_object();
    add_text(group, "name", figures->name);
    if (run->n_stages > 1)
        add_count(group, "stage", figures->stage);
    add_count(group, "members", figures->size);
    add_count(group, "groups", (uint64_t)run->stage.size / figures->size);
    json_object_object_add(group, "spans_nodes", json_object_new_boolean(figures->spans_nodes));
    add_count(group, "shared_exports", figures->shared);
    add_optional(group, "memory", figures->shared ? kern_handle_kind_name(run->road.kind) : NULL);
    add_optional(group, "collectives", figures->collectives ? "nccl" : NULL);
    return group;
}

static struct json_object *make_stats(const struct kern_stats *stats)
{
    struct json_object *object = json_object_new_object();
    add_real(object, "min", stats->min);
    add_real(object, "median", stats->median);
    add_real(object, "p99", stats->p99);
    add_real(object, "max", stats->max);
    add_real(object, "mean", stats->mean);
    return object;
}

static struct json_object *make_program(const struct kern_report *report, size_t i)
{
    const struct kern_run *run = report->run;
    const struct kern_program_figures *figures = &report->programs[i];
    struct json_object *program = json_object_new_object();
    add_text(program, "name", figures->name);
    struct json_object *vars = json_object_new_object();
    for (uint32_t v = 0; v < run->manifest->n_vars; v++)
        if (run->driven[i].facts.reads_var[v])
            add_count(vars, run->manifest->vars[v].name, figures->vars[v]);
    json_object_object_add(program, "vars", vars);
    add_count(program, "steps", figures->steps);
    add_count(program, "warmup", run->generation ? 0 : run->options.warmup);
    add_count(program, "launches", figures->launches);
    json_object_object_add(program, "graph", json_object_new_boolean(figures->graph));
    add_count(program, "bytes", figures->bytes);
    json_object_object_add(program, "step_ns", make_stats(&figures->path));
    json_object_object_add(program, "spread_ns", make_stats(&figures->spread));
    add_count(program, "slowest_rank", (uint64_t)figures->slowest);
    add_real(program, "slowest_rank_median_ns", figures->slowest_median);
    add_count(program, "fastest_rank", (uint64_t)figures->fastest);
    add_real(program, "fastest_rank_median_ns", figures->fastest_median);
    return program;
}

static struct json_object *make_check(const struct kern_check *check)
{
    static const char *const verdicts[] = {"unchecked", "ok", "wrong"};
    struct json_object *object = json_object_new_object();
    add_text(object, "verdict", verdicts[check->verdict]);
    add_count(object, "outputs", check->outputs);
    add_count(object, "elements", check->elements);
    add_real(object, "max_error", check->max_error);
    return object;
}

static struct json_object *make_ids(const int64_t *ids, size_t count)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(array, json_object_new_int64(ids[i]));
    return array;
}

static struct json_object *make_pace(const struct kern_pace *pace)
{
    struct json_object *object = json_object_new_object();
    add_count(object, "tokens", pace->tokens);
    add_count(object, "ns", pace->nanoseconds);
    return object;
}

static struct json_object *make_generation(const struct kern_generation *generation)
{
    struct json_object *object = json_object_new_object(), *prompts = json_object_new_array();
    for (size_t i = 0; i < generation->count; i++) {
        const struct kern_sequence *sequence = &generation->sequences[i];
        struct json_object *prompt = json_object_new_object();
        json_object_object_add(prompt, "prompt_ids",
                               make_ids(sequence->prompt, sequence->n_prompt));
        json_object_object_add(prompt, "ids", make_ids(sequence->ids, sequence->n_ids));
        add_text(prompt, "finished", kern_finish_name(sequence->finish));
        json_object_array_add(prompts, prompt);
    }
    json_object_object_add(object, "prompts", prompts);
    json_object_object_add(object, "chunks", make_pace(&generation->chunks));
    json_object_object_add(object, "steps", make_pace(&generation->steps));
    return object;
}

static struct json_object *make_trace(const struct kern_run *run)
{
    struct json_object *object = json_object_new_object();
    add_text(object, "file", run->options.trace);
    add_count(object, "spans", run->trace_facts.spans);
    add_count(object, "spans_dropped", run->trace_facts.dropped);
    add_count(object, "clock_error_ns", run->trace_facts.clock_error);
    return object;
}

static struct json_object *make_pipeline(const struct kern_run *run)
{
    struct json_object *object = json_object_new_object(), *stages = json_object_new_array();
    add_text(object, "cut_id", run->stages[0]->cut->id);
    add_count(object, "depth", run->options.depth);
    for (size_t i = 0; i < run->n_stages; i++) {
        struct json_object *stage = json_object_new_object();
        char hex[KERN_SHA256_HEX + 1];
        kern_sha256_to_hex(run->stages[i]->digest, hex);
        add_text(stage, "manifest", run->paths[i]);
        add_text(stage, "manifest_sha256", hex);
        json_object_array_add(stages, stage);
    }
    json_object_object_add(object, "stages", stages);
    return object;
}

static struct json_object *make_report(const struct kern_report *report)
{
    const struct kern_run *run = report->run;
    struct json_object *root = json_object_new_object();
    char hex[KERN_SHA256_HEX + 1];
    kern_sha256_to_hex(run->manifest->digest, hex);
    add_count(root, "report_version", 1);
    add_text(root, "kern_rank", KERN_VERSION);
    add_text(root, "manifest", run->path);
    add_text(root, "manifest_sha256", hex);
    add_text(root, "model", run->manifest->model);
    json_object_object_add(root, "pipeline", run->n_stages > 1 ? make_pipeline(run) : NULL);
    add_text(root, "device", run->device->kind == KERN_DEVICE_CUDA ? "cuda" : "emu");
    add_text(root, "device_why", run->device->why);
    add_text(root, "device_library", run->device->library);
    add_count(root, "driver_version", (uint64_t)run->device->driver_version);
    add_text(root, "handle_kind", kern_handle_kind_name(run->road.kind));
    add_text(root, "handle_kind_why", run->road.why);
    json_object_object_add(root, "stopped_by_signal",
                           run->stopped ? json_object_new_int(run->stopped) : NULL);
    add_count(root, "nodes", (uint64_t)run->world.n_nodes);
    struct json_object *environment = json_object_new_object();
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            add_text(environment, variables[i], getenv(variables[i]));
    json_object_object_add(root, "environment", environment);
    struct json_object *ranks = json_object_new_array(), *programs = json_object_new_array();
    struct json_object *groups = json_object_new_array();
    for (size_t g = 0; g < report->n_groups; g++)
        json_object_array_add(groups, make_group(report, g));
    for (int r = 0; r < run->world.size; r++)
        json_object_array_add(ranks, make_rank(report, r));
    for (size_t i = 0; i < run->n_driven; i++)
        json_object_array_add(programs, make_program(report, i));
    json_object_object_add(root, "groups", groups);
    json_object_object_add(root, "ranks", ranks);
    json_object_object_add(root, "programs", programs);
    json_object_object_add(root, "generation",
                           run->generation ? make_generation(run->generation) : NULL);
    json_object_object_add(root, "trace", run->trace ? make_trace(run) : NULL);
    json_object_object_add(root, "check", make_check(&report->check));
    add_optional(root, "compared_with", run->options.compare);
    json_object_object_add(root, "compare", make_check(&report->compared));
    return root;
}

const char *kern_report_kept(const char *path, struct kern_arena *arena)
{
    struct stat status;
    bool is_there = path && lstat(path, &status) == 0 && S_ISREG(status.st_mode);
    return is_there ? kern_arena_print(arena, "%s~", path) : NULL;
}

static void keep_earlier(const char *path)
{
    struct kern_arena arena = {0};
    const char *kept = kern_report_kept(path, &arena);
    if (kept && rename(path, kept) == 0)
        fprintf(stderr, "kern-rank: the earlier %s is now %s\n", path, kept);
    kern_arena_free(&arena);
}

bool kern_report_write(const struct kern_report *report, const char *path, struct kern_diag *diag)
{
    struct json_object *root = make_report(report);
    size_t length = 0;
    const char *text = json_object_to_json_string_length(
        root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE,
        &length);
    keep_earlier(path);
    bool good = kern_file_write(path, text, length, diag);
    json_object_put(root);
    return good;
}
