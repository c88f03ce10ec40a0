// SPDX-License-Identifier: Apache-2.0
//
// emu: what the environment says about the devices: which are visible, what is malformed, and which
// calls shall fail.
#include "tests/emu_check.h"

#include <time.h>

static void in_numa(void)
{
    int value;
    OK(cuInit(0));
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
    CHECK(value == 1);
}

static void numa(void **state)
{
    (void)state;
    EMU_CHILD(in_numa, "KERN_EMU_NUMA=1");
}

// CUDA_VISIBLE_DEVICES

static const char *wanted_devices; // their PCI bus numbers

static void check_visible(void)
{
    char seen[64] = "";
    int n = 0;
    CUresult result = cuInit(0);
    if (wanted_devices[0] == '\0') {
        EXPECT(ERROR_NO_DEVICE, result);
        EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
        return;
    }
    OK(result);
    OK(cuDeviceGetCount(&n));
    for (int i = 0; i < n; i++) {
        char id[13];
        int bus;
        OK(cuDeviceGetPCIBusId(id, sizeof id, i));
        OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        CHECK(bus == id[6] - '0');
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%c", id[6]);
    }
    if (strcmp(seen, wanted_devices) != 0) {
        fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s: %s instead of %s\n",
                getenv("CUDA_VISIBLE_DEVICES"), seen, wanted_devices);
        _exit(1);
    }
}

static void visible_devices(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *devices;
    } rows[] = {
        {"0", "0"},      {"2,0,1", "201"}, {"3", "3"},         {"1, 2", "12"}, {"1,9,2", "1"},
        {"1,-1,2", "1"}, {"1,x,2", "1"},   {"1x,2", "12"},     {"", ""},       {"-1", ""},
        {"4", ""},       {"1,1", ""},      {"NoDevFiles", ""}, {"1,,2", "1"},  {"GPU-zz", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char variable[64];
        snprintf(variable, sizeof variable, "CUDA_VISIBLE_DEVICES=%s", rows[i].value);
        wanted_devices = rows[i].devices;
        EMU_CHILD(check_visible, "KERN_EMU_DEVICES=4", variable);
    }
}

// A UUID that another process read, whole and shortened, names the same device.
static int uuid_pipe[2];

static void write_uuid(void)
{
    CUuuid uuid;
    OK(cuInit(0));
    OK(cuDeviceGetUuid(&uuid, 2));
    CHECK(write(uuid_pipe[1], &uuid, sizeof uuid) == (ssize_t)sizeof uuid);
}

static void visible_by_uuid(void **state)
{
    (void)state;
    unsigned char uuid[16];
    assert_int_equal(pipe(uuid_pipe), 0);
    EMU_CHILD(write_uuid);
    assert_int_equal(read(uuid_pipe[0], uuid, sizeof uuid), sizeof uuid);
    close(uuid_pipe[0]);
    close(uuid_pipe[1]);

    char digits[33], whole[80], prefix[80];
    for (size_t i = 0; i < 16; i++)
        snprintf(digits + 2 * i, 3, "%02x", uuid[i]);
    snprintf(whole, sizeof whole, "CUDA_VISIBLE_DEVICES=GPU-%.8s-%.4s-%.4s-%.4s-%s,1", digits,
             digits + 8, digits + 12, digits + 16, digits + 20);
    snprintf(prefix, sizeof prefix, "%.33s", whole);
    wanted_devices = "21";
    EMU_CHILD(check_visible, whole);
    wanted_devices = "2";
    EMU_CHILD(check_visible, prefix);
    wanted_devices = ""; // every device's begins so: ambiguous
    EMU_CHILD(check_visible, "CUDA_VISIBLE_DEVICES=GPU-");
}

// Malformed configuration: cuInit fails, with one line on stderr that names the variable

static int complaints;

static void init_fails(void)
{
    CHECK(dup2(complaints, STDERR_FILENO) >= 0);
    _exit(cuInit(0) == CUDA_ERROR_INVALID_VALUE ? 0 : 1);
}

static void malformed_environment(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "KERN_EMU_DEVICES=0",
        "KERN_EMU_DEVICES=257",
        "KERN_EMU_DEVICES=-1",
        "KERN_EMU_DEVICES=",
        "KERN_EMU_DEVICES=2x",
        "KERN_EMU_MEMORY=0",
        "KERN_EMU_MEMORY=16X",
        "KERN_EMU_MEMORY=16GB",
        "KERN_EMU_MEMORY=99999999999999999999",
        "KERN_EMU_MEMORY=20000000T",
        "KERN_EMU_FABRIC=yes",
        "KERN_EMU_NODE_LIMIT=2",
        "KERN_EMU_NUMA=-1",
        "KERN_EMU_FAIL=cuMemCreate",
        "KERN_EMU_FAIL=cuMemCreat:1",
        "KERN_EMU_FAIL=cuMemCreate:0",
        "KERN_EMU_FAIL=cuMemCreate:x",
        "KERN_EMU_FAIL=cuMemCreate:1:CUDA_ERROR_SOMETHING",
        "KERN_EMU_FAIL=cuMemCreate:1:CUDA_SUCCESS",
        "KERN_EMU_FAIL=cuMemCreate:1@",
        "KERN_EMU_FAIL=cuMemCreate:1@x",
        "KERN_EMU_FAIL=cuMemCreate:1,",
        "KERN_EMU_DELAY=cuMemCreate",
        "KERN_EMU_DELAY=cuMemCreate:5",
        "KERN_EMU_DELAY=cuMemCreate:us",
        "KERN_EMU_DELAY=cuMemCreate:5us:1",
        "KERN_EMU_DELAY_US_MAX=",
        "KERN_EMU_DELAY_US_MAX=-5",
        "KERN_EMU_DELAY_US_MAX=5us",
        "KERN_EMU_DELAY_US_MAX=1000001",
        "KERN_EMU_SEED=x",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int ends[2];
        char row[64];
        char text[512];
        snprintf(row, sizeof row, "%s", rows[i]);
        assert_int_equal(pipe(ends), 0);
        complaints = ends[1];
        int status = emu_child_status(init_fails, (char *[]){row, NULL});
        close(ends[1]);
        ssize_t n = read(ends[0], text, sizeof text - 1);
        close(ends[0]);
        text[n < 0 ? 0 : n] = '\0';
        if (status != 0 || strstr(text, rows[i]) == NULL || strstr(text, "expected") == NULL ||
            strchr(text, '\n') != text + n - 1) {
            fail_msg("%s: status %d, \"%s\"", rows[i], status, text);
        }
    }
}

// Faults on demand

static CUresult allocate(void)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, 8);
}

static CUresult reserve(void)
{
    CUdeviceptr p;
    return cuMemAddressReserve(&p, 2 << 20, 0, 0, 0);
}

static void second_fails(void)
{
    emu_begin();
    OK(allocate());
    EXPECT(ERROR_UNKNOWN, allocate());
    OK(allocate());
}

static void second_of_two_functions_fails(void)
{
    emu_begin();
    OK(allocate());
    OK(reserve());
    EXPECT(ERROR_OUT_OF_MEMORY, allocate());
    EXPECT(ERROR_NOT_PERMITTED, reserve());
    OK(allocate());
    OK(reserve());
}

static void all_fail(void)
{
    emu_begin();
    for (int i = 0; i < 3; i++) {
        EXPECT(ERROR_NOT_SUPPORTED, allocate());
    }
    OK(reserve());
}

static void none_fails(void)
{
    emu_begin();
    OK(allocate());
    OK(allocate());
}

static void init_fails_with_no_device(void)
{
    EXPECT(ERROR_NO_DEVICE, cuInit(0));
}

// Calls that are refused anyway are not counted.
static void first_valid_one_fails(void)
{
    OK(cuInit(0));
    EXPECT(ERROR_INVALID_CONTEXT, allocate());
    emu_begin();
    EXPECT(ERROR_UNKNOWN, allocate());
}

static void faults(void **state)
{
    (void)state;
    EMU_CHILD(second_fails, "KERN_EMU_FAIL=cuMemAlloc:2");
    EMU_CHILD(second_fails, "KERN_EMU_FAIL=cuMemAlloc_v2:2");
    EMU_CHILD(second_of_two_functions_fails,
              "KERN_EMU_FAIL=cuMemAlloc:2:2,cuMemAddressReserve:2:CUDA_ERROR_NOT_PERMITTED");
    EMU_CHILD(all_fail, "KERN_EMU_FAIL=cuMemAlloc:*:CUDA_ERROR_NOT_SUPPORTED");
    EMU_CHILD(second_fails, "KERN_EMU_FAIL=cuMemAlloc:2@3", "OMPI_COMM_WORLD_RANK=3");
    EMU_CHILD(second_fails, "KERN_EMU_FAIL=cuMemAlloc:2@3", "PMIX_RANK=3");
    EMU_CHILD(second_fails, "KERN_EMU_FAIL=cuMemAlloc:2@3", "SLURM_PROCID=3");
    EMU_CHILD(none_fails, "KERN_EMU_FAIL=cuMemAlloc:2@3", "OMPI_COMM_WORLD_RANK=2");
    EMU_CHILD(none_fails, "KERN_EMU_FAIL=cuMemAlloc:2@3");
    EMU_CHILD(none_fails, "KERN_EMU_FAIL=");
    EMU_CHILD(init_fails_with_no_device, "KERN_EMU_FAIL=cuInit:1:CUDA_ERROR_NO_DEVICE");
    EMU_CHILD(first_valid_one_fails, "KERN_EMU_FAIL=cuMemAlloc:1");
}

static int ended_by(const char *variable)
{
    char row[64];
    snprintf(row, sizeof row, "%s", variable);
    return emu_child_status(second_fails, (char *[]){row, NULL});
}

// The child ends 1 if the call returns, which it does for another rank only.
static void ends(void **state)
{
    (void)state;
    int status = ended_by("KERN_EMU_FAIL=cuMemAlloc:2:kill");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = ended_by("KERN_EMU_FAIL=cuMemAlloc:2:abort");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = ended_by("KERN_EMU_FAIL=cuMemAlloc:2:exit");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 70);
    EMU_CHILD(none_fails, "KERN_EMU_FAIL=cuMemAlloc:2:kill@1", "OMPI_COMM_WORLD_RANK=0");
}

// A stopped process goes on where it was, and nothing has failed.
static void stopped(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("KERN_EMU_FAIL", "cuMemAlloc:2:stop", 1);
        none_fails();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void allocate_and_exit(void)
{
    emu_begin();
    OK(allocate());
    OK(allocate());
    exit(0);
}

// Two processes add to one file; what was not called has no line.
static void calls(void **state)
{
    (void)state;
    char path[] = "/tmp/kern-emu-calls-XXXXXX", row[64], text[1024];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(row, sizeof row, "KERN_EMU_CALLS=%s", path);
    EMU_CHILD(allocate_and_exit, row, "OMPI_COMM_WORLD_RANK=0");
    EMU_CHILD(allocate_and_exit, row, "OMPI_COMM_WORLD_RANK=1");
    EMU_CHILD(allocate_and_exit, "OMPI_COMM_WORLD_RANK=2");
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    text[n < 0 ? 0 : n] = '\0';
    assert_non_null(strstr(text, "0 cuInit 1\n"));
    assert_non_null(strstr(text, "0 cuMemAlloc 2\n"));
    assert_non_null(strstr(text, "1 cuMemAlloc 2\n"));
    assert_null(strstr(text, "2 cuMemAlloc"));
    assert_null(strstr(text, "cuMemFree"));
}

// After a fault that ends a context, everything in that context fails with it, and nothing else.
static void sticky_fault(void)
{
    CUcontext other;
    CUcontext current;
    size_t bytes;
    CUdeviceptr p;
    CUcontext broken = emu_begin();
    OK(cuMemAlloc(&p, 8));
    EXPECT(ERROR_LAUNCH_FAILED, reserve());
    EXPECT(ERROR_LAUNCH_FAILED, allocate());
    EXPECT(ERROR_LAUNCH_FAILED, cuMemFree(p));
    EXPECT(ERROR_LAUNCH_FAILED, cuMemGetInfo(&bytes, &bytes));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == broken);
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(allocate());
    OK(reserve());
    OK(cuCtxSetCurrent(broken));
    EXPECT(ERROR_LAUNCH_FAILED, allocate());
    OK(cuDevicePrimaryCtxRelease(0)); // leaving in order is possible
}

static void sticky_faults(void **state)
{
    (void)state;
    EMU_CHILD(sticky_fault, "KERN_EMU_FAIL=cuMemAddressReserve:1:CUDA_ERROR_LAUNCH_FAILED");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void allocation_takes_long(void)
{
    emu_begin();
    double begin = seconds();
    OK(allocate());
    OK(allocate());
    CHECK(seconds() - begin >= 0.1);
}

static void delays(void **state)
{
    (void)state;
    EMU_CHILD(allocation_takes_long, "KERN_EMU_DELAY=cuMemAlloc:50ms");
    EMU_CHILD(allocation_takes_long, "KERN_EMU_DELAY=cuMemFree:1s,cuMemAlloc:50000us");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numa),
        cmocka_unit_test(visible_devices),
        cmocka_unit_test(visible_by_uuid),
        cmocka_unit_test(malformed_environment),
        cmocka_unit_test(faults),
        cmocka_unit_test(ends),
        cmocka_unit_test(stopped),
        cmocka_unit_test(calls),
        cmocka_unit_test(sticky_faults),
        cmocka_unit_test(delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
