// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The traced program: c = a + b over 1,048,576 floats in 4096 blocks of 256, in plain HIP: three
 * hipMalloc, three hipMemcpy, one launch, one hipDeviceSynchronize, three hipFree, and nothing
 * else. Compares every sum. Optional arguments: number of blocks, number of launches before the
 * synchronize (1).
 */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define THREADS 256u

static __global__ void add(const float *a, const float *b, float *c)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	c[i] = a[i] + b[i];
}

static void must(hipError_t error, const char *call)
{
	if (error == hipSuccess)
		return;
	printf("# failed: %s: %s\nnot ok 1 vecadd\n", call, hipGetErrorString(error));
	exit(1);
}
#define MUST(call) must(call, #call)

int main(int argc, char **argv)
{
	unsigned int blocks = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 0) : 4096;
	unsigned int launches = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 1;
	size_t count = (size_t)blocks * THREADS, bytes = count * sizeof(float), wrong = 0;
	std::vector<float> a(count), b(count), c(count, -1.0f);
	float *da, *db, *dc;

	printf("KTAP version 1\n1..1\n");
	fflush(stdout);
	/* Values with exact sums, comparable for equality. */
	for (size_t i = 0; i < count; i++) {
		a[i] = (float)(i & 0xffff) * 0.5f;
		b[i] = (float)(i >> 4);
	}
	MUST(hipMalloc((void **)&da, bytes));
	MUST(hipMalloc((void **)&db, bytes));
	MUST(hipMalloc((void **)&dc, bytes));
	MUST(hipMemcpy(da, a.data(), bytes, hipMemcpyHostToDevice));
	MUST(hipMemcpy(db, b.data(), bytes, hipMemcpyHostToDevice));
	for (unsigned int i = 0; i < launches; i++)
		hipLaunchKernelGGL(add, dim3(blocks), dim3(THREADS), 0, 0, da, db, dc);
	MUST(hipDeviceSynchronize());
	MUST(hipMemcpy(c.data(), dc, bytes, hipMemcpyDeviceToHost));
	MUST(hipFree(da));
	MUST(hipFree(db));
	MUST(hipFree(dc));
	for (size_t i = 0; i < count; i++)
		if (c[i] != a[i] + b[i] && wrong++ < 8)
			printf("# failed: element %zu is %g, not %g\n", i, (double)c[i],
			       (double)(a[i] + b[i]));
	printf("# %zu of %zu sums right\n%s 1 vecadd\n", count - wrong, count,
	       wrong ? "not ok" : "ok");
	return wrong != 0;
}
