// SPDX-License-Identifier: Apache-2.0
//
// Whatever function of the driver fails, at whichever of its calls: the error is of the right kind,
// names the function, and nothing is left behind.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rank/safetensors.h"
#include "tests/rank_fault.h"
#include "tests/rank_fixture.h"

static char checkpoint[] = "/tmp/kern-rank-fault-XXXXXX";

// One of everything that needs the driver: an export, a peer, a state, scratch, a weight on the
// device and one on the host, a source, shared memory and a cluster beyond the ordinary, a
// tensormap.
// clang-format off
#define EVERYTHING                                                                                 \
    FIXTURE_HEAD                                                                                   \
    "'topology': {'groups': {'g': 1}}, 'states': {'s': {'bytes': 4096}},"                          \
    "'buffers': {"                                                                                 \
    "  'w': {'dtype': 'i32', 'shape': [64], 'kind': 'weight', 'bind': [{'tensor': 't'}]},"         \
    "  'h': {'dtype': 'i32', 'shape': [64], 'kind': 'weight', 'placement': 'host',"                \
    "    'bind': [{'tensor': 't'}]},"                                                              \
    "  'src': {'dtype': 'i32', 'shape': [64], 'kind': 'source', 'bind': [{'tensor': 't'}]},"       \
    "  'c': {'dtype': 'i32', 'shape': [64], 'kind': 'carry', 'export': true},"                     \
    "  'p': {'dtype': 'u64', 'shape': [1], 'kind': 'peer', 'of': 'c', 'group': 'g'},"              \
    "  'x': {'dtype': 'i32', 'shape': [64], 'kind': 'input'},"                                     \
    "  'y': {'dtype': 'i32', 'shape': [64], 'kind': 'output'},"                                    \
    "  'z': {'dtype': 'u8', 'shape': [256], 'kind': 'output'}},"                                   \
    "'ops': {"                                                                                     \
    "  'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'], 'impl': {"           \
    "    'scratch': {'t': {'dtype': 'i32', 'shape': [64]}},"                                       \
    "    'launches': [" FIXTURE_LAUNCH("add") ","                                                  \
    "      'args': [{'param': 0}, {'scratch': 't'}, {'i32': 0}, {'param': 3}]},"                   \
    FIXTURE_LAUNCH("add") ","                                                                      \
    "      'args': [{'scratch': 't'}, {'param': 1}, {'param': 2}, {'param': 3}]}]}},"              \
    "  'greet': {'params': ['in buffer<u64>', 'inout buffer<i32>', 'i32', 'i32'], 'impl': {"       \
    "    'launches': [" FIXTURE_LAUNCH("greet") "}]}},"                                            \
    "  'dump': {'params': ['inout state', 'out buffer<u8>'], 'impl': {'launches': ["               \
    FIXTURE_LAUNCH("dump") ", 'params': ['bytes<256>', 'out buffer<u8>'], 'args': [{'pack': {"     \
    "      'size': 256, 'fields': [{'at': 0, 'tensormap': {'param': 0, 'dtype': 'u8',"             \
    "      'dims': [64, 0], 'strides': [64], 'box': [16, 1]}}]}}, {'param': 1}]}]}},"              \
    "  'geometry': {'params': ['out buffer<u8>'], 'impl': {'launches': [{'module': 'k',"           \
    "    'entry': 'geometry', 'block': [1,1,1], 'grid': [16,1,1], 'cluster': [16,1,1],"            \
    "    'shared_mem': 65536}]}}},"                                                                \
    "'programs': {"                                                                                \
    "  'derive': {'derive': true, 'calls': [{'op': 'add', 'args': [{'buf': 'src'}, {'buf': 'c'},"  \
    "    {'i32': 1}, {'i32': 64}]}]},"                                                             \
    "  'step': {'calls': ["                                                                        \
    "    {'op': 'geometry', 'args': [{'buf': 'z'}]},"                                              \
    "    {'op': 'dump', 'args': [{'state': 's'}, {'buf': 'z'}]},"                                  \
    "    {'op': 'add', 'args': [{'buf': 'w'}, {'buf': 'y'}, {'i32': 0}, {'i32': 64}]},"            \
    "    {'op': 'add', 'args': [{'buf': 'h'}, {'buf': 'y'}, {'i32': 0}, {'i32': 64}]},"            \
    "    {'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'i32': 5}, {'i32': 64}]},"            \
    "    {'op': 'greet', 'args': [{'buf': 'p'}, {'buf': 'y'}, {'i32': 1}, {'rank': 'g'}]}]}}}"
// clang-format on

static bool share_with_itself(struct rank_fixture *fixture)
{
    const struct kern_export *exports;
    kern_rank_exports(fixture->rank, &exports);
    struct kern_mapping own = {
        .address = exports[0].address, .mapped = exports[0].mapped, .handle = exports[0].handle};
    struct kern_shareable shareable;
    struct kern_mapping mapping = {0};
    if (!kern_vmm_export(fixture->device, &own, KERN_HANDLE_FABRIC, "c", &shareable,
                         &fixture->diag) ||
        !kern_vmm_import(fixture->device, 0, &shareable, own.mapped, "c", &mapping,
                         &fixture->diag)) {
        return false;
    }
    kern_vmm_destroy(fixture->device, &mapping);
    return kern_rank_fill_peer(fixture->rank, fixture_buffer(fixture, "p"), &own.address, 1,
                               &fixture->diag);
}

static bool step(struct rank_fixture *fixture)
{
    int32_t x[64] = {3}, y[64] = {0};
    uint64_t nanoseconds = 0;
    uint32_t program = fixture_program(fixture, "step");
    return kern_rank_write(fixture->rank, fixture_buffer(fixture, "x"), x, sizeof(x), fixture->vars,
                           &fixture->diag) &&
           kern_rank_issue(fixture->rank, program, fixture->vars, &fixture->diag) &&
           kern_rank_wait(fixture->rank, kern_deadline_in(20), NULL, &fixture->diag) &&
           kern_rank_elapsed(fixture->rank, &nanoseconds, &fixture->diag) &&
           kern_rank_read(fixture->rank, fixture_buffer(fixture, "y"), y, sizeof(y),
                          &fixture->diag) &&
           y[0] == 1; // c[0] as derived, which greet fetches through the peer array
}

static bool live(struct rank_fixture *fixture, const char *path)
{
    return fixture_try(fixture, EVERYTHING) &&
           kern_rank_load_weights(fixture->rank, &path, 1, &fixture->diag) &&
           kern_rank_derive(fixture->rank, &fixture->diag) && share_with_itself(fixture) &&
           step(fixture);
}

static bool names_function(struct kern_diag *diag, const char *fault)
{
    const char *end = strchr(fault, ':');
    char function[128];
    snprintf(function, sizeof(function), "%.*s failed", (int)(end - fault), fault);
    for (size_t i = 0; i < diag->count; i++) {
        if (strstr(kern_diag_line(diag, i), function) != NULL) {
            return true;
        }
    }
    return false;
}

static enum outcome live_with_fault(const char *fault, const char *path)
{
    setenv("KERN_EMU_FAIL", fault, 1);
    struct rank_fixture fixture = {0};
    if (live(&fixture, path)) {
        fixture_close(&fixture);
        return SOUND;
    }
    bool handled =
        kern_diag_code(&fixture.diag) == KERN_EXIT_DEVICE && names_function(&fixture.diag, fault);
    if (!handled) {
        fprintf(stderr, "with %s:\n", fault);
        kern_diag_print(&fixture.diag, stderr, 5);
    }
    if (fixture.device != NULL) {
        fixture_close(&fixture);
    }
    return handled ? FAULT_HANDLED : FAULT_MISHANDLED;
}

static void every_call_of_every_function_may_fail(void **state)
{
    (void)state;
    // [calls]: the least number of calls that the life of a rank makes, so that a fault which is
    // never met does not look like one that is handled.
    static const struct {
        const char *function;
        unsigned calls;
    } functions[] = {
        {"cuDeviceGet", 1},
        {"cuDevicePrimaryCtxRetain", 1},
        {"cuCtxSetCurrent", 8},
        {"cuStreamCreate", 3},
        {"cuStreamWaitEvent", 4},
        {"cuEventCreate", 13},
        {"cuModuleLoadData", 1},
        {"cuModuleGetFunction", 5},
        {"cuFuncGetParamInfo", 15},
        {"cuFuncGetAttribute", 8},
        {"cuDeviceGetAttribute", 1},
        {"cuFuncSetAttribute", 2},
        {"cuFuncLoad", 4},
        {"cuMemAlloc", 7},
        {"cuMemHostAlloc", 6},
        {"cuMemHostRegister", 1},
        {"cuMemHostGetDevicePointer", 1},
        {"cuMemGetAllocationGranularity", 2},
        {"cuMemCreate", 2},
        {"cuMemAddressReserve", 3},
        {"cuMemMap", 3},
        {"cuMemSetAccess", 3},
        {"cuMemExportToShareableHandle", 1},
        {"cuMemImportFromShareableHandle", 1},
        {"cuMemsetD8Async", 8},
        {"cuStreamSynchronize", 4},
        {"cuTensorMapEncodeTiled", 1},
        {"cuMemcpyHtoDAsync", 4},
        {"cuMemcpyDtoHAsync", 1},
        {"cuEventRecord", 5},
        {"cuEventSynchronize", 3},
        {"cuEventQuery", 1},
        {"cuEventElapsedTime", 1},
        {"cuLaunchKernelEx", 11},
    };
    assert_int_equal(spawn_with_fault("cuLaunchKernelEx", 100000, checkpoint), SOUND);
    for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++) {
        unsigned nth = 1;
        enum outcome outcome = FAULT_HANDLED;
        // How often a wait looks for the end of a step is not ours to say.
        while (outcome == FAULT_HANDLED && nth <= 40) {
            outcome = spawn_with_fault(functions[f].function, nth++, checkpoint);
        }
        if (outcome == FAULT_MISHANDLED || nth - 1 <= functions[f].calls) {
            fail_msg("call %u of %s: %s", nth - 1, functions[f].function,
                     outcome == SOUND ? "its failure was not noticed" : "not handled");
        }
    }
}

static int make_checkpoint(void **state)
{
    (void)state;
    int fd = mkstemp(checkpoint);
    if (fd < 0) {
        return 1;
    }
    close(fd);
    static const int32_t values[64];
    static const uint64_t shape[1] = {64};
    struct kern_tensor_data tensor = {.name = "t",
                                      .dtype = KERN_I32,
                                      .shape = shape,
                                      .rank = 1,
                                      .bytes = values,
                                      .length = sizeof(values)};
    struct kern_diag diag = {0};
    return !kern_safetensors_write(checkpoint, &tensor, 1, &diag);
}

static int remove_checkpoint(void **state)
{
    (void)state;
    return unlink(checkpoint);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return (int)live_with_fault(argv[1], argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_every_function_may_fail),
    };
    return cmocka_run_group_tests(tests, make_checkpoint, remove_checkpoint);
}
