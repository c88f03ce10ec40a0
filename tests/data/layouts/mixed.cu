// SPDX-License-Identifier: Apache-2.0
// Kernels with every kind of parameter, of which the tests know where they lie.
struct alignas(16) pack {
    char bytes[48];
};
struct three {
    char bytes[3];
};

static __device__ __noinline__ float helper(const float *x, int n)
{
    return x[n] * x[0];
}

extern "C" __global__ void mixed(const float *x, int n, long long m, unsigned char u, float f,
                                 pack p, three t, double *y)
{
    y[0] = (double)helper(x, n) + (double)m + u + f + p.bytes[0] + t.bytes[1];
}

extern "C" __global__ void none(void)
{
}
