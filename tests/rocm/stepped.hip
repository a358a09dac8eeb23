// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The program of gdb-session.py, built with debug information: a kernel of a few lines, whose
 * result main() compares.
 */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define BLOCKS 3
#define FACTOR 7

static void must(hipError_t error, const char *call)
{
	if (error == hipSuccess)
		return;
	fprintf(stderr, "failed: %s: %s\n", call, hipGetErrorString(error));
	exit(1);
}
#define MUST(call) must(call, #call)

static __device__ __noinline__ int weigh(int lane, int factor)
{
	int weight = lane * factor;

	return weight + 1;
}

__global__ void scale(int *out, int factor)
{
	int lane = threadIdx.x;
	int weight = weigh(lane, factor);
	int sum = weight + 1000 * (int)blockIdx.x;

	out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main(void)
{
	int lanes, *out, wrong = 0;

	MUST(hipDeviceGetAttribute(&lanes, hipDeviceAttributeWarpSize, 0));
	MUST(hipHostMalloc((void **)&out, BLOCKS * lanes * sizeof(*out), hipHostMallocDefault));
	scale<<<BLOCKS, lanes>>>(out, FACTOR);
	MUST(hipGetLastError());
	MUST(hipDeviceSynchronize());
	for (int i = 0; i < BLOCKS * lanes; i++)
		wrong += out[i] != i % lanes * FACTOR + 1 + 1000 * (i / lanes);
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
