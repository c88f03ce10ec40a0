// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS of the emulated GPU: cublasGemmEx against float64, and what it refuses.
#include "tests/emu_gemm_check.h"

static CUstream stream_new(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

// A product as the runtime makes it: W is the library's A, transposed, and A is its B.
static cublasStatus_t multiply(cublasHandle_t handle, const struct matrix *a,
                               const struct matrix *w, const struct matrix *d)
{
    const float one = 1, zero = 0;
    return cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)d->cols, (int)d->rows, (int)a->cols,
                        &one, w->data, CUDA_R_16BF, (int)w->stride, a->data, CUDA_R_16BF,
                        (int)a->stride, &zero, d->data, CUDA_R_32F, (int)d->stride,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
}

static void in_products(void)
{
    static const struct {
        size_t m, n, k, lda, ldw, ldd;
    } shapes[] = {
        {1, 1, 1, 1, 1, 1},          {1, 300, 64, 64, 64, 300},   {65, 1, 33, 40, 33, 2},
        {9, 1, 1, 5, 4, 3},          {31, 17, 129, 129, 150, 20}, {64, 128, 256, 256, 256, 128},
        {8, 8, 5000, 5000, 5000, 8}, {530, 20, 40, 48, 40, 24},
    };
    emu_begin();
    cublasHandle_t handle;
    BLAS_OK(cublasCreate(&handle));
    CUstream stream = stream_new();
    BLAS_OK(cublasSetStream(handle, stream));
    BLAS_OK(cublasSetMathMode(handle, CUBLAS_TENSOR_OP_MATH));
    void *workspace = device_bytes((size_t)32 << 20);
    BLAS_OK(cublasSetWorkspace(handle, workspace, (size_t)32 << 20));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        uint64_t random = i;
        struct matrix a = matrix_new(KIND_BF16, shapes[i].m, shapes[i].k, shapes[i].lda);
        struct matrix w = matrix_new(KIND_BF16, shapes[i].n, shapes[i].k, shapes[i].ldw);
        struct matrix d = matrix_new(KIND_F32, shapes[i].m, shapes[i].n, shapes[i].ldd);
        matrix_fill(&a, &random);
        matrix_fill(&w, &random);
        BLAS_OK(multiply(handle, &a, &w, &d));
        OK(cuStreamSynchronize(stream));
        matrix_check_product(&d, &a, &w, NULL, 1);
    }
    BLAS_OK(cublasDestroy(handle));
}
EMU_TEST(products)

static void products_without_bf16_in_the_cpu(void **state)
{
    (void)state;
    EMU_CHILD(in_products, "ONEDNN_MAX_CPU_ISA=AVX2");
}

// The result is written where the stream of the handle says, and a graph keeps the product.
static void in_a_graph(void)
{
    emu_begin();
    cublasHandle_t handle;
    BLAS_OK(cublasCreate(&handle));
    CUstream stream = stream_new();
    BLAS_OK(cublasSetStream(handle, stream));
    struct matrix a = matrix_new(KIND_BF16, 5, 24, 24);
    struct matrix w = matrix_new(KIND_BF16, 7, 24, 24);
    struct matrix d = matrix_new(KIND_F32, 5, 7, 7);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    BLAS_EXPECT(ALLOC_FAILED, cublasCreate(&(cublasHandle_t){0})); // it would allocate
    OK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
           ? CUDA_SUCCESS
           : CUDA_ERROR_UNKNOWN);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    BLAS_OK(multiply(handle, &a, &w, &d));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint64_t round = 1; round <= 3; round++) {
        uint64_t random = round;
        matrix_fill(&a, &random);
        matrix_fill(&w, &random);
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        matrix_check_product(&d, &a, &w, NULL, 1);
    }
}
EMU_TEST(a_graph)

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define UNSUPPORTED CUBLAS_STATUS_NOT_SUPPORTED
#define SUCCESS CUBLAS_STATUS_SUCCESS

// Arguments of cublasGemmEx, in its order and terms: m is the columns of the runtime's result.
struct arguments {
    int transa, transb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc, compute, algo;
    float alpha, beta;
    cublasStatus_t wanted;
};

#define T CUBLAS_OP_T
#define N CUBLAS_OP_N
#define BF16 CUDA_R_16BF
#define F32 CUDA_R_32F
#define IN32 CUBLAS_COMPUTE_32F

static const struct arguments cases[] = {
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, SUCCESS},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, -1, 1, 0, SUCCESS},
    {T, N, 0, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, SUCCESS},
    {T, N, 8, 0, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, SUCCESS},
    {T, N, 8, 4, 0, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {T, N, -1, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, -1, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, -1, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 16, BF16, 15, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 16, BF16, 16, BF16, 15, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 7, IN32, 99, 1, 0, INVALID},
    {3, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, -1, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 24, 1, 0, INVALID},
    {N, N, 8, 4, 16, BF16, 8, BF16, 16, F32, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {N, N, 8, 4, 16, BF16, 7, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, T, 8, 4, 16, BF16, 16, BF16, 4, F32, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {T, T, 8, 4, 16, BF16, 16, BF16, 3, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, BF16, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {T, N, 8, 4, 16, F32, 16, F32, 16, F32, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {T, N, 8, 4, 16, BF16, 16, CUDA_R_16F, 16, F32, 8, IN32, 99, 1, 0, UNSUPPORTED},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, CUBLAS_COMPUTE_16F, 99, 1, 0, UNSUPPORTED},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 2, 0, UNSUPPORTED},
    {T, N, 8, 4, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 1, UNSUPPORTED},
    // One element more than the buffers hold.
    {T, N, 9, 4, 16, BF16, 16, BF16, 16, F32, 9, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 5, 16, BF16, 16, BF16, 16, F32, 8, IN32, 99, 1, 0, INVALID},
    {T, N, 8, 4, 17, BF16, 17, BF16, 17, F32, 8, IN32, 99, 1, 0, INVALID},
};

static void in_refusals(void)
{
    emu_begin();
    cublasHandle_t handle;
    BLAS_OK(cublasCreate(&handle));
    void *w = device_bytes(sizeof(uint16_t[8][16])), *a = device_bytes(sizeof(uint16_t[4][16]));
    void *c = device_bytes(sizeof(float[8][4]));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct arguments *x = &cases[i];
        cublasStatus_t status =
            cublasGemmEx(handle, (cublasOperation_t)x->transa, (cublasOperation_t)x->transb, x->m,
                         x->n, x->k, &x->alpha, w, (cudaDataType)x->a_type, x->lda, a,
                         (cudaDataType)x->b_type, x->ldb, &x->beta, c, (cudaDataType)x->c_type,
                         x->ldc, (cublasComputeType_t)x->compute, (cublasGemmAlgo_t)x->algo);
        if (status != x->wanted) {
            fprintf(stderr, "case %zu: status %d instead of %d\n", i, (int)status, (int)x->wanted);
            _exit(1);
        }
    }
    const float one = 1;
    BLAS_EXPECT(INVALID_VALUE, cublasGemmEx(handle, T, N, 8, 4, 16, NULL, w, BF16, 16, a, BF16, 16,
                                            &one, c, F32, 8, IN32, CUBLAS_GEMM_DEFAULT));
    BLAS_EXPECT(INVALID_VALUE, cublasGemmEx(handle, T, N, 8, 4, 16, &one, w, BF16, 16, a, BF16, 16,
                                            NULL, c, F32, 8, IN32, CUBLAS_GEMM_DEFAULT));
}
EMU_TEST(refusals)

static void in_handles(void)
{
    cublasHandle_t handle;
    BLAS_EXPECT(NOT_INITIALIZED, cublasCreate(&handle)); // before cuInit
    emu_begin();
    BLAS_EXPECT(INVALID_VALUE, cublasCreate(NULL));
    BLAS_OK(cublasCreate(&handle));
    CUstream stream = stream_new();
    BLAS_OK(cublasSetStream(handle, stream));
    BLAS_OK(cublasSetStream(handle, NULL));
    OK(cuStreamDestroy(stream));
    BLAS_EXPECT(INVALID_VALUE, cublasSetStream(handle, stream));
    BLAS_EXPECT(INVALID_VALUE, cublasSetMathMode(handle, (cublasMath_t)7));
    BLAS_OK(cublasSetMathMode(
        handle,
        (cublasMath_t)(CUBLAS_PEDANTIC_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    char *workspace = device_bytes(4096);
    BLAS_OK(cublasSetWorkspace(handle, workspace, 4096));
    BLAS_OK(cublasSetWorkspace(handle, NULL, 0));
    BLAS_EXPECT(INVALID_VALUE, cublasSetWorkspace(handle, NULL, 4096));
    BLAS_EXPECT(INVALID_VALUE, cublasSetWorkspace(handle, workspace + 128, 1024));
    BLAS_EXPECT(INVALID_VALUE, cublasSetWorkspace(handle, workspace, (size_t)1 << 40));
    BLAS_EXPECT(NOT_INITIALIZED, cublasSetWorkspace(NULL, workspace, 4096));
    BLAS_EXPECT(NOT_INITIALIZED, cublasSetMathMode(NULL, CUBLAS_DEFAULT_MATH));

    // A handle belongs to its context.
    CUcontext first, second;
    OK(cuCtxGetCurrent(&first));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    BLAS_EXPECT(INVALID_VALUE, cublasSetStream(handle, NULL));
    OK(cuCtxSetCurrent(first));
    BLAS_OK(cublasDestroy(handle));
    BLAS_EXPECT(NOT_INITIALIZED, cublasDestroy(handle));
}
EMU_TEST(handles)

static void in_the_second_handle_fails(void)
{
    cublasHandle_t handle;
    emu_begin();
    BLAS_OK(cublasCreate(&handle));
    BLAS_EXPECT(ALLOC_FAILED, cublasCreate(&handle));
    BLAS_OK(cublasCreate(&handle));
}

static void faults(void **state)
{
    (void)state;
    EMU_CHILD(in_the_second_handle_fails,
              "KERN_EMU_FAIL=cublasCreate_v2:2:CUBLAS_STATUS_ALLOC_FAILED");
    EMU_CHILD(in_the_second_handle_fails, "KERN_EMU_FAIL=cublasCreate:2:3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(products_without_bf16_in_the_cpu),
        cmocka_unit_test(a_graph),  cmocka_unit_test(refusals),
        cmocka_unit_test(handles),  cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests_name("emu cublas", tests, NULL, NULL);
}
