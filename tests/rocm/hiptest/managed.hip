// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests memory that CPU and GPU share at one address: managed memory, with and without retry faults
 * (HSA_XNACK), and with them all other memory of the process. The whole contents are compared.
 */
#include "hiptest.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#define THREADS 256u
#define PAGE ((size_t)4096)

/* Managed memory of `count` words, and what they should be. */
struct Managed {
	uint32_t *at = nullptr;
	size_t count;
	std::vector<uint32_t> want;

	explicit Managed(size_t n) : count(n), want(n)
	{
		if (!attribute(hipDeviceAttributeConcurrentManagedAccess))
			throw Skipped{ "hipDeviceAttributeConcurrentManagedAccess is 0" };
		HIP(hipMallocManaged((void **)&at, n * 4));
		for (size_t i = 0; i < n; i++)
			at[i] = want[i] = mix((uint32_t)i);
	}
	Managed(const Managed &) = delete;
	~Managed() { (void)hipFree(at); }
	size_t bytes() const { return count * 4; }
	void check(const char *what)
	{
		expect_all(what, at, count, [this](size_t i) { return want[i]; });
	}
};

static __global__ void add(uint32_t *words, size_t count, size_t step, uint32_t value)
{
	size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * step;

	if (i < count)
		words[i] += value + (uint32_t)i;
}

/* Adds to each `step`th word. */
static void add_on_gpu(uint32_t *words, size_t count, size_t step, uint32_t value,
		       hipStream_t stream = 0)
{
	size_t threads = (count + step - 1) / step;

	add<<<(uint32_t)((threads + THREADS - 1) / THREADS), THREADS, 0, stream>>>(words, count,
										   step, value);
	HIP(hipGetLastError());
}

/* The same on the CPU. */
static void add_on_cpu(uint32_t *words, size_t count, size_t step, uint32_t value)
{
	for (size_t i = 0; i < count; i += step)
		words[i] += value + (uint32_t)i;
}

/* CPU and GPU change random parts of the same memory in turns, which overlap in pages. */
void managed_turns()
{
	Managed m(2 * MiB / 4 + 777);
	uint32_t seed = (uint32_t)getpid();

	for (uint32_t round = 1; round <= 40; round++) {
		size_t at = (seed = mix(seed + round)) % (m.count - 20000);

		add_on_gpu(m.at + at, 20000, 1, round);
		HIP(hipDeviceSynchronize());
		add_on_cpu(&m.want[at], 20000, 1, round);
		at = (seed = mix(seed)) % (m.count - 5000);
		add_on_cpu(m.at + at, 5000, 3, round * 7);
		add_on_cpu(&m.want[at], 5000, 3, round * 7);
	}
	m.check("memory changed in turns");
}

/* Prefetches of all and of parts, in stream order between kernels. */
void managed_prefetch()
{
	Managed m(4 * MiB / 4);
	Stream stream;
	int where = 99;

	for (uint32_t round = 1; round <= 4; round++) {
		HIP(hipMemPrefetchAsync(m.at, m.bytes(), 0, stream.at));
		add_on_gpu(m.at, m.count, 5, round, stream.at);
		add_on_cpu(m.want.data(), m.count, 5, round);
		stream.wait();
		HIP(hipMemRangeGetAttribute(&where, sizeof(where),
					    hipMemRangeAttributeLastPrefetchLocation, m.at,
					    m.bytes()));
		EXPECT(where == 0, "%d", where);
		/* A part returns while the rest is used. */
		HIP(hipMemPrefetchAsync(m.at + m.count / 4, MiB, hipCpuDeviceId, stream.at));
		add_on_gpu(m.at, m.count / 8, 1, round, stream.at);
		add_on_cpu(m.want.data(), m.count / 8, 1, round);
		stream.wait();
		add_on_cpu(m.at + m.count / 4, MiB / 4, 2, round);
		add_on_cpu(&m.want[m.count / 4], MiB / 4, 2, round);
		HIP(hipMemPrefetchAsync(m.at, m.bytes(), hipCpuDeviceId, stream.at));
		stream.wait();
		HIP(hipMemRangeGetAttribute(&where, sizeof(where),
					    hipMemRangeAttributeLastPrefetchLocation, m.at,
					    m.bytes()));
		EXPECT(where == hipCpuDeviceId, "%d", where);
		m.check("prefetched memory");
	}
}

/* Each advice is reported, and the memory works with it. */
void managed_advice()
{
	Managed m(2 * MiB / 4);
	uint32_t round = 0;
	int value = 99;

	auto use = [&](const char *what) {
		round++;
		add_on_gpu(m.at, m.count, 3, round);
		HIP(hipDeviceSynchronize());
		add_on_cpu(m.want.data(), m.count, 3, round);
		m.check(what);
	};
	auto get = [&](hipMemRangeAttribute which) {
		value = 99;
		HIP(hipMemRangeGetAttribute(&value, sizeof(value), which, m.at, m.bytes()));
		return value;
	};
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseSetPreferredLocation, 0));
	EXPECT(get(hipMemRangeAttributePreferredLocation) == 0, "%d", value);
	use("preferred on the GPU");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseSetPreferredLocation, hipCpuDeviceId));
	EXPECT(get(hipMemRangeAttributePreferredLocation) == hipCpuDeviceId, "%d", value);
	use("preferred on the CPU");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseUnsetPreferredLocation, 0));
	EXPECT(get(hipMemRangeAttributePreferredLocation) == hipInvalidDeviceId, "%d", value);
	use("without preference");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseSetReadMostly, 0));
	EXPECT(get(hipMemRangeAttributeReadMostly) == 1, "%d", value);
	use("mostly read");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseUnsetReadMostly, 0));
	EXPECT(get(hipMemRangeAttributeReadMostly) == 0, "%d", value);
	use("not mostly read");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseSetAccessedBy, 0));
	EXPECT(get(hipMemRangeAttributeAccessedBy) == 0, "%d", value);
	use("accessed in place");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseSetCoarseGrain, 0));
	use("coarse-grained");
	HIP(hipMemAdvise(m.at, m.bytes(), hipMemAdviseUnsetCoarseGrain, 0));
	use("fine-grained");
	/* Half of it only. */
	HIP(hipMemAdvise(m.at, m.bytes() / 2, hipMemAdviseSetPreferredLocation, 0));
	HIP(hipMemPrefetchAsync(m.at, m.bytes() / 2, 0, 0));
	use("half of it on the GPU");
}

/* Two streams and a thread of the CPU, each with its own words of the same pages. */
void managed_streams()
{
	Managed m(MiB / 4);
	Stream one, two;

	for (uint32_t round = 1; round <= 6; round++) {
		add_on_gpu(m.at, m.count, 4, round, one.at);
		add_on_gpu(m.at + 1, m.count - 1, 4, round * 3, two.at);
		std::thread cpu([&] { add_on_cpu(m.at + 2, m.count - 2, 4, round * 5); });
		add_on_cpu(m.want.data(), m.count, 4, round);
		add_on_cpu(&m.want[1], m.count - 1, 4, round * 3);
		add_on_cpu(&m.want[2], m.count - 2, 4, round * 5);
		cpu.join();
		one.wait();
		two.wait();
		if (round % 3 == 0)
			m.check("memory of two streams");
	}
}

/* Twice as much managed memory as there is free VRAM: all of it is prefetched there and used. */
void managed_beyond_vram()
{
	const size_t piece = 16 * MiB;
	std::vector<uint32_t *> pieces;
	size_t left, total, wrong = 0;

	HIP(hipMemGetInfo(&left, &total));
	if (total > GiB)
		throw Skipped{ "the GPU has more than 1 GiB of memory" };
	if (!attribute(hipDeviceAttributeConcurrentManagedAccess))
		throw Skipped{ "hipDeviceAttributeConcurrentManagedAccess is 0" };
	for (size_t sum = 0; sum < 2 * left; sum += piece) {
		uint32_t *words;

		HIP(hipMallocManaged((void **)&words, piece));
		for (size_t i = 0; i < piece / 4; i++)
			words[i] = mix((uint32_t)(i + sum));
		pieces.push_back(words);
	}
	for (uint32_t round = 1; round <= 2; round++) {
		for (uint32_t *words : pieces) {
			HIP(hipMemPrefetchAsync(words, piece, 0, 0));
			/* A word of each page. */
			add_on_gpu(words + round, piece / 4 - round, PAGE / 4, round);
		}
		HIP(hipDeviceSynchronize());
	}
	for (size_t n = 0; n < pieces.size(); n++) {
		for (size_t i = 0; i < piece / 4; i++) {
			uint32_t want = mix((uint32_t)(i + n * piece)), word = i % (PAGE / 4);

			if (word == 1 || word == 2)
				want += word + (uint32_t)(i - word);
			if (pieces[n][i] != want && !wrong++)
				EXPECT(false, "piece %zu, word %zu: %#x, not %#x", n, i,
				       pieces[n][i], want);
		}
	}
	note("%zu MiB of managed memory, the GPU had %zu of %zu MiB; %zu words wrong",
	     pieces.size() * piece / MiB, left / MiB, total / MiB, wrong);
	for (uint32_t *words : pieces)
		HIP(hipFree(words));
}

/* fork() while kernels run: the child has the memory of that time and does not change the GPU's. */
void managed_fork()
{
	Managed m(MiB / 4);

	for (uint32_t round = 1; round <= 4; round++) {
		int gate[2], status;
		char go = 1;

		ASSERT(!pipe(gate));
		if (round % 2) {
			HIP(hipMemPrefetchAsync(m.at, m.bytes(), 0, 0));
			HIP(hipDeviceSynchronize());
		}
		/* The first half is changed by a kernel meanwhile. */
		if (round > 2)
			add_on_gpu(m.at, m.count / 2, 1, round);
		pid_t child = fork();
		ASSERT(child >= 0);
		if (!child) {
			size_t wrong = 0;

			close(gate[1]);
			(void)!read(gate[0], &go, 1);
			for (size_t i = m.count / 2; i < m.count; i++)
				wrong += m.at[i] != m.want[i];
			memset(m.at, 0xee, m.bytes());
			_exit(wrong ? 1 : 0);
		}
		if (round <= 2)
			add_on_gpu(m.at, m.count / 2, 1, round);
		add_on_gpu(m.at + m.count / 2, m.count / 2, 2, round);
		HIP(hipDeviceSynchronize());
		(void)!write(gate[1], &go, 1);
		add_on_cpu(m.want.data(), m.count / 2, 1, round);
		add_on_cpu(&m.want[m.count / 2], m.count / 2, 2, round);
		m.check("after fork()");
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "the child has %#x", status);
		m.check("after the child's exit");
		close(gate[0]);
		close(gate[1]);
	}
}

/* 8 processes at once do the same. */
void managed_processes()
{
	std::vector<pid_t> children;
	double start = seconds_now();

	for (int i = 0; i < 8; i++) {
		pid_t child = fork();

		ASSERT(child >= 0);
		if (!child) {
			std::string file = "/tmp/managed." + std::to_string(i);
			int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);

			dup2(fd, 1);
			dup2(fd, 2);
			execl("/proc/self/exe", "hiptest", "managed_turns", "managed_streams",
			      (char *)NULL);
			_exit(127);
		}
		children.push_back(child);
	}
	for (size_t i = 0; i < children.size(); i++) {
		std::string file = "/tmp/managed." + std::to_string(i);
		char text[400] = "";
		int status;

		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		int fd = open(file.c_str(), O_RDONLY);
		(void)!read(fd, text, sizeof(text) - 1);
		close(fd);
		unlink(file.c_str());
		EXPECT(!status, "process %zu has %#x: %s", i, status, text);
	}
	note("8 processes took %.1f s", seconds_now() - start);
}

struct Item {
	Item *next;
	uint32_t value;
};

static __global__ void follow(Item *first, uint32_t *sum, uint32_t *length)
{
	for (Item *item = first; item; item = item->next) {
		*sum += item->value;
		(*length)++;
		item->value ^= 0xffffffff;
	}
}

static void need_pageable()
{
	if (!attribute(hipDeviceAttributePageableMemoryAccess))
		throw Skipped{ "hipDeviceAttributePageableMemoryAccess is 0" };
}

/* The GPU uses what malloc, new and mmap return, and the stack; also what the CPU never touched. */
void pageable()
{
	static uint32_t here[3000];
	uint32_t stack[3000], sum = 0, length = 0, want = 0;

	need_pageable();
	for (size_t count : { (size_t)100, (size_t)5000, MiB }) {
		uint32_t *words = (uint32_t *)malloc(count * 4);

		for (size_t i = 0; i < count; i++)
			words[i] = (uint32_t)i;
		add_on_gpu(words, count, 1, 5);
		HIP(hipDeviceSynchronize());
		expect_all("memory of malloc", words, count,
			   [](size_t i) { return (uint32_t)i * 2 + 5; });
		words = (uint32_t *)realloc(words, count * 8);
		add_on_gpu(words, count, 1, 6);
		HIP(hipDeviceSynchronize());
		expect_all("memory of realloc", words, count,
			   [](size_t i) { return (uint32_t)i * 3 + 11; });
		free(words);
		words = (uint32_t *)calloc(count, 4);
		add_on_gpu(words, count, 1, 7);
		HIP(hipDeviceSynchronize());
		expect_all("memory of calloc", words, count,
			   [](size_t i) { return (uint32_t)i + 7; });
		free(words);
	}
	std::vector<uint32_t> vector(20000, 3);
	add_on_gpu(vector.data(), vector.size(), 1, 4);
	memset(stack, 0, sizeof(stack));
	add_on_gpu(stack, 3000, 1, 8);
	add_on_gpu(here, 3000, 1, 9);
	HIP(hipDeviceSynchronize());
	expect_all("a vector", vector, [](size_t i) { return (uint32_t)i + 7; });
	expect_all("the stack", stack, 3000, [](size_t i) { return (uint32_t)i + 8; });
	expect_all("static data", here, 3000, [](size_t i) { return (uint32_t)i + 9; });
	/* A list of the CPU. */
	Item *first = nullptr;
	for (uint32_t i = 0; i < 2000; i++) {
		first = new Item{ first, mix(i) };
		want += mix(i);
	}
	follow<<<1, 1>>>(first, &sum, &length);
	launched();
	EXPECT(sum == want, "%#x, not %#x", sum, want);
	EXPECT(length == 2000, "%u", length);
	for (uint32_t i = 2000; i-- > 0;) {
		std::unique_ptr<Item> item(first);

		EXPECT(item->value == ~mix(i), "item %u: %#x", i, item->value);
		first = item->next;
	}
}

/* Files mapped shared and private, and memory that is mapped anew at the same address. */
void pageable_maps()
{
	const size_t count = 8 * PAGE / 4;
	int fd = memfd_create("hiptest", MFD_CLOEXEC);
	std::vector<uint32_t> got(count);

	need_pageable();
	ASSERT(fd >= 0 && !ftruncate(fd, count * 4));
	for (int flags : { MAP_SHARED, MAP_PRIVATE }) {
		uint32_t *words = (uint32_t *)mmap(NULL, count * 4, PROT_READ | PROT_WRITE, flags,
						   fd, 0);

		ASSERT(words != MAP_FAILED);
		add_on_gpu(words, count, 1, 1);
		HIP(hipDeviceSynchronize());
		uint32_t before = flags == MAP_PRIVATE;
		expect_all("a mapped file", words, count,
			   [=](size_t i) { return ((uint32_t)i + 1) * (1 + before); });
		ASSERT(pread(fd, got.data(), count * 4, 0) == (ssize_t)(count * 4));
		expect_all("the file", got, [](size_t i) { return (uint32_t)i + 1; });
		munmap(words, count * 4);
	}
	close(fd);
	uint32_t *words = (uint32_t *)mmap(NULL, count * 4, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint32_t round = 1; round < 8; round++) {
		add_on_gpu(words, count, 1, round);
		HIP(hipDeviceSynchronize());
		expect_all("memory mapped anew", words, count,
			   [=](size_t i) { return (uint32_t)i + round; });
		ASSERT(mmap(words, count * 4, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == words);
	}
	munmap(words, count * 4);
}
