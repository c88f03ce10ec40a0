// SPDX-License-Identifier: Apache-2.0
// An entry of the same name with other parameters, and one that mixed.cu has not.
extern "C" __global__ void mixed(int n, double *y)
{
    y[0] = n;
}

extern "C" __global__ void only(double *y)
{
    y[0] = 1;
}
