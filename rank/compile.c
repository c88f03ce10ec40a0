// SPDX-License-Identifier: Apache-2.0
//
// From the calls of a program to its flat launch list.
#include "rank/internal.h"

#include <string.h>

#include "base/text.h"

static struct rank_value finished(uint64_t value)
{
    return (struct rank_value){.value = value};
}

static struct rank_value pointer(CUdeviceptr base, uint64_t bytes, uint64_t offset)
{
    return (struct rank_value){
        .value = base + offset,
        .bytes_left = offset < bytes ? bytes - offset : 0,
    };
}

static bool depends_on_vars(const struct kern_expr *expr)
{
    return expr != NULL &&
           (expr->kind == KERN_EXPR_VAR || depends_on_vars(expr->a) || depends_on_vars(expr->b));
}

// One that is constant but overflows stays an expression, so that the launch says so.
static struct rank_value of_expr(const struct kern_expr *expr)
{
    uint64_t value;
    if (!depends_on_vars(expr) && kern_expr_value(expr, NULL, &value)) {
        return finished(value);
    }
    return (struct rank_value){.expr = expr};
}

static struct rank_value of_var(struct rank_call_site *site, const struct kern_ref *var)
{
    struct kern_expr *expr = kern_arena_alloc(&site->rank->arena, sizeof(*expr));
    *expr = (struct kern_expr){.kind = KERN_EXPR_VAR, .var = *var};
    return (struct rank_value){.expr = expr};
}

static struct rank_value of_real(float real)
{
    uint32_t bits;
    memcpy(&bits, &real, sizeof(bits));
    return finished(bits);
}

struct rank_value rank_value_of(struct rank_call_site *site, const struct kern_value *source)
{
    const struct kern_rank *rank = site->rank;
    uint32_t index = source->ref.index;
    switch (source->kind) {
    case KERN_VALUE_BUFFER:
        return pointer(kern_rank_address(rank, index, site->slot),
                       rank->manifest->buffers[index].bytes, source->offset);
    case KERN_VALUE_STATE:
        return pointer(rank->states[index].address, rank->states[index].bytes, source->offset);
    case KERN_VALUE_PARAM:
        return site->args[source->param];
    case KERN_VALUE_SCRATCH:
        return pointer(site->scratch[index], site->op->scratch[index].bytes, 0);
    case KERN_VALUE_VAR:
        return of_var(site, &source->ref);
    case KERN_VALUE_EXPR:
        return of_expr(source->expr);
    case KERN_VALUE_I32: // with its sign: a field may have 8 bytes for it
    case KERN_VALUE_I64:
        return finished((uint64_t)source->integer);
    case KERN_VALUE_U8:
        return finished((uint8_t)source->integer);
    case KERN_VALUE_F32:
        return of_real(source->real);
    case KERN_VALUE_RANK:
        return finished(rank->group_index[index]);
    case KERN_VALUE_PACK:
    case KERN_VALUE_TENSORMAP:
        break;
    }
    // A pack is an image and a tensormap 128 bytes of one: neither has a value of its own.
    return finished(0);
}

void rank_value_store(struct rank_call_site *site, const struct rank_value *value, void *to,
                      uint32_t width)
{
    if (value->expr == NULL) {
        memcpy(to, &value->value, width);
        return;
    }
    site->launch->stores[site->launch->n_stores++] =
        (struct rank_store){rank_slot_take(site, value->expr), to, width};
}

// A parameter: the address of its value. The driver takes the low bytes, as many as there are.
static void *place_param(struct rank_call_site *site, const struct rank_value *value)
{
    if (value->expr != NULL) {
        return &rank_slot_take(site, value->expr)->value;
    }
    uint64_t *at = kern_arena_alloc(&site->rank->arena, sizeof(*at));
    *at = value->value;
    return at;
}

static struct rank_extent extent_of(struct rank_call_site *site, const struct kern_expr *expr)
{
    struct rank_value value = of_expr(expr);
    return (struct rank_extent){
        .slot = value.expr == NULL ? NULL : rank_slot_take(site, value.expr),
        .value = value.value,
    };
}

static size_t most_stores(const struct kern_launch *launch)
{
    size_t count = launch->n_args;
    for (size_t a = 0; a < launch->n_args; a++) {
        if (launch->args[a].kind == KERN_VALUE_PACK) {
            count += launch->args[a].pack->n_fields;
        }
    }
    return count;
}

static bool compile_params(struct rank_call_site *site, const struct kern_launch *declared,
                           struct kern_diag *diag)
{
    struct kern_arena *arena = &site->rank->arena;
    struct rank_launch *launch = site->launch;
    launch->stores = kern_arena_array(arena, most_stores(declared), sizeof(*launch->stores));
    launch->params = kern_arena_array(arena, declared->n_args, sizeof(*launch->params));
    for (size_t a = 0; a < declared->n_args; a++) {
        if (declared->args[a].kind == KERN_VALUE_PACK) {
            launch->params[a] = rank_pack_image(site, declared->args[a].pack, diag);
            if (launch->params[a] == NULL) {
                return false;
            }
        }
    }
    launch->n_fit_slots = launch->n_slots;
    for (size_t a = 0; a < declared->n_args; a++) {
        if (declared->args[a].kind != KERN_VALUE_PACK) {
            struct rank_value value = rank_value_of(site, &declared->args[a]);
            launch->params[a] = place_param(site, &value);
        }
    }
    return true;
}

static void compile_attributes(struct kern_arena *arena, struct rank_launch *launch,
                               const struct kern_launch *declared)
{
    CUlaunchConfig *config = &launch->config;
    if (declared->has_cluster || declared->pdl) {
        config->attrs = kern_arena_array(arena, 2, sizeof(*config->attrs));
    }
    for (int axis = 0; axis < 3; axis++) {
        launch->cluster[axis] = declared->has_cluster ? declared->cluster[axis] : 1;
    }
    if (declared->has_cluster) {
        CUlaunchAttribute *attribute = &config->attrs[config->numAttrs++];
        attribute->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute->value.clusterDim.x = declared->cluster[0];
        attribute->value.clusterDim.y = declared->cluster[1];
        attribute->value.clusterDim.z = declared->cluster[2];
    }
    if (declared->pdl) {
        CUlaunchAttribute *attribute = &config->attrs[config->numAttrs++];
        attribute->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute->value.programmaticStreamSerializationAllowed = 1;
    }
}

// Whether there is a value of the var with which the launch runs.
static bool can_run(const struct kern_manifest *manifest, const struct kern_when *when)
{
    if (when == NULL) {
        return true;
    }
    uint64_t low = 1, high = manifest->vars[when->var.index].max;
    return kern_when_narrow(when, &low, &high);
}

static bool compile_kernel(struct rank_call_site *site, const struct kern_launch *declared,
                           uint32_t function, struct kern_diag *diag)
{
    struct rank_launch *launch = site->launch;
    launch->slots = site->program->next_slots;
    launch->kind = RANK_LAUNCH_KERNEL;
    launch->function = site->rank->modules.functions[function].handle;
    launch->shared_max = site->rank->modules.functions[function].dynamic_shared;
    if (declared->shared_mem != NULL) {
        launch->shared = extent_of(site, declared->shared_mem);
    }
    for (int axis = 0; axis < 3; axis++) {
        launch->grid[axis] = extent_of(site, declared->grid[axis]);
    }
    launch->config.blockDimX = declared->block[0];
    launch->config.blockDimY = declared->block[1];
    launch->config.blockDimZ = declared->block[2];
    launch->config.hStream = site->rank->stream;
    compile_attributes(&site->rank->arena, launch, declared);
    if (!compile_params(site, declared, diag)) {
        return false;
    }
    launch->fixed = launch->n_slots == 0;
    site->program->next_slots += launch->n_slots;
    return !launch->fixed || !can_run(site->rank->manifest, declared->when) ||
           rank_launch_fit(launch, diag);
}

// "programs.step.calls[2] (l0.attn, op attn) launch 0 kern_attn". The rules let anything stand in a
// label and an entry; what is shown of them is tamed.
static const char *launch_place(struct kern_arena *arena, const struct rank_program *program,
                                size_t call, size_t launch, const struct kern_op *op)
{
    const char *label = program->declared->calls[call].label;
    const char *entry = op->launches[launch].entry;
    return kern_text_tame(
        label == NULL ? kern_arena_print(arena, "%s.calls[%zu] (%s) launch %zu %s", program->place,
                                         call, op->name, launch, entry)
                      : kern_arena_print(arena, "%s.calls[%zu] (%s, op %s) launch %zu %s",
                                         program->place, call, label, op->name, launch, entry));
}

static void note_operand(const struct kern_rank *rank, struct rank_program *program,
                         const struct kern_value *arg, const struct kern_param *param)
{
    if (arg->kind == KERN_VALUE_BUFFER) {
        program->takes |= rank->buffers[arg->ref.index].arrives;
        program->touches_buffer[arg->ref.index] = true;
        program->writes_buffer[arg->ref.index] |= param->direction != KERN_IN;
    }
}

static bool compile_call(struct kern_rank *rank, struct rank_program *program, size_t index,
                         uint32_t slot, struct kern_diag *diag)
{
    const struct kern_call *call = &program->declared->calls[index];
    const struct kern_op *op = &rank->manifest->ops[call->op.index];
    const uint32_t *functions = rank->modules.launch_functions[call->op.index];
    struct rank_value *args = kern_arena_array(&rank->arena, call->n_args, sizeof(*args));
    struct rank_call_site site = {
        .rank = rank,
        .program = program,
        .call = call,
        .op = op,
        .args = args,
        .scratch = rank->scratch[call->op.index],
        .slot = slot,
    };
    for (size_t a = 0; a < call->n_args; a++) {
        args[a] = rank_value_of(&site, &call->args[a]);
        note_operand(rank, program, &call->args[a], &op->params[a]);
    }
    for (size_t l = 0; l < op->n_launches; l++) {
        const struct kern_launch *declared = &op->launches[l];
        site.launch = &program->launches[program->n_launches++];
        site.launch->place = launch_place(&rank->arena, program, index, l, op);
        site.launch->when = declared->when;
        if (declared->when != NULL) {
            program->reads_var[declared->when->var.index] = true;
        }
        if (declared->is_extern ? !rank_builtin_compile(&site, declared, diag)
                                : !compile_kernel(&site, declared, functions[l], diag)) {
            return false;
        }
    }
    return true;
}

static void list_peers(struct kern_rank *rank, struct rank_program *program)
{
    uint32_t n_buffers = rank->manifest->n_buffers;
    program->peers = kern_arena_array(&rank->arena, n_buffers, sizeof(*program->peers));
    for (uint32_t b = 0; b < n_buffers; b++) {
        if (program->touches_buffer[b] && rank->manifest->buffers[b].kind == KERN_PEER) {
            program->peers[program->n_peers++] = b;
        }
    }
}

static void list_kept(struct kern_rank *rank, struct rank_program *program)
{
    uint32_t n_buffers = rank->manifest->n_buffers;
    program->kept = kern_arena_array(&rank->arena, n_buffers, sizeof(*program->kept));
    for (uint32_t b = 0; b < n_buffers; b++) {
        if (program->writes_buffer[b] && rank_keeps(rank, &rank->manifest->buffers[b])) {
            program->kept[program->n_kept++] = b;
        }
    }
}

// The most slots that the launches of an op depend on: of every parameter and field, the grid and
// shared memory.
static size_t most_slots(const struct kern_op *op)
{
    size_t count = 0;
    for (size_t l = 0; l < op->n_launches; l++) {
        count += most_stores(&op->launches[l]) + 4;
    }
    return count;
}

static bool compile_program(struct kern_rank *rank, const struct kern_program *declared,
                            uint32_t slot, struct rank_program *program, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    struct kern_arena *arena = &rank->arena;
    size_t n_launches = 0, n_slots = 0;
    for (size_t c = 0; c < declared->n_calls; c++) {
        n_launches += manifest->ops[declared->calls[c].op.index].n_launches;
        n_slots += most_slots(&manifest->ops[declared->calls[c].op.index]);
    }
    program->next_slots = kern_arena_array(arena, n_slots, sizeof(*program->next_slots));
    program->declared = declared;
    program->place = kern_arena_print(arena, "programs.%s", declared->name);
    program->launches = kern_arena_array(arena, n_launches, sizeof(*program->launches));
    program->call_first =
        kern_arena_array(arena, declared->n_calls + 1, sizeof(*program->call_first));
    program->ready_for = kern_arena_array(arena, manifest->n_vars, sizeof(*program->ready_for));
    program->reads_var = kern_arena_array(arena, manifest->n_vars, sizeof(bool));
    program->touches_buffer = kern_arena_array(arena, manifest->n_buffers, sizeof(bool));
    program->writes_buffer = kern_arena_array(arena, manifest->n_buffers, sizeof(bool));
    program->uses_communicator = kern_arena_array(arena, manifest->n_groups, sizeof(bool));
    for (size_t c = 0; c < declared->n_calls; c++) {
        program->call_first[c] = program->n_launches;
        if (!compile_call(rank, program, c, slot, diag)) {
            return false;
        }
    }
    program->call_first[declared->n_calls] = program->n_launches;
    list_peers(rank, program);
    list_kept(rank, program);
    return true;
}

bool kern_rank_compile(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    if (!rank->modules.loaded || !rank->allocated) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "programs are compiled after modules are loaded and memory is allocated");
    }
    if (!rank_enter(rank, diag) || !rank_host_states_bound(rank, diag) ||
        !rank_host_weights_adopted(rank, diag)) {
        return false;
    }
    uint32_t n = manifest->n_programs, slots = rank->arrivals.slots > 0 ? rank->arrivals.slots : 1;
    struct rank_program *programs =
        kern_arena_array(&rank->arena, (size_t)n * slots, sizeof(*programs));
    for (uint32_t slot = 0; slot < slots; slot++) {
        for (uint32_t p = 0; p < n; p++) {
            // One that takes nothing is the same for all slots.
            if ((slot == 0 || programs[p].takes) &&
                !compile_program(rank, &manifest->programs[p], slot,
                                 &programs[(size_t)slot * n + p], diag)) {
                return false;
            }
        }
    }
    rank->programs = programs;
    return true;
}
