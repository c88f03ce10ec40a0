// SPDX-License-Identifier: Apache-2.0
//
// kern topo: this machine, and where the ranks of a run would lie on machines like it.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/table.h"
#include "launcher/kern.h"
#include "topo/picture.h"

enum { RANKS, NODES, PER_NODE, GROUP, GROUPS, DEVICE, PICTURE };

static const struct kern_option options[] = {
    [RANKS] = {"ranks", "N", KERN_OPTION_COUNT, "of the run (the fewest that form the groups)"},
    [NODES] = {"nodes", "N", KERN_OPTION_COUNT, "machines like this one that share them (1)"},
    [PER_NODE] = {"ranks-per-node", "N", KERN_OPTION_COUNT, "instead of --nodes"},
    [GROUP] = {"group", "NAME=LAYOUT", KERN_OPTION_LIST,
               "block: consecutive ranks (default); stride: apart"},
    [GROUPS] = {"groups", "FILE", KERN_OPTION_TEXT, "explicit groups: lines NAME RANK RANK …"},
    [DEVICE] = {"device", "KIND", KERN_OPTION_TEXT, "auto (a GPU, else emu), cuda or emu"},
    [PICTURE] = {"picture", "FILE", KERN_OPTION_TEXT, "draw it, as SVG"},
};

// The most ranks that are placed; a picture of more could not be read.
enum { RANKS_MAX = 65536 };

// A run that is still to come.
struct plan {
    char host[KERN_HOST_BYTES];     // this machine
    struct kern_manifest *manifest; // NULL: only the machine is looked at
    struct kern_device *device;
    const char *kind, *why;        // of the device: "emu", and why it was taken
    struct kern_machine *machines; // by node, all like this one but for the name
    int n_nodes;
    int ranks;
    int most; // ranks on a node
    struct kern_member *members;
    struct kern_place *places;
    struct kern_group_layout *layouts;
    uint32_t n_layouts;
};

// Of two numbers above 0.
static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t multiple = a;
    while (multiple % b)
        multiple += a;
    return multiple;
}

// The fewest ranks that form groups of every size.
static uint64_t fewest_ranks(const struct kern_manifest *manifest)
{
    uint64_t ranks = 1;
    for (uint32_t g = 0; g < manifest->n_groups && ranks <= RANKS_MAX; g++) {
        uint64_t size = manifest->groups[g].size;
        ranks = size && size <= RANKS_MAX ? common_multiple(ranks, size) : RANKS_MAX + 1;
    }
    return ranks;
}

static bool choose_size(const struct kern_arguments *arguments, struct plan *plan,
                        struct kern_diag *diag)
{
    const struct kern_given *given = arguments->options;
    uint64_t ranks = 0, nodes = given[NODES].given ? given[NODES].count : 1;
    if (given[RANKS].given)
        ranks = given[RANKS].count;
    else if (plan->manifest)
        ranks = fewest_ranks(plan->manifest);
    if (given[NODES].given && given[PER_NODE].given)
        return kern_fail(diag, KERN_EXIT_USAGE, "--ranks-per-node", "and --nodes exclude another");
    if (ranks > RANKS_MAX || (given[RANKS].given && ranks < 1))
        return kern_fail(diag, KERN_EXIT_USAGE, "--ranks", "is 1 to %d", RANKS_MAX);
    if (!ranks && (given[NODES].given || given[PER_NODE].given))
        return kern_fail(diag, KERN_EXIT_USAGE, "--ranks", "or a manifest is needed to place them");
    if (given[PER_NODE].given && given[PER_NODE].count < 1)
        return kern_fail(diag, KERN_EXIT_USAGE, "--ranks-per-node", "is 1 or more");
    if (given[PER_NODE].given)
        nodes = ranks / given[PER_NODE].count + (ranks % given[PER_NODE].count != 0);
    if (nodes < 1 || (ranks && nodes > ranks))
        return kern_fail(diag, KERN_EXIT_USAGE, "--nodes", "is 1 to %llu, the number of ranks",
                         (unsigned long long)ranks);
    plan->ranks = (int)ranks;
    plan->n_nodes = (int)nodes;
    uint64_t most = ranks / nodes + (ranks % nodes != 0);
    if (given[PER_NODE].given)
        most = given[PER_NODE].count < ranks ? given[PER_NODE].count : ranks;
    plan->most = (int)most;
    return true;
}

// Fills the nodes one after the other: as mpirun does with so many slots on each, or srun with its
// block distribution, which gives the first nodes one rank more where they cannot all have as many.
static void place_ranks(const struct kern_arguments *arguments, struct plan *plan)
{
    bool filled = arguments->options[PER_NODE].given;
    int rank = 0;
    plan->members = kern_calloc((size_t)plan->ranks, sizeof *plan->members);
    for (int n = 0; n < plan->n_nodes; n++) {
        int left = plan->ranks - rank;
        int count =
            filled ? plan->most : plan->ranks / plan->n_nodes + (n < plan->ranks % plan->n_nodes);
        count = count > left ? left : count;
        for (int local = 0; local < count; local++, rank++) {
            struct kern_member *member = &plan->members[rank];
            *member = (struct kern_member){.node = n, .local_rank = local};
            if (plan->n_nodes > 1)
                snprintf(member->host, sizeof member->host, "node%d", n);
            else
                memcpy(member->host, plan->host, sizeof member->host);
        }
    }
}

static bool open_device(const struct kern_arguments *arguments, struct plan *plan,
                        struct kern_diag *diag)
{
    static const char *const kinds[] = {"auto", "cuda", "emu"};
    const char *wanted =
        arguments->options[DEVICE].given ? arguments->options[DEVICE].text : "auto";
    char count[16];
    // The emulated machine has a device for every rank of a node, as kern-rank gives it.
    snprintf(count, sizeof count, "%d", plan->most > 8 ? plan->most : 8);
    setenv("KERN_EMU_DEVICES", count, false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(wanted, kinds[i]) == 0) {
            plan->device = kern_device_open((enum kern_device_choice)i, NULL, diag);
            if (!plan->device)
                return false;
            plan->kind = plan->device->kind == KERN_DEVICE_CUDA ? "cuda" : "emu";
            plan->why = plan->device->why;
            return true;
        }
    return kern_fail(diag, KERN_EXIT_USAGE, "--device",
                     "\"%s\" will not do; it takes auto, cuda or emu", wanted);
}

// Every node is like this machine; each gets a name of its own.
static bool make_machines(struct plan *plan, struct kern_diag *diag)
{
    plan->machines = kern_calloc((size_t)plan->n_nodes, sizeof *plan->machines);
    if (!kern_machine_describe(plan->device, &plan->machines[0], diag))
        return false;
    memcpy(plan->host, plan->machines[0].host, sizeof plan->host);
    for (int n = 1; n < plan->n_nodes; n++)
        plan->machines[n] = plan->machines[0];
    for (int n = 0; plan->n_nodes > 1 && n < plan->n_nodes; n++)
        snprintf(plan->machines[n].host, sizeof plan->machines[n].host, "node%d", n);
    return true;
}

static bool choose_devices(struct plan *plan, struct kern_diag *diag)
{
    const struct kern_machine *machine = &plan->machines[0];
    if (plan->ranks && machine->n_devices < 1)
        return kern_fail(diag, KERN_EXIT_DEVICE, NULL, "no device is visible");
    if (plan->most > machine->n_devices)
        kern_warn(diag, NULL, 0, NULL,
                  "%d ranks on a node with %d devices: kern-rank refuses that without "
                  "--share-devices",
                  plan->most, machine->n_devices);
    plan->places = kern_calloc((size_t)plan->ranks, sizeof *plan->places);
    for (int r = 0; r < plan->ranks; r++)
        plan->places[r] = machine->devices[plan->members[r].local_rank % machine->n_devices];
    return true;
}

static bool lay_groups(const struct kern_arguments *arguments, struct plan *plan,
                       struct kern_diag *diag)
{
    const struct kern_given *given = arguments->options;
    if (!plan->manifest)
        return (!given[GROUP].given && !given[GROUPS].given) ||
               kern_fail(diag, KERN_EXIT_USAGE, given[GROUP].given ? "--group" : "--groups",
                         "needs a manifest, which names the groups");
    size_t count = given[GROUP].n_list;
    struct kern_arena arena = {0};
    const struct kern_ranks ranks = {0, plan->ranks, plan->ranks};
    struct kern_group_option *layouts = kern_calloc(count, sizeof *layouts);
    bool good = true;
    for (size_t i = 0; i < count; i++)
        good = kern_layout_option(given[GROUP].list[i], &layouts[i], &arena, diag) && good;
    if (good)
        plan->layouts =
            kern_layout_make(plan->manifest, &ranks, layouts, count, given[GROUPS].text, diag);
    if (plan->layouts)
        plan->n_layouts = plan->manifest->n_groups;
    for (uint32_t g = 0; g < plan->n_layouts; g++)
        kern_layout_warn(&plan->layouts[g], plan->members, &ranks, diag);
    free(layouts);
    kern_arena_free(&arena);
    return plan->layouts != NULL;
}

static bool make_plan(const struct kern_arguments *arguments, struct plan *plan,
                      struct kern_diag *diag)
{
    if (arguments->n_files && !(plan->manifest = kern_load(arguments->files[0], diag)))
        return false;
    if (!choose_size(arguments, plan, diag) || !open_device(arguments, plan, diag) ||
        !make_machines(plan, diag))
        return false;
    place_ranks(arguments, plan);
    return choose_devices(plan, diag) && lay_groups(arguments, plan, diag);
}

static void print_machine(const struct plan *plan)
{
    const struct kern_machine *machine = &plan->machines[0];
    struct kern_table numa = {.sides = "rll"}, devices = {.sides = "llrl"};
    kern_table_add(&numa, "numa");
    kern_table_add(&numa, "cpus");
    kern_table_add(&numa, "memory");
    for (int n = 0; n < machine->n_numa; n++) {
        char text[32];
        kern_table_add(&numa, "%d", machine->numa[n].index);
        kern_table_add(&numa, "%s", machine->numa[n].cpus);
        kern_table_add(&numa, "%s", kern_bytes_text(machine->numa[n].memory, text));
    }
    kern_table_print(&numa, stdout);
    puts("#");
    kern_table_add(&devices, "device");
    kern_table_add(&devices, "bus id");
    kern_table_add(&devices, "numa");
    kern_table_add(&devices, "name");
    for (int d = 0; d < machine->n_devices; d++) {
        const struct kern_place *device = &machine->devices[d];
        kern_table_add(&devices, "%d", device->ordinal);
        kern_table_add(&devices, "%s", device->bus_id);
        if (device->numa < 0)
            kern_table_add(&devices, "-");
        else
            kern_table_add(&devices, "%d", device->numa);
        kern_table_add(&devices, "%s", device->name);
    }
    kern_table_print(&devices, stdout);
}

static void print_ranks(const struct plan *plan)
{
    char *sides = kern_calloc(plan->n_layouts + 5, 1);
    memset(sides, 'l', plan->n_layouts + 4);
    sides[0] = 'r';
    struct kern_table table = {.sides = sides};
    static const char *const heads[] = {"rank", "node", "local", "device"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        kern_table_add(&table, "%s", heads[i]);
    for (uint32_t g = 0; g < plan->n_layouts; g++)
        kern_table_add(&table, "%s", plan->layouts[g].name);
    for (int r = 0; r < plan->ranks; r++) {
        kern_table_add(&table, "%d", r);
        kern_table_add(&table, "%s", plan->members[r].host);
        kern_table_add(&table, "%d", plan->members[r].local_rank);
        kern_table_add(&table, "%d %s", plan->places[r].ordinal, plan->places[r].bus_id);
        for (uint32_t g = 0; g < plan->n_layouts; g++)
            kern_table_add(&table, "%d.%d", plan->layouts[g].number_of[r],
                           plan->layouts[g].index_of[r]);
    }
    puts("#");
    kern_table_print(&table, stdout);
    if (plan->n_layouts)
        puts("#  groups: NUMBER.INDEX, which group of that name and the rank's index in it");
    free(sides);
}

static void print_groups(const struct plan *plan)
{
    struct kern_table table = {.sides = "lrrl"};
    kern_table_add(&table, "group");
    kern_table_add(&table, "members");
    kern_table_add(&table, "groups");
    kern_table_add(&table, "nodes");
    for (uint32_t g = 0; g < plan->n_layouts; g++) {
        const struct kern_group_layout *layout = &plan->layouts[g];
        bool spans = kern_layout_spans_nodes(layout, plan->members, plan->ranks);
        kern_table_add(&table, "%s", layout->name);
        kern_table_add(&table, "%u", layout->size);
        kern_table_add(&table, "%d", plan->ranks / (int)layout->size);
        kern_table_add(&table, "%s", spans ? "across nodes" : "inside a node");
    }
    puts("#");
    kern_table_print(&table, stdout);
}

static bool draw(const struct plan *plan, const char *path, struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    const struct kern_machine *machine = &plan->machines[0];
    struct kern_picture picture = {
        .title = plan->manifest ? plan->manifest->model : plan->host,
        .subtitle = kern_arena_print(&arena, "%d rank%s on %d node%s like %s · device %s",
                                     plan->ranks, plan->ranks == 1 ? "" : "s", plan->n_nodes,
                                     plan->n_nodes == 1 ? "" : "s", plan->host, plan->kind),
        .machines = plan->machines,
        .n_nodes = plan->n_nodes,
        .members = plan->members,
        .places = plan->places,
        .ranks = plan->ranks,
        .layouts = plan->layouts,
        .n_layouts = plan->n_layouts,
    };
    if (!plan->ranks)
        picture.subtitle =
            kern_arena_print(&arena, "%u processors · device %s", machine->processors, plan->kind);
    bool good = kern_picture_write(&picture, path, diag);
    kern_arena_free(&arena);
    return good;
}

static void print_plan(const struct plan *plan)
{
    printf("# %s: %u processors  device %s: %s\n#\n", plan->host, plan->machines[0].processors,
           plan->kind, plan->why);
    print_machine(plan);
    if (plan->ranks)
        print_ranks(plan);
    if (plan->n_layouts)
        print_groups(plan);
}

static void free_plan(struct plan *plan)
{
    kern_layout_free(plan->layouts, plan->n_layouts);
    if (plan->machines)
        kern_machine_free(&plan->machines[0]);
    free(plan->machines);
    free(plan->members);
    free(plan->places);
    kern_device_close(plan->device);
    kern_manifest_destroy(plan->manifest);
}

static enum kern_exit topo(const struct kern_arguments *arguments)
{
    struct kern_diag diag = {0};
    struct plan plan = {0};
    const char *path = arguments->options[PICTURE].text;
    if (make_plan(arguments, &plan, &diag)) {
        print_plan(&plan);
        if (path)
            draw(&plan, path, &diag);
    }
    kern_complain(arguments->n_files ? arguments->files[0] : "topo", &diag);
    enum kern_exit code = kern_diag_code(&diag);
    free_plan(&plan);
    kern_diag_clear(&diag);
    return code;
}

const struct kern_command kern_command_topo = {
    .name = "topo",
    .help = "show this machine, and where the ranks of a run would lie",
    .usage = "[options] [FILE]",
    .example = "kern topo --ranks 16 --nodes 2 --picture run.svg model.json",
    .more =
        "Nodes are like this machine and filled one after the other. Ranks take the devices of\n"
        "their node in order of bus ids, as kern-rank gives them.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 0,
    .files_max = 1,
    .run = topo,
};
