// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Uses all GPUs in one process: kernels on each, alone and at the same time, and copies between
 * them. Argument: number of GPUs, at least two (default).
 */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define THREADS 256u
#define BLOCKS 64u
#define COUNT (THREADS * BLOCKS)
#define BYTES (COUNT * sizeof(unsigned int))

static int tests, failures;

static void result(const char *name, bool ok)
{
	printf("%s %d devices.%s\n", ok ? "ok" : "not ok", ++tests, name);
	fflush(stdout);
	failures += !ok;
}

static void must(hipError_t error, const char *call)
{
	if (error == hipSuccess)
		return;
	printf("# failed: %s: %s\n", call, hipGetErrorString(error));
	result("error", false);
	exit(1);
}
#define MUST(call) must(call, #call)

static __global__ void fill(unsigned int *to, unsigned int first)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	to[i] = first + i;
}

/* Ticks of wall_clock64() after which a kernel no longer waits for others: a minute at 100 MHz. */
#define PATIENCE 6000000000ull

/* Waits until `count` kernels run at the same time; returns in `met` whether they did. */
static __global__ void meet(unsigned int *arrived, unsigned int count, unsigned int *met)
{
	unsigned long long start = wall_clock64();

	__hip_atomic_fetch_add(arrived, 1u, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM);
	*met = 0;
	while (!*met && wall_clock64() - start < PATIENCE)
		*met = __hip_atomic_load(arrived, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM) >= count;
}

/* Returns whether memory of the current device has the numbers from `first` on. */
static bool has(const unsigned int *from, unsigned int first)
{
	std::vector<unsigned int> words(COUNT);
	unsigned int wrong = 0;

	MUST(hipMemcpy(words.data(), from, BYTES, hipMemcpyDeviceToHost));
	for (unsigned int i = 0; i < COUNT; i++)
		wrong += words[i] != first + i;
	if (wrong)
		printf("# failed: %u of %u words\n", wrong, COUNT);
	return !wrong;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 2, count = 0;
	std::vector<unsigned int *> data;
	unsigned int *words;
	bool ok = true;

	printf("KTAP version 1\n1..4\n");
	MUST(hipGetDeviceCount(&count));
	if (count != wanted)
		printf("# failed: %d devices, not %d\n", count, wanted);
	result("count", count == wanted);
	data.resize(count);
	for (int i = 0; i < count; i++) {
		MUST(hipSetDevice(i));
		MUST(hipMalloc((void **)&data[i], BYTES));
		fill<<<BLOCKS, THREADS>>>(data[i], 1000000u * i);
		MUST(hipGetLastError());
		ok &= has(data[i], 1000000u * i);
	}
	result("kernel_on_each", ok);
	ok = true;
	MUST(hipHostMalloc((void **)&words, (count + 1) * sizeof(*words),
			   hipHostMallocPortable | hipHostMallocCoherent));
	/* The second time, all wait for each other: the first launch on a device takes longest. */
	for (unsigned int all = 0; all <= (unsigned int)count; all += count) {
		words[count] = 0;
		for (int i = 0; i < count; i++) {
			MUST(hipSetDevice(i));
			meet<<<1, 1>>>(&words[count], all, &words[i]);
			MUST(hipGetLastError());
		}
		for (int i = 0; i < count; i++) {
			MUST(hipSetDevice(i));
			MUST(hipDeviceSynchronize());
			ok &= words[i] == 1;
		}
	}
	MUST(hipHostFree(words));
	result("kernels_at_the_same_time", ok);
	ok = true;
	for (int i = 0; i < count; i++) {
		MUST(hipSetDevice(i));
		fill<<<BLOCKS, THREADS>>>(data[i], 7u + i);
		MUST(hipGetLastError());
		MUST(hipDeviceSynchronize());
	}
	/*
	 * From each device to the next; the last one to the first, which is changed before. The
	 * calls return before the copies end, which are in order on one device only.
	 */
	for (int i = 0; i + 1 < count; i++)
		MUST(hipMemcpyPeer(data[i + 1], i + 1, data[i], i, BYTES));
	MUST(hipDeviceSynchronize());
	MUST(hipSetDevice(0));
	fill<<<BLOCKS, THREADS>>>(data[0], 0);
	MUST(hipGetLastError());
	MUST(hipDeviceSynchronize());
	MUST(hipMemcpyPeer(data[0], 0, data[count - 1], count - 1, BYTES));
	for (int i = 0; i < count; i++) {
		MUST(hipSetDevice(i));
		ok &= has(data[i], 7u);
		MUST(hipFree(data[i]));
	}
	result("copies_between_devices", ok);
	return failures != 0;
}
