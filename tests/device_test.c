// SPDX-License-Identifier: Apache-2.0
//
// Which device is chosen and why, what is said where a function is missing, and how the result of a
// call becomes a message. A library that is loaded under the name libcuda.so.1 is what dlopen finds
// by that name from then on, so every case runs in a process of its own that first loads a fake.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"

#define FAKE KERN_BUILD_DIR "/tests/libdevice_fake.so"
#define FAKE_EMU KERN_BUILD_DIR "/tests/libdevice_fake_emu.so"
#define FAKE_OLD KERN_BUILD_DIR "/tests/libdevice_fake_old.so"
#define FAKE_CUBLASLT KERN_BUILD_DIR "/tests/libdevice_fake_cublaslt.so"
#define NOT_A_FILE KERN_BUILD_DIR "/tests/no-such-file.so"

struct setting {
    const char *name;
    const char *value;
};

struct scene {
    enum kern_device_choice choice;
    const char *preload[2]; // libraries that stand under the names of the real ones
    const char *emu;
    struct setting settings[3];
    bool (*need)(struct kern_device *, struct kern_diag *);
};

// Opens and reports, as lines of text: kind, version, why, library and the environment that a
// driver sees, or the errors.
static void play(const struct scene *scene, FILE *report)
{
    for (size_t i = 0; i < 3 && scene->settings[i].name; i++)
        setenv(scene->settings[i].name, scene->settings[i].value, 1);
    for (size_t i = 0; i < 2 && scene->preload[i]; i++) {
        if (!dlopen(scene->preload[i], RTLD_NOW | RTLD_LOCAL))
            fprintf(report, "%s\n", dlerror());
    }

    struct kern_diag diag = {0};
    struct kern_device *device = kern_device_open(scene->choice, scene->emu, &diag);
    if (device) {
        fprintf(report, "kind %s\nversion %d\nwhy %s\nlibrary %s\nloading %s\n",
                device->kind == KERN_DEVICE_CUDA ? "cuda" : "emu", device->driver_version,
                device->why, device->library, getenv("CUDA_MODULE_LOADING"));
        if (scene->need && scene->need(device, &diag))
            fprintf(report, "needed\n");
    }
    kern_diag_print(&diag, report, 10);
    fprintf(report, "code %d\n", (int)kern_diag_code(&diag));
    kern_diag_clear(&diag);
    kern_device_close(device);
}

// The report of the scene, played in a child. The caller frees it.
static char *report_of(const struct scene *scene)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        FILE *report = fdopen(ends[1], "w");
        play(scene, report);
        fclose(report);
        _exit(0);
    }
    close(ends[1]);
    char *text = NULL;
    size_t length = 0;
    FILE *copy = open_memstream(&text, &length);
    FILE *report = fdopen(ends[0], "r");
    for (int c = fgetc(report); c != EOF; c = fgetc(report))
        fputc(c, copy);
    fclose(report);
    fclose(copy);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        print_error("the child ended with status %d\n", status);
    assert_int_equal(status, 0);
    return text;
}

// Every one of the [expected] texts must stand in the report.
static void expect_texts(const struct scene *scene, const char *const *expected)
{
    char *report = report_of(scene);
    while (*expected && strstr(report, *expected))
        expected++;
    if (*expected)
        print_error("\"%s\" is not in\n%s", *expected, report);
    free(report);
    assert_null(*expected);
}

#define EXPECT(scene, ...) expect_texts(&(scene), (const char *const[]){__VA_ARGS__, NULL})

static void auto_takes_a_driver_with_devices(void **state)
{
    (void)state;
    const struct scene scene = {.preload = {FAKE}, .emu = NOT_A_FILE};
    EXPECT(scene, "kind cuda\n", "version 13000\n", "why the CUDA driver shows 2 devices\n",
           ("library " FAKE "\n"), "loading EAGER\n", "code 0\n");
}

static void module_loading_of_the_user_is_kept(void **state)
{
    (void)state;
    const struct scene scene = {.preload = {FAKE}, .settings = {{"CUDA_MODULE_LOADING", "LAZY"}}};
    EXPECT(scene, "kind cuda\n", "loading LAZY\n");
}

// Only where the machine has no driver: nothing can hide one that the loader's cache knows.
static void auto_takes_emu_without_a_driver(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver) {
        dlclose(driver);
        skip();
    }
    const struct scene scene = {.emu = FAKE_EMU};
    EXPECT(scene, "kind emu\n", "why no CUDA driver (libcuda.so.1: cannot open",
           ("library " FAKE_EMU "\n"), "loading EAGER\n", "code 0\n");
    const struct scene wanted = {.choice = KERN_DEVICE_WANT_CUDA, .emu = FAKE_EMU};
    EXPECT(wanted, "CUDA: no CUDA driver (libcuda.so.1", "ask for emu", "code 5\n");
}

static void auto_takes_emu_where_init_fails(void **state)
{
    (void)state;
    const struct scene scene = {
        .preload = {FAKE}, .emu = FAKE_EMU, .settings = {{"DRIVER_INIT", "34"}}};
    EXPECT(scene, "kind emu\n", ("why cuInit of " FAKE " returned CUDA_ERROR_STUB_LIBRARY (34)\n"),
           ("library " FAKE_EMU "\n"), "code 0\n");
    const struct scene wanted = {
        .choice = KERN_DEVICE_WANT_CUDA, .preload = {FAKE}, .settings = {{"DRIVER_INIT", "802"}}};
    EXPECT(wanted, "CUDA: cuInit of " FAKE " returned CUDA_ERROR_SYSTEM_NOT_READY (802)",
           "ask for emu", "code 5\n");
    const struct scene unheard = {
        .choice = KERN_DEVICE_WANT_CUDA, .preload = {FAKE}, .settings = {{"DRIVER_INIT", "12345"}}};
    EXPECT(unheard, "returned an unknown code (12345)", "code 5\n");
}

static void auto_takes_emu_without_a_device(void **state)
{
    (void)state;
    const struct scene scene = {
        .preload = {FAKE}, .emu = FAKE_EMU, .settings = {{"DRIVER_DEVICES", "0"}}};
    EXPECT(scene, "kind emu\n", "why " FAKE " shows no device\n", "code 0\n");
    // A driver too old for this program matters only where it has a device.
    const struct scene old = {
        .preload = {FAKE_OLD}, .emu = FAKE_EMU, .settings = {{"DRIVER_DEVICES", "0"}}};
    EXPECT(old, "kind emu\n", "why " FAKE_OLD " shows no device\n", "code 0\n");
}

static void emu_is_taken_when_asked_for(void **state)
{
    (void)state;
    const struct scene scene = {.choice = KERN_DEVICE_WANT_EMU, .preload = {FAKE}, .emu = FAKE_EMU};
    EXPECT(scene, "kind emu\n", "why the emulated GPU was asked for\n", "library " FAKE_EMU "\n");
    const struct scene missing = {.choice = KERN_DEVICE_WANT_EMU, .emu = NOT_A_FILE};
    EXPECT(missing, "error: the emulated GPU: " NOT_A_FILE ": cannot open", "../lib", "code 5\n");
    const struct scene refusing = {
        .choice = KERN_DEVICE_WANT_EMU, .emu = FAKE_EMU, .settings = {{"EMU_INIT", "3"}}};
    EXPECT(refusing, "emulated GPU: cuInit of " FAKE_EMU " returned CUDA_ERROR_NOT_INITIALIZED (3)",
           "code 5\n");
}

static void emu_is_found_beside_the_program(void **state)
{
    (void)state;
    if (access(KERN_BUILD_DIR "/lib/libkern-emu.so", R_OK) != 0)
        skip();
    const struct scene scene = {.choice = KERN_DEVICE_WANT_EMU};
    EXPECT(scene, "kind emu\n", "library " KERN_BUILD_DIR "/tests/../lib/libkern-emu.so\n");
}

static void missing_function_of_a_driver_is_an_error(void **state)
{
    (void)state;
    const struct scene scene = {.preload = {FAKE_OLD}, .emu = FAKE_EMU};
    EXPECT(scene, "error: " FAKE_OLD ": there is no function cuFuncGetParamInfo in it",
           "CUDA 12.4 (R550) or newer", "code 5\n");
    const struct scene emu = {.choice = KERN_DEVICE_WANT_EMU, .emu = FAKE_OLD};
    EXPECT(emu, "error: " FAKE_OLD ": there is no function cuFuncGetParamInfo in it",
           "same build as this program", "code 5\n");
    const struct scene no_driver = {.choice = KERN_DEVICE_WANT_EMU, .emu = "libm.so.6"};
    EXPECT(no_driver, "libm.so.6: this is not a CUDA driver library", "code 5\n");
}

static void libraries_of_emu_are_in_its_own(void **state)
{
    (void)state;
    bool (*const needs[])(struct kern_device *, struct kern_diag *) = {
        kern_device_need_cublaslt, kern_device_need_cublas, kern_device_need_nccl};
    for (size_t i = 0; i < 3; i++) {
        const struct scene scene = {
            .choice = KERN_DEVICE_WANT_EMU, .emu = FAKE_EMU, .need = needs[i]};
        EXPECT(scene, "needed\n", "code 0\n");
    }
}

static void library_of_the_drivers_age_is_loaded(void **state)
{
    (void)state;
    const struct scene twelve = {.preload = {FAKE, FAKE_CUBLASLT},
                                 .settings = {{"DRIVER_VERSION", "12040"}},
                                 .need = kern_device_need_cublaslt};
    EXPECT(twelve, "version 12040\n", "needed\n", "code 0\n");
    const struct scene eleven = {.preload = {FAKE, FAKE_CUBLASLT},
                                 .settings = {{"DRIVER_VERSION", "11080"}},
                                 .need = kern_device_need_cublaslt};
    EXPECT(eleven, "cuBLASLt: the driver is too old for every version of it", "LD_LIBRARY_PATH",
           "code 5\n");
}

// Opens the fake as an emulated GPU in this process: nothing here depends on the name libcuda.so.1.
static struct kern_device *fake_device(struct kern_diag *diag)
{
    struct kern_device *device = kern_device_open(KERN_DEVICE_WANT_EMU, FAKE_EMU, diag);
    assert_non_null(device);
    return device;
}

static void failed_call_is_reported(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_device *device = fake_device(&diag);
    CUdeviceptr address = 0;
    assert_false(KERN_CU(device, &diag, "allocating buffer a", cuMemAlloc, &address, 64));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.entries[0].place, "allocating buffer a");
    assert_string_equal(
        diag.entries[0].text,
        "cuMemAlloc failed with CUDA_ERROR_NOT_SUPPORTED (801), operation not supported");
    assert_int_equal(diag.entries[0].code, KERN_EXIT_DEVICE);

    int version = 0;
    assert_true(KERN_CU(device, &diag, "asking", cuDriverGetVersion, &version));
    assert_int_equal(diag.count, 1);

    // A code that the driver itself does not know.
    assert_false(kern_cuda_check(device, (CUresult)77777, "cuFoo", NULL, &diag));
    assert_null(diag.entries[1].place);
    assert_string_equal(diag.entries[1].text,
                        "cuFoo failed with an unknown code (77777), no description");
    kern_diag_clear(&diag);
    kern_device_close(device);
}

static void failed_library_call_is_reported(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_device *device = fake_device(&diag);
    assert_true(kern_cublas_check(CUBLAS_STATUS_SUCCESS, "cublasLtMatmul", "x", &diag));
    assert_false(kern_cublas_check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul", "x", &diag));
    assert_string_equal(diag.entries[0].text,
                        "cublasLtMatmul failed with CUBLAS_STATUS_NOT_SUPPORTED (15)");
    assert_int_equal(diag.entries[0].code, KERN_EXIT_DEVICE);

    unsetenv("NCCL_RUNTIME_CONNECT");
    assert_true(kern_device_need_nccl(device, &diag));
    assert_string_equal(getenv("NCCL_RUNTIME_CONNECT"), "0");
    assert_true(kern_nccl_check(device, ncclSuccess, NULL, "ncclAllReduce", "x", &diag));
    assert_false(kern_nccl_check(device, ncclRemoteError, NULL, "ncclAllReduce", "x", &diag));
    assert_string_equal(diag.entries[1].text,
                        "ncclAllReduce failed with ncclRemoteError (6), no description");
    kern_diag_clear(&diag);
    kern_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_a_driver_with_devices),
        cmocka_unit_test(module_loading_of_the_user_is_kept),
        cmocka_unit_test(auto_takes_emu_without_a_driver),
        cmocka_unit_test(auto_takes_emu_where_init_fails),
        cmocka_unit_test(auto_takes_emu_without_a_device),
        cmocka_unit_test(emu_is_taken_when_asked_for),
        cmocka_unit_test(emu_is_found_beside_the_program),
        cmocka_unit_test(missing_function_of_a_driver_is_an_error),
        cmocka_unit_test(libraries_of_emu_are_in_its_own),
        cmocka_unit_test(library_of_the_drivers_age_is_loaded),
        cmocka_unit_test(failed_call_is_reported),
        cmocka_unit_test(failed_library_call_is_reported),
    };
    unsetenv("CUDA_MODULE_LOADING");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
