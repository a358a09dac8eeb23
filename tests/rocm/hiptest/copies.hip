// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests copies of all sizes in all directions, fills, and host memory used in place: registered,
 * shared after a fork, managed.
 */
#include "hiptest.h"

#include <cstdlib>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 256u
#define GUARD 64u
#define GUARD_BYTE 0xa5

static const size_t sizes[] = { 1,    2,       3,	    4,	      7,	64,	  255,
				4095, 4096,    4097,	    16383,    16384,	16385,	  65537,
				MiB,  MiB + 1, 4 * MiB + 3, 16 * MiB, 64 * MiB, 256 * MiB };

/* All words differ: a shifted or torn copy is detected. */
static void pattern(void *to, size_t bytes, uint32_t seed)
{
	uint32_t *words = (uint32_t *)to;
	uint32_t x = mix(seed);

	for (size_t i = 0; i < bytes / 4; i++)
		words[i] = (uint32_t)i * 0x9e3779b1u ^ x;
}

static void expect_same(const char *what, const void *got, const void *wanted, size_t bytes)
{
	const uint8_t *a = (const uint8_t *)got, *b = (const uint8_t *)wanted;
	size_t i = 0;

	if (!memcmp(a, b, bytes))
		return;
	while (a[i] == b[i])
		i++;
	EXPECT(a[i] == b[i], "%s of %zu bytes: byte %zu is %#x, not %#x", what, bytes, i, a[i],
	       b[i]);
}

static bool is_guard(const uint8_t *at)
{
	for (size_t i = 0; i < GUARD; i++)
		if (at[i] != GUARD_BYTE)
			return false;
	return true;
}

/* Host memory of one type, 4 KiB aligned. */
struct Host {
	uint8_t *at = nullptr;
	bool pinned;

	Host(size_t bytes, bool pin) : pinned(pin)
	{
		if (pinned)
			HIP(hipHostMalloc((void **)&at, bytes, hipHostMallocDefault));
		else
			at = (uint8_t *)aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
		ASSERT(at);
	}
	Host(const Host &) = delete;
	~Host()
	{
		if (pinned)
			(void)hipHostFree(at);
		else
			free(at);
	}
};

static void copy(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
	if (stream)
		HIP(hipMemcpyAsync(to, from, bytes, kind, stream));
	else
		HIP(hipMemcpy(to, from, bytes, kind));
}

/* Host to device, device to device, device to host; optionally host to host. */
static void round_trips(bool pinned)
{
	size_t most = size_limit, shift = 0;
	Stream stream;
	Host from(most + GUARD, pinned), to(most + GUARD, pinned);
	Device<uint8_t> a(most + GUARD), b(most + GUARD);
	const char *kind = pinned ? "pinned" : "pageable";

	pattern(from.at, most + GUARD, pinned);
	memset(to.at, GUARD_BYTE, most + GUARD);
	HIP(hipMemset(a.at, GUARD_BYTE, most + GUARD));
	HIP(hipMemset(b.at, GUARD_BYTE, most + GUARD));
	for (size_t bytes : sizes) {
		if (bytes > most)
			break;
		double start = seconds_now();
		for (hipStream_t on : { (hipStream_t)0, stream.at }) {
			/*
			 * New contents each time, so that stale data of the previous copy is
			 * detected.
			 */
			const uint8_t *source = from.at + ++shift % GUARD;
			uint8_t guards[2 * GUARD];

			copy(a.at, source, bytes, hipMemcpyHostToDevice, on);
			copy(b.at, a.at, bytes, on ? hipMemcpyDeviceToDevice : hipMemcpyDefault,
			     on);
			copy(to.at, b.at, bytes, hipMemcpyDeviceToHost, on);
			copy(guards, a.at + bytes, GUARD, hipMemcpyDeviceToHost, on);
			copy(guards + GUARD, b.at + bytes, GUARD, hipMemcpyDeviceToHost, on);
			if (on)
				stream.wait();
			else
				HIP(hipDeviceSynchronize());
			expect_same(kind, to.at, source, bytes);
			EXPECT(is_guard(to.at + bytes),
			       "%s, %zu bytes: written behind the host's copy", kind, bytes);
			EXPECT(is_guard(guards) && is_guard(guards + GUARD),
			       "%s, %zu bytes: written behind the device's", kind, bytes);
		}
		if (bytes >= 16 * MiB)
			note("%s, %zu MiB: %.1f s for two round trips", kind, bytes / MiB,
			     seconds_now() - start);
	}
	for (size_t bytes : sizes) {
		if (bytes > most)
			break;
		const uint8_t *source = from.at + ++shift % GUARD;
		copy(to.at, source, bytes, hipMemcpyHostToHost, bytes % 2 ? stream.at : 0);
		HIP(hipDeviceSynchronize());
		expect_same("host to host", to.at, source, bytes);
	}
}

void copy_sizes()
{
	round_trips(true);
	round_trips(false);
}

/* Unaligned at both ends: all offsets within a word, and across pages. */
void copy_offsets()
{
	const size_t room = 64 * KiB;
	Host from(room, false), to(room, true);
	Device<uint8_t> device(room), other(room);

	pattern(from.at, room, 3);
	for (size_t source : { 0, 1, 3, 4090, 8191 })
		for (size_t target : { 0, 2, 5, 4095, 12289 })
			for (size_t bytes : { 1, 13, 4099, 20011 }) {
				memset(to.at, 0, room);
				HIP(hipMemcpy(device.at + target, from.at + source, bytes,
					      hipMemcpyHostToDevice));
				HIP(hipMemcpy(other.at + source, device.at + target, bytes,
					      hipMemcpyDeviceToDevice));
				HIP(hipMemcpy(to.at + target, other.at + source, bytes,
					      hipMemcpyDeviceToHost));
				expect_same("copy between offsets", to.at + target,
					    from.at + source, bytes);
			}
}

/* Pitched copies between host and device, and within the device. */
void copy_2d()
{
	const size_t width = 300, height = 40, pitch = 512;
	std::vector<uint8_t> from(pitch * height), to(pitch * height, 0);
	uint8_t *device;
	size_t device_pitch;

	pattern(from.data(), from.size(), 4);
	/* HIP 5.7 fails this call without image support, which this GPU does not have. */
	if (hipMallocPitch((void **)&device, &device_pitch, width, height) != hipSuccess) {
		(void)hipGetLastError();
		note("no hipMallocPitch");
		device_pitch = pitch;
		HIP(hipMalloc((void **)&device, pitch * height));
	}
	EXPECT(device_pitch >= width, "%zu", device_pitch);
	Device<uint8_t> other(device_pitch * height);
	HIP(hipMemset2D(device, device_pitch, 0x11, width, height));
	HIP(hipMemcpy2D(device, device_pitch, from.data() + 5, pitch, width, height,
			hipMemcpyHostToDevice));
	HIP(hipMemcpy2D(other.at, device_pitch, device, device_pitch, width, height,
			hipMemcpyDeviceToDevice));
	HIP(hipMemcpy2D(to.data(), pitch, other.at, device_pitch, width, height,
			hipMemcpyDeviceToHost));
	for (size_t row = 0; row < height; row++) {
		expect_same("row", &to[row * pitch], &from[row * pitch + 5], width);
		for (size_t i = width; i < pitch; i++)
			if (!EXPECT(!to[row * pitch + i], "row %zu: byte %zu written", row, i))
				break;
	}
	HIP(hipFree(device));
}

void fill()
{
	size_t most = size_limit;
	Device<uint8_t> device(most + GUARD);
	Host host(most + GUARD, true);
	Stream stream;
	uint8_t value = 0x30;

	HIP(hipMemset(device.at, GUARD_BYTE, most + GUARD));
	for (size_t bytes : sizes) {
		if (bytes > most)
			break;
		double start = seconds_now();
		size_t wrong = 0;

		value++;
		if (value % 2)
			HIP(hipMemset(device.at, value, bytes));
		else
			HIP(hipMemsetAsync(device.at, value, bytes, stream.at));
		HIP(hipDeviceSynchronize());
		HIP(hipMemcpy(host.at, device.at, bytes + GUARD, hipMemcpyDeviceToHost));
		/* The fill is uniform if every byte equals the previous one. */
		wrong = host.at[0] != value || memcmp(host.at, host.at + 1, bytes - 1);
		EXPECT(!wrong, "fill of %zu bytes with %#x", bytes, value);
		EXPECT(is_guard(host.at + bytes), "fill of %zu bytes wrote behind them", bytes);
		if (bytes >= 16 * MiB)
			note("%zu MiB: %.1f s", bytes / MiB, seconds_now() - start);
	}
	HIP(hipMemsetD32((hipDeviceptr_t)device.at, 0x01020304, 1000));
	HIP(hipMemsetD16((hipDeviceptr_t)(device.at + 4000), 0x0506, 1000));
	HIP(hipMemsetD8((hipDeviceptr_t)(device.at + 6000), 7, 1000));
	HIP(hipMemcpy(host.at, device.at, 7000, hipMemcpyDeviceToHost));
	expect_all("words", (uint32_t *)host.at, 1000, [](size_t) { return 0x01020304; });
	expect_all("halves", (uint16_t *)(host.at + 4000), 1000, [](size_t) { return 0x0506; });
	expect_all("bytes", host.at + 6000, 1000, [](size_t) { return 7; });
}

static __constant__ uint32_t constants[256];
static __device__ uint32_t global_words[256];

static __global__ void use_symbols()
{
	global_words[threadIdx.x] += constants[255 - threadIdx.x];
}

void symbols()
{
	std::vector<uint32_t> c(256), g(256), got(256);
	void *at;
	size_t bytes;

	pattern(c.data(), 1024, 5);
	pattern(g.data(), 1024, 6);
	HIP(hipMemcpyToSymbol(HIP_SYMBOL(constants), c.data(), 1024));
	HIP(hipMemcpyToSymbol(HIP_SYMBOL(global_words), g.data(), 1024));
	use_symbols<<<1, 256>>>();
	launched();
	HIP(hipMemcpyFromSymbol(got.data(), HIP_SYMBOL(global_words), 1024));
	expect_all("words of a symbol", got, [&](size_t i) { return g[i] + c[255 - i]; });
	HIP(hipGetSymbolAddress(&at, HIP_SYMBOL(global_words)));
	HIP(hipGetSymbolSize(&bytes, HIP_SYMBOL(global_words)));
	EXPECT(bytes == 1024, "%zu", bytes);
	HIP(hipMemset(at, 0, bytes));
	HIP(hipMemcpyFromSymbol(got.data(), HIP_SYMBOL(global_words), 1024));
	expect_all("cleared symbol", got, [](size_t) { return 0; });
}

static __global__ void add_index(uint32_t *words, size_t count)
{
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] += (uint32_t)i;
}

/* Registers memory; GPU and host write it in turns, and it is source and target of copies. */
static void use_registered(uint8_t *at, size_t bytes)
{
	uint32_t *words = (uint32_t *)at, *gpu;
	size_t count = bytes / 4;

	for (size_t i = 0; i < count; i++)
		words[i] = mix((uint32_t)i);
	HIP(hipHostRegister(at, bytes, hipHostRegisterDefault));
	HIP(hipHostGetDevicePointer((void **)&gpu, at, 0));
	add_index<<<8, THREADS>>>(gpu, count);
	launched();
	expect_all("registered, written by the GPU", words, count,
		   [](size_t i) { return mix((uint32_t)i) + (uint32_t)i; });
	for (size_t i = 0; i < count; i++)
		words[i] ^= 0x5555;
	add_index<<<8, THREADS>>>(gpu, count);
	launched();
	auto last = [](size_t i) {
		return ((mix((uint32_t)i) + (uint32_t)i) ^ 0x5555) + (uint32_t)i;
	};
	expect_all("registered, written by both", words, count, last);
	Device<uint32_t> device(count);
	Stream stream;
	HIP(hipMemcpyAsync(device.at, words, count * 4, hipMemcpyHostToDevice, stream.at));
	add_index<<<8, THREADS, 0, stream.at>>>(device.at, count);
	HIP(hipMemcpyAsync(words, device.at, count * 4, hipMemcpyDeviceToHost, stream.at));
	stream.wait();
	expect_all("registered, by copies", words, count,
		   [&](size_t i) { return last(i) + (uint32_t)i; });
	HIP(hipHostUnregister(at));
	EXPECT_HIP(hipHostUnregister(at), hipErrorHostMemoryNotRegistered);
}

static uint8_t *map(size_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	ASSERT(at != MAP_FAILED);
	return (uint8_t *)at;
}

void host_register()
{
	uint8_t *at;

	for (size_t bytes : { 4 * KiB, 12 * KiB, 8 * MiB }) {
		at = map(bytes, MAP_PRIVATE);
		use_registered(at, bytes);
		use_registered(at, bytes);
		munmap(at, bytes);
	}
	/* Neither start nor end is page aligned. */
	at = map(64 * KiB, MAP_PRIVATE);
	use_registered(at + 2048 + 64, 40000);
	munmap(at, 64 * KiB);
	at = map(256 * KiB, MAP_SHARED);
	use_registered(at, 256 * KiB);
	munmap(at, 256 * KiB);
	std::vector<uint8_t> heap(100000);
	use_registered(heap.data() + 16, 90000);
}

/*
 * As launched(), but sleeps between polls: every page that the kernel copies causes a TLB shootdown
 * IPI to a spinning thread, which takes milliseconds in an emulator on a busy host. (A change to
 * HIP's blocking waits hangs the streams that exist: Documentation/testing.rst.)
 */
static void launched_asleep()
{
	hipError_t error;

	HIP(hipGetLastError());
	while ((error = hipStreamQuery(nullptr)) == hipErrorNotReady)
		usleep(1000);
	HIP(error);
	/* Clear hipErrorNotReady, which HIP records as an error. */
	(void)hipGetLastError();
}

/*
 * After a fork the first write of either process moves a page (COW): the GPU must follow the
 * parent's page. The first write is by the host, or by the GPU alone.
 */
void register_fork()
{
	const size_t bytes = MiB, count = bytes / 4;
	uint32_t *words = (uint32_t *)map(bytes, MAP_PRIVATE), *gpu;
	int status;

	for (size_t i = 0; i < count; i++)
		words[i] = 7;
	HIP(hipHostRegister(words, bytes, hipHostRegisterDefault));
	HIP(hipHostGetDevicePointer((void **)&gpu, words, 0));
	for (uint32_t round = 0; round < 2; round++) {
		int gate[2];
		char go = 1;

		ASSERT(!pipe(gate));
		pid_t child = fork();
		ASSERT(child >= 0);
		if (!child) {
			/*
			 * Holds its copy of the pages until a message arrives or the parent exits.
			 */
			close(gate[1]);
			(void)!read(gate[0], &go, 1);
			_exit(words[0] == 7 + 100 * round && words[1] == 7 + round ? 0 : 1);
		}
		for (size_t i = 0; !round && i < count; i += 2)
			words[i] += 100;
		add_index<<<8, THREADS>>>(gpu, count);
		launched_asleep();
		expect_all("after a fork", words, count, [=](size_t i) {
			return 7 + (i % 2 ? 0 : 100) + (uint32_t)i * (round + 1);
		});
		(void)!write(gate[1], &go, 1);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "the child's copy has changed");
		close(gate[0]);
		close(gate[1]);
	}
	HIP(hipHostUnregister(words));
	munmap(words, bytes);
}

void managed()
{
	const size_t count = 100000;
	int advertised = attribute(hipDeviceAttributeManagedMemory),
	    together = attribute(hipDeviceAttributeConcurrentManagedAccess);
	uint32_t *words;

	note("ManagedMemory %d, ConcurrentManagedAccess %d, PageableMemoryAccess %d", advertised,
	     together, attribute(hipDeviceAttributePageableMemoryAccess));
	hipError_t error = hipMallocManaged((void **)&words, count * 4);
	if (!advertised && error != hipSuccess) {
		(void)hipGetLastError();
		throw Skipped{ "hipDeviceAttributeManagedMemory is 0, and hipMallocManaged fails" };
	}
	HIP(error);
	for (size_t i = 0; i < count; i++)
		words[i] = mix((uint32_t)i);
	for (uint32_t round = 1; round <= 3; round++) {
		add_index<<<8, THREADS>>>(words, count);
		launched();
		expect_all("managed memory", words, count,
			   [=](size_t i) { return mix((uint32_t)i) + round * (uint32_t)i; });
	}
	if (together) {
		HIP(hipMemAdvise(words, count * 4, hipMemAdviseSetPreferredLocation, 0));
		HIP(hipMemPrefetchAsync(words, count * 4, 0, 0));
		HIP(hipMemPrefetchAsync(words, count * 4, hipCpuDeviceId, 0));
		HIP(hipDeviceSynchronize());
		expect_all("prefetched memory", words, count,
			   [](size_t i) { return mix((uint32_t)i) + 3 * (uint32_t)i; });
	}
	Device<uint32_t> device(count);
	HIP(hipMemcpy(device.at, words, count * 4, hipMemcpyDefault));
	expect_all("copied from managed memory", device.get(),
		   [](size_t i) { return mix((uint32_t)i) + 3 * (uint32_t)i; });
	HIP(hipFree(words));
}
