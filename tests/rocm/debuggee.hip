// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The program that dbgapi debugs: a kernel whose waves count in memory until a line on the standard
 * input of the program. It prints the addresses of its memory and the lanes of a wave once all
 * waves run.
 */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define WAVES 6u

static void must(hipError_t error, const char *call)
{
	if (error == hipSuccess)
		return;
	fprintf(stderr, "failed: %s: %s\n", call, hipGetErrorString(error));
	exit(1);
}
#define MUST(call) must(call, #call)

static __global__ void count_until(volatile unsigned int *end, volatile unsigned int *counts)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	do
		counts[i]++;
	while (!*end);
}

int main(void)
{
	volatile unsigned int *words, *counts;
	unsigned int count;
	int lanes;
	char byte;

	MUST(hipDeviceGetAttribute(&lanes, hipDeviceAttributeWarpSize, 0));
	count = WAVES * lanes;
	MUST(hipHostMalloc((void **)&words, (count + 64) * sizeof(*words), hipHostMallocDefault));
	counts = words + 64;
	for (unsigned int i = 0; i < count + 64; i++)
		words[i] = 0;
	hipLaunchKernelGGL(count_until, dim3(WAVES), dim3(lanes), 0, 0, words, counts);
	MUST(hipGetLastError());
	for (unsigned int i = 0; i < count; i++)
		while (!counts[i])
			usleep(1000);
	printf("%p %p %d\n", (void *)words, (void *)counts, lanes);
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return 1;
	words[0] = 1;
	MUST(hipDeviceSynchronize());
	printf("done\n");
	return 0;
}
