// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a step that does not end, that fails, and for which nobody wants to wait any more.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_fixture.h"

// clang-format off
#define WAITING                                                                                    \
    FIXTURE_HEAD                                                                                   \
    "'buffers': {'flag': {'dtype': 'i32', 'shape': [1], 'kind': 'carry', 'export': true},"         \
    "  'c': {'dtype': 'i32', 'shape': [1], 'kind': 'carry'}},"                                     \
    "'ops': {'wait': {'params': ['inout buffer<i32>'],"                                            \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("wait_flag") "}]}},"                                \
    "  'count': {'params': ['inout buffer<i32>', 'i32'],"                                          \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("count_up") "}]}},"                                 \
    "  'trap': {'params': ['inout buffer<i32>'],"                                                  \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("trap") "}]}}},"                                    \
    "'programs': {'step': {'calls': [{'op': 'count', 'args': [{'buf': 'c'}, {'i32': 1}]},"         \
    "  {'label': 'meet', 'op': 'wait', 'args': [{'buf': 'flag'}]}]},"                              \
    " 'broken': {'calls': [{'label': 'bad', 'op': 'trap', 'args': [{'buf': 'c'}]}]}}}"
// clang-format on

// The emulated device's memory is the test's own, so a flag can be raised while a kernel waits.
static void raise_flag(const struct rank_fixture *fixture)
{
    const struct kern_export *exports;
    assert_int_equal(kern_rank_exports(fixture->rank, &exports), 1);
    assert_string_equal(exports[0].name, "flag");
    atomic_store((_Atomic int32_t *)(uintptr_t)exports[0].address, 1);
}

static enum kern_wait stop_at_once(void *context)
{
    ++*(int *)context;
    return KERN_WAIT_STOP;
}

static void a_deadline_names_what_was_issued(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, WAITING);
    uint32_t step = fixture_program(&fixture, "step");
    assert_true(kern_rank_issue(fixture.rank, step, fixture.vars, &fixture.diag));
    uint64_t before = kern_now();
    assert_false(kern_rank_wait(fixture.rank, kern_deadline_in(0.05), NULL, &fixture.diag));
    assert_true(kern_now() - before < 5 * KERN_NS_PER_SECOND);
    fixture_expect(&fixture, KERN_EXIT_PEER, "programs.step", "2 of its 2 launches",
                   "programs.step.calls[1] (meet, op wait) launch 0 wait_flag", NULL);
    uint64_t nanoseconds = 0;
    assert_false(kern_rank_elapsed(fixture.rank, &nanoseconds, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, NULL);

    int asked = 0;
    struct kern_interrupt interrupt = {.asked = stop_at_once, .context = &asked};
    assert_false(kern_rank_wait(fixture.rank, KERN_NO_DEADLINE, &interrupt, &fixture.diag));
    assert_int_equal(asked, 1);
    fixture_expect(&fixture, KERN_EXIT_PEER, "programs.step", "was ended", NULL);

    raise_flag(&fixture);
    assert_true(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    assert_true(kern_rank_elapsed(fixture.rank, &nanoseconds, &fixture.diag));
    assert_true(nanoseconds >= 40 * KERN_NS_PER_SECOND / 1000);
    fixture_close(&fixture);
}

static void abandoning_does_not_wait(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, WAITING);
    const struct kern_export *exports;
    kern_rank_exports(fixture.rank, &exports);
    CUdeviceptr flag = exports[0].address;
    uint32_t step = fixture_program(&fixture, "step");
    assert_true(kern_rank_issue(fixture.rank, step, fixture.vars, &fixture.diag));
    uint64_t before = kern_now();
    kern_rank_destroy(fixture.rank, true);
    assert_true(kern_now() - before < KERN_NS_PER_SECOND);
    // What was abandoned lives as long as the process; let its kernel end.
    atomic_store((_Atomic int32_t *)(uintptr_t)flag, 1);
    fixture.device->cu.cuCtxSynchronize();
    kern_device_close(fixture.device);
    kern_manifest_destroy(fixture.manifest);
    kern_diag_clear(&fixture.diag);
}

// A trap spoils the context for good, so these two come last.
static void a_trap_names_the_program(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, WAITING);
    uint32_t broken = fixture_program(&fixture, "broken");
    assert_true(kern_rank_issue(fixture.rank, broken, fixture.vars, &fixture.diag));
    assert_false(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "programs.broken",
                   "programs.broken.calls[0] (bad, op trap) launch 0 trap", NULL);
    // The error stays, and is named by whatever is tried next.
    assert_false(kern_rank_issue(fixture.rank, broken, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, NULL);
    kern_rank_destroy(fixture.rank, false);
    kern_device_close(fixture.device);
    kern_manifest_destroy(fixture.manifest);
    kern_diag_clear(&fixture.diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_names_what_was_issued),
        cmocka_unit_test(abandoning_does_not_wait),
        cmocka_unit_test(a_trap_names_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
