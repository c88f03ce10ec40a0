// SPDX-License-Identifier: Apache-2.0
// A parameter block that the first form of a cubin's attributes cannot describe.
struct large {
    char bytes[4400];
};

extern "C" __global__ void big(const float *x, large p, int n, float *y)
{
    y[0] = x[0] + p.bytes[n];
}
