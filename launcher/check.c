// SPDX-License-Identifier: Apache-2.0
//
// What outputs are worth: written to --output, compared with --check.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "rank/element.h"
#include "rank/safetensors.h"

static void write_outputs(struct kern_run *run)
{
    struct kern_arena arena = {0};
    struct kern_tensor_data *tensors = kern_calloc(run->n_results, sizeof *tensors);
    for (size_t i = 0; i < run->n_results; i++) {
        const struct kern_result *result = &run->results[i];
        const struct kern_buffer *buffer = result->buffer;
        tensors[i] = (struct kern_tensor_data){buffer->name, buffer->dtype, result->shape,
                                               buffer->rank, result->bytes, result->length};
    }
    kern_safetensors_write(kern_run_path(run, run->options.output, &arena), tensors, run->n_results,
                           &run->diag);
    free(tensors);
    kern_arena_free(&arena);
}

// Whether two floats agree within the tolerances; NaN agrees with NaN, infinities with themselves.
static bool agree(const struct kern_options *options, double value, double expected, double *error)
{
    *error = 0;
    if (isnan(expected) || isnan(value))
        return isnan(expected) && isnan(value);
    if (value == expected)
        return true;
    if (isinf(value) || isinf(expected))
        return false;
    *error = fabs(value - expected);
    return *error <= options->atol + options->rtol * fabs(expected);
}

const char *kern_result_position(const struct kern_result *result, size_t index,
                                 struct kern_arena *arena)
{
    const char *text = "";
    for (size_t i = result->buffer->rank; i-- > 0;) {
        text = kern_arena_print(arena, "%llu%s%s", (unsigned long long)(index % result->shape[i]),
                                *text ? ", " : "", text);
        index /= result->shape[i];
    }
    return kern_arena_print(arena, "[%s]", text);
}

const char *kern_result_value(const struct kern_buffer *buffer, const void *bytes, size_t index,
                              struct kern_arena *arena)
{
    if (!kern_dtype_is_float(buffer->dtype)) {
        bool negative;
        uint64_t magnitude = kern_element_integer(buffer->dtype, bytes, index, &negative);
        return kern_arena_print(arena, "%s%" PRIu64, negative ? "-" : "", magnitude);
    }
    double value = kern_element_real(buffer->dtype, bytes, index);
    // NaN without its sign, which says nothing.
    return isnan(value) ? "nan" : kern_arena_print(arena, "%.9g", value);
}

static bool compare(struct kern_run *run, const struct kern_result *result, const void *expected)
{
    const struct kern_buffer *buffer = result->buffer;
    size_t size = kern_dtype_bytes(buffer->dtype), count = result->length / size, wrong = 0,
           first = 0;
    double largest = 0;
    bool is_float = kern_dtype_is_float(buffer->dtype);
    for (size_t i = 0; i < count; i++) {
        double error = 0;
        bool good = is_float
                        ? agree(&run->options, kern_element_real(buffer->dtype, result->bytes, i),
                                kern_element_real(buffer->dtype, expected, i), &error)
                        : memcmp((const char *)result->bytes + i * size,
                                 (const char *)expected + i * size, size) == 0;
        if (error > largest)
            largest = error;
        if (!good && wrong++ == 0)
            first = i;
    }
    run->check.outputs++;
    run->check.elements += count;
    if (largest > run->check.max_error)
        run->check.max_error = largest;
    if (!wrong)
        return true;
    struct kern_arena arena = {0};
    const char *tolerances =
        is_float ? kern_arena_print(&arena,
                                    "; the largest error of finite ones is %.3g, beyond "
                                    "--atol %g --rtol %g",
                                    largest, run->options.atol, run->options.rtol)
                 : "";
    kern_fail(
        &run->diag, KERN_EXIT_CHECK, buffer->name,
        "%zu of %zu elements differ from what was expected; the first is %s: %s, expected %s%s",
        wrong, count, kern_result_position(result, first, &arena),
        kern_result_value(buffer, result->bytes, first, &arena),
        kern_result_value(buffer, expected, first, &arena), tolerances);
    kern_arena_free(&arena);
    return false;
}

static bool check_tensor(struct kern_run *run, const struct kern_safetensors *set,
                         const struct kern_tensor *tensor)
{
    const char *path = kern_safetensors_path(set, tensor);
    const struct kern_result *result = NULL;
    for (size_t i = 0; i < run->n_results; i++)
        if (strcmp(run->results[i].buffer->name, tensor->name) == 0)
            result = &run->results[i];
    if (!result)
        return kern_fail(&run->diag, KERN_EXIT_ARTIFACT, path,
                         "tensor \"%s\" is not the name of an output that this run wrote",
                         tensor->name);
    if (!kern_run_tensor_fits(run, set, tensor, result->buffer, result->shape,
                              "at the vars of this run"))
        return false;
    void *expected = kern_calloc(result->length, 1);
    bool good = kern_safetensors_read(set, tensor, 0, expected, result->length, &run->diag) &&
                compare(run, result, expected);
    free(expected);
    return good;
}

static void check_outputs(struct kern_run *run)
{
    struct kern_arena arena = {0};
    const char *path = kern_run_path(run, run->options.check, &arena);
    struct kern_safetensors *set = kern_safetensors_open(&path, 1, &run->diag);
    bool good = set != NULL;
    for (size_t i = 0; set && i < kern_safetensors_count(set); i++)
        good = check_tensor(run, set, kern_safetensors_at(set, i)) && good;
    if (good && !run->check.outputs)
        good = kern_fail(&run->diag, KERN_EXIT_ARTIFACT, path, "holds no tensor to compare with");
    run->check.verdict = good ? KERN_CHECK_OK : KERN_CHECK_WRONG;
    kern_safetensors_close(set);
    kern_arena_free(&arena);
}

void kern_run_check(struct kern_run *run)
{
    if (!kern_run_has_results(run))
        return;
    if (run->options.output)
        write_outputs(run);
    // A run that was stopped need not have written all of them.
    if (run->options.check && !run->stopped)
        check_outputs(run);
}
