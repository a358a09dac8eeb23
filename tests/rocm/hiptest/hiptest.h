/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Shared by the cases of hiptest: failure reports, and RAII memory, streams and events. All cases
 * run in one process, because starting HIP dominates a short program; a Helper is a further process
 * that runs the same program until it is stopped.
 */
#ifndef HIPTEST_H
#define HIPTEST_H

#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)
#define GiB ((size_t)1 << 30)

/* Thrown to end a case; the failure has been reported. */
struct Ended {};
/* Thrown to skip a case. */
struct Skipped {
	std::string reason;
};

/* Largest copy or fill, in bytes (-s). */
extern size_t size_limit;

__attribute__((format(printf, 4, 5))) bool failed(const char *file, int line, const char *what,
						  const char *more, ...);
__attribute__((format(printf, 1, 2))) void note(const char *text, ...);
unsigned int failures();
const char *first_failure();
double seconds_now();

/* Records a failure and goes on. */
#define EXPECT(condition, ...) \
	((condition) || failed(__FILE__, __LINE__, #condition, "" __VA_ARGS__))
/* Records a failure and ends the case. */
#define ASSERT(condition, ...)                              \
	do {                                                \
		if (!EXPECT(condition, __VA_ARGS__))        \
			throw Ended();                      \
	} while (0)
/* For HIP calls: they must succeed, or return `wanted`. */
#define HIP(call) hip_result(__FILE__, __LINE__, #call, (call), hipSuccess, true)
#define EXPECT_HIP(call, wanted) hip_result(__FILE__, __LINE__, #call, (call), (wanted), false)
void hip_result(const char *file, int line, const char *call, hipError_t got, hipError_t wanted,
		bool must);

int attribute(hipDeviceAttribute_t which);
/* Returns a value of a properties file of the GPU's topology node, or of a folder below it. */
unsigned long long topology(const char *file, const char *name);

/* `count` elements of device or pinned host memory. */
template <typename T> struct Device {
	T *at = nullptr;
	size_t count;

	explicit Device(size_t n) : count(n) { HIP(hipMalloc((void **)&at, n * sizeof(T))); }
	explicit Device(const std::vector<T> &from) : Device(from.size()) { put(from); }
	Device(const Device &) = delete;
	~Device() { (void)hipFree(at); }
	void put(const std::vector<T> &from)
	{
		HIP(hipMemcpy(at, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice));
	}
	void clear() { HIP(hipMemset(at, 0, count * sizeof(T))); }
	std::vector<T> get() const
	{
		std::vector<T> to(count);

		HIP(hipMemcpy(to.data(), at, count * sizeof(T), hipMemcpyDeviceToHost));
		return to;
	}
};

template <typename T> struct Pinned {
	T *at = nullptr;
	size_t count;

	explicit Pinned(size_t n, unsigned int flags = hipHostMallocDefault) : count(n)
	{
		HIP(hipHostMalloc((void **)&at, n * sizeof(T), flags));
	}
	Pinned(const Pinned &) = delete;
	~Pinned() { (void)hipHostFree(at); }
	T &operator[](size_t i) { return at[i]; }
};

struct Stream {
	hipStream_t at = nullptr;

	explicit Stream(unsigned int flags = hipStreamNonBlocking)
	{
		HIP(hipStreamCreateWithFlags(&at, flags));
	}
	Stream(const Stream &) = delete;
	~Stream() { (void)hipStreamDestroy(at); }
	void wait() { HIP(hipStreamSynchronize(at)); }
};

struct Event {
	hipEvent_t at = nullptr;

	explicit Event(unsigned int flags = hipEventDefault)
	{
		HIP(hipEventCreateWithFlags(&at, flags));
	}
	Event(const Event &) = delete;
	~Event() { (void)hipEventDestroy(at); }
};

/* After a launch: checks that it was accepted, and waits for its end. */
void launched();

/* Compares `count` values with `wanted(i)`. */
template <typename T, typename F>
void expect_all(const char *what, const T *got, size_t count, F wanted)
{
	size_t wrong = 0, first = 0;

	for (size_t i = 0; i < count; i++)
		if (!(got[i] == (T)wanted(i)) && !wrong++)
			first = i;
	EXPECT(!wrong, "%s: %zu of %zu wrong, the first is number %zu: %.17g, not %.17g", what,
	       wrong, count, first, (double)got[first], (double)(T)wanted(first));
}
template <typename T, typename F>
void expect_all(const char *what, const std::vector<T> &got, F wanted)
{
	expect_all(what, got.data(), got.size(), wanted);
}

/* Test data: a hash of `x`. */
__host__ __device__ static inline uint32_t mix(uint32_t x)
{
	x = (x ^ (x >> 16)) * 0x7feb352du;
	x = (x ^ (x >> 15)) * 0x846ca68bu;
	return x ^ (x >> 16);
}

/* Commands and replies of a helper. */
enum class Job : uint32_t { Work, OpenMemory, OpenEvent, Store, Load, Leave };
struct Order {
	Job job;
	uint32_t rounds;
	uint64_t bytes, address;
	hipIpcMemHandle_t memory;
	hipIpcEventHandle_t event;
};
struct Answer {
	uint32_t failures;
	char text[252];
};

/* A child process of this program with its own HIP runtime. */
struct Helper {
	int pid = -1, orders = -1, errors = -1;

	Helper();
	Helper(const Helper &) = delete;
	~Helper();
	void order(const Order &order);
	/* Waits for a reply; ends the case if there is none or if it is a failure. */
	void answer();
	/*
	 * Waits for exit; returns the status as waitpid does, and the contents of standard error.
	 */
	int end(std::string *output);
};
/* Main loop of a helper; `fd` delivers commands. */
int helper_main(int fd);

void copy_sizes(), copy_offsets(), copy_2d(), fill(), symbols(), host_register(), register_fork(),
	managed();
void lds(), dynamic_lds(), atomics(), atomics_lds(), atomics_host(), divergence(), grid3d(),
	last_block();
void scratch(), scratch_streams(), registers(), calls(), waves(), math(), half_floats(), integers(),
	cooperative(), groups();
void streams(), events(), ordering(), host_functions(), priorities(), launches();
void beyond_memory(), available(), pools(), virtual_memory();
void processes(), ipc_memory(), ipc_event(), fault_store(), fault_load();
void managed_turns(), managed_prefetch(), managed_advice(), managed_streams(),
	managed_beyond_vram(), managed_fork(), managed_processes();
void pageable(), pageable_maps();

#endif
