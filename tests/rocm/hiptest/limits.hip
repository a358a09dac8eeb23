// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the reported amount of memory, allocation beyond it, and further allocation APIs. */
#include "hiptest.h"

#include <unistd.h>

#define THREADS 256u

static __global__ void fill_words(uint32_t *words, uint32_t count, uint32_t value)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		words[i] = value + i;
}

static void use(void *at, uint32_t value)
{
	const uint32_t count = 1000;
	std::vector<uint32_t> got(count);

	fill_words<<<4, THREADS>>>((uint32_t *)at, count, value);
	launched();
	HIP(hipMemcpy(got.data(), at, count * 4, hipMemcpyDeviceToHost));
	expect_all("words of this memory", got, [=](size_t i) { return value + (uint32_t)i; });
}

/* Allocates too much, at once and in pieces, and frees all. */
static void exhaust()
{
	size_t left, total;
	std::vector<void *> pieces;
	hipError_t error = hipSuccess;
	void *at = nullptr;

	HIP(hipMemGetInfo(&left, &total));
	EXPECT(left <= total && total >= GiB, "%zu of %zu", left, total);
	EXPECT_HIP(hipMalloc(&at, total + GiB), hipErrorOutOfMemory);
	EXPECT_HIP(hipMalloc(&at, (size_t)1 << 45), hipErrorOutOfMemory);
	EXPECT_HIP(hipHostMalloc(&at, (size_t)1 << 42, hipHostMallocDefault), hipErrorOutOfMemory);
	while (pieces.size() <= total / GiB && (error = hipMalloc(&at, GiB)) == hipSuccess)
		pieces.push_back(at);
	EXPECT(error == hipErrorOutOfMemory, "%s after %zu GiB", hipGetErrorName(error),
	       pieces.size());
	(void)hipGetLastError();
	EXPECT(pieces.size() >= left / GiB - 1, "only %zu of %zu GiB", pieces.size(), left / GiB);
	if (!pieces.empty())
		use(pieces.back(), 77);
	for (void *piece : pieces)
		HIP(hipFree(piece));
	HIP(hipMalloc(&at, GiB));
	use(at, 78);
	HIP(hipFree(at));
}

/*
 * HIP's own threads release what was freed: an ended command holds its buffers until a callback
 * thread drops them, so that hipFree may return before the driver frees memory.
 */

/* Returns the free memory once it is unchanged for half a second. */
static size_t left_when_settled()
{
	size_t left = 0, now, total;

	for (int i = 0, same = 0; same < 50 && i < 1000; i++) {
		HIP(hipMemGetInfo(&now, &total));
		same = now == left ? same + 1 : 0;
		left = now;
		usleep(10000);
	}
	return left;
}

/* Returns the free memory once it is what is hoped for. */
static size_t left_at_rest(size_t hoped_for)
{
	size_t left, total;

	for (int i = 0;; i++) {
		HIP(hipMemGetInfo(&left, &total));
		if (left >= hoped_for || i == 1000)
			return left;
		usleep(10000);
	}
}

void beyond_memory()
{
	size_t first, second;

	/*
	 * The first run includes first-use allocations of HIP: only the second run may not lose
	 * memory.
	 */
	exhaust();
	first = left_when_settled();
	exhaust();
	second = left_at_rest(first);
	EXPECT(first <= second, "%zu bytes are left, there were %zu", second, first);
}

void available()
{
	size_t before, during, after, total;
	hipDeviceProp_t about;
	long long cus;
	void *at;

	HIP(hipGetDeviceProperties(&about, 0));
	before = left_when_settled();
	HIP(hipMalloc(&at, 64 * MiB));
	HIP(hipMemGetInfo(&during, &total));
	HIP(hipFree(at));
	after = left_at_rest(before);
	EXPECT(total == about.totalGlobalMem, "%zu, not %zu", total, about.totalGlobalMem);
	EXPECT(before - during == 64 * MiB, "%zu bytes went for 64 MiB", before - during);
	EXPECT(after == before, "%zu, not %zu", after, before);
	cus = topology("properties", "simd_count") / topology("properties", "simd_per_cu");
	/* HIP counts WGPs on GPUs with CUs in pairs. */
	if (!strncmp(about.gcnArchName, "gfx12", 5))
		cus /= 2;
	EXPECT(about.multiProcessorCount == cus, "%d, not %lld", about.multiProcessorCount, cus);
	EXPECT(about.sharedMemPerBlock == 64 * KiB, "%zu", about.sharedMemPerBlock);
	note("%s, %s, %d CUs at %d MHz, %zu MiB", about.name, about.gcnArchName,
	     about.multiProcessorCount, about.clockRate / 1000, about.totalGlobalMem / MiB);
}

void pools()
{
	Stream stream;
	void *at[4];

	if (!attribute(hipDeviceAttributeMemoryPoolsSupported))
		throw Skipped{ "hipDeviceAttributeMemoryPoolsSupported is 0" };
	for (uint32_t round = 0; round < 3; round++) {
		for (void *&one : at)
			HIP(hipMallocAsync(&one, MiB, stream.at));
		for (uint32_t i = 0; i < 4; i++)
			fill_words<<<4, THREADS, 0, stream.at>>>((uint32_t *)at[i], 1000,
								   i * 1000 + round);
		stream.wait();
		for (uint32_t i = 0; i < 4; i++) {
			std::vector<uint32_t> got(1000);

			HIP(hipMemcpy(got.data(), at[i], 4000, hipMemcpyDeviceToHost));
			expect_all("memory of a pool", got,
				   [=](size_t k) { return i * 1000 + round + (uint32_t)k; });
			HIP(hipFreeAsync(at[i], stream.at));
		}
		stream.wait();
	}
}

/*
 * Address reservation first, memory afterwards: the same memory at two addresses, and other memory
 * at the first.
 */
void virtual_memory()
{
	hipMemAllocationProp what = {};
	hipMemGenericAllocationHandle_t one, two;
	hipMemAccessDesc access = {};
	size_t grain;
	uint8_t *at;

	if (!attribute(hipDeviceAttributeVirtualMemoryManagementSupported))
		throw Skipped{ "hipDeviceAttributeVirtualMemoryManagementSupported is 0" };
	what.type = hipMemAllocationTypePinned;
	what.location.type = hipMemLocationTypeDevice;
	access.location = what.location;
	access.flags = hipMemAccessFlagsProtReadWrite;
	HIP(hipMemGetAllocationGranularity(&grain, &what, hipMemAllocationGranularityRecommended));
	size_t bytes = (2 * MiB + grain - 1) / grain * grain;
	HIP(hipMemAddressReserve((void **)&at, 2 * bytes, 0, NULL, 0));
	HIP(hipMemCreate(&one, bytes, &what, 0));
	HIP(hipMemCreate(&two, bytes, &what, 0));
	HIP(hipMemMap(at, bytes, 0, one, 0));
	HIP(hipMemMap(at + bytes, bytes, 0, two, 0));
	HIP(hipMemSetAccess(at, bytes, &access, 1));
	HIP(hipMemSetAccess(at + bytes, bytes, &access, 1));
	use(at, 1);
	use(at + bytes, 2);
	/* One kernel across the boundary of two allocations. */
	fill_words<<<4, THREADS>>>((uint32_t *)(at + bytes - 2000), 1000, 3000);
	launched();
	std::vector<uint32_t> got(1000);
	HIP(hipMemcpy(got.data(), at + bytes - 2000, 2000, hipMemcpyDeviceToHost));
	HIP(hipMemcpy(got.data() + 500, at + bytes, 2000, hipMemcpyDeviceToHost));
	expect_all("across two memories", got, [](size_t i) { return 3000 + (uint32_t)i; });
	HIP(hipMemUnmap(at, bytes));
	HIP(hipMemUnmap(at + bytes, bytes));
	HIP(hipMemRelease(one));
	HIP(hipMemRelease(two));
	HIP(hipMemAddressFree(at, 2 * bytes));
}
