// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The program of gpucore.py: a store to an unmapped address ends it while waves of another stream
 * count in device memory. It prints the address of that memory, and of the first wave's mark.
 */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define WAVES 4u
#define MARK 0x5eed5eedu

static void must(hipError_t error, const char *call)
{
	if (error == hipSuccess)
		return;
	fprintf(stderr, "failed: %s: %s\n", call, hipGetErrorString(error));
	exit(1);
}
#define MUST(call) must(call, #call)

static __global__ void count_on(volatile unsigned int *words, volatile unsigned int *started,
				volatile unsigned int *end)
{
	if (threadIdx.x == 0) {
		words[blockIdx.x] = MARK;
		started[blockIdx.x] = 1;
	}
	while (!*end)
		;
}

static __global__ void store(unsigned int *to)
{
	*to = 1;
}

int main(void)
{
	volatile unsigned int *started;
	unsigned int *words;
	hipStream_t stream;
	int lanes;

	MUST(hipDeviceGetAttribute(&lanes, hipDeviceAttributeWarpSize, 0));
	MUST(hipMalloc((void **)&words, 1 << 20));
	MUST(hipHostMalloc((void **)&started, 4096, hipHostMallocDefault));
	for (unsigned int i = 0; i < 1024; i++)
		started[i] = 0;
	MUST(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
	hipLaunchKernelGGL(count_on, dim3(WAVES), dim3(lanes), 0, stream, words, started,
			   started + 512);
	MUST(hipGetLastError());
	for (unsigned int i = 0; i < WAVES; i++)
		while (!started[i])
			;
	printf("%p %d %#x\n", (void *)words, WAVES, MARK);
	fflush(stdout);
	hipLaunchKernelGGL(store, dim3(1), dim3(1), 0, 0, (unsigned int *)0x100000001234);
	MUST(hipGetLastError());
	MUST(hipDeviceSynchronize());
	return 1;
}
