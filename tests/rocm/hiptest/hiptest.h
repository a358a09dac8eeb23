/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the cases of hiptest share: how a case is told of failures, and memory, streams and events that end with
 * their scope. All cases run in one process, because the start of HIP is most of the time of a short program; what
 * needs a further process uses a Helper, which is the same program once more and stays until it is told otherwise.
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

/* Ends a case; what it failed with has been told before. */
struct Ended {};
/* Ends a case that cannot be run here. */
struct Skipped {
	std::string reason;
};

/* Largest copy or fill, in bytes (-s). */
extern size_t size_limit;

__attribute__((format(printf, 4, 5))) bool failed(const char *file, int line, const char *what, const char *more, ...);
__attribute__((format(printf, 1, 2))) void note(const char *text, ...);
unsigned int failures();
const char *first_failure();
double seconds_now();

/* Notes a failure and goes on. */
#define EXPECT(condition, ...) ((condition) || failed(__FILE__, __LINE__, #condition, "" __VA_ARGS__))
/* Notes a failure and ends the case. */
#define ASSERT(condition, ...)                              \
	do {                                                \
		if (!EXPECT(condition, __VA_ARGS__))        \
			throw Ended();                      \
	} while (0)
/* For calls of HIP: they have to succeed, or to answer `wanted`. */
#define HIP(call) hip_result(__FILE__, __LINE__, #call, (call), hipSuccess, true)
#define EXPECT_HIP(call, wanted) hip_result(__FILE__, __LINE__, #call, (call), (wanted), false)
void hip_result(const char *file, int line, const char *call, hipError_t got, hipError_t wanted, bool must);

int attribute(hipDeviceAttribute_t which);

/* `count` elements of device or pinned host memory. */
template <typename T> struct Device {
	T *at = nullptr;
	size_t count;

	explicit Device(size_t n) : count(n) { HIP(hipMalloc((void **)&at, n * sizeof(T))); }
	explicit Device(const std::vector<T> &from) : Device(from.size()) { put(from); }
	Device(const Device &) = delete;
	~Device() { (void)hipFree(at); }
	void put(const std::vector<T> &from) { HIP(hipMemcpy(at, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice)); }
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

	explicit Stream(unsigned int flags = hipStreamNonBlocking) { HIP(hipStreamCreateWithFlags(&at, flags)); }
	Stream(const Stream &) = delete;
	~Stream() { (void)hipStreamDestroy(at); }
	void wait() { HIP(hipStreamSynchronize(at)); }
};

struct Event {
	hipEvent_t at = nullptr;

	explicit Event(unsigned int flags = hipEventDefault) { HIP(hipEventCreateWithFlags(&at, flags)); }
	Event(const Event &) = delete;
	~Event() { (void)hipEventDestroy(at); }
};

/* After a launch: it was accepted, and all has run. */
void launched();

/* Compares `count` values with what `wanted(i)` says. */
template <typename T, typename F> void expect_all(const char *what, const T *got, size_t count, F wanted)
{
	size_t wrong = 0, first = 0;

	for (size_t i = 0; i < count; i++)
		if (!(got[i] == (T)wanted(i)) && !wrong++)
			first = i;
	EXPECT(!wrong, "%s: %zu of %zu wrong, the first is number %zu: %.17g, not %.17g", what, wrong, count, first,
	       (double)got[first], (double)(T)wanted(first));
}
template <typename T, typename F> void expect_all(const char *what, const std::vector<T> &got, F wanted)
{
	expect_all(what, got.data(), got.size(), wanted);
}

/* A number that depends on every bit of `x`: test data. */
__host__ __device__ static inline uint32_t mix(uint32_t x)
{
	x = (x ^ (x >> 16)) * 0x7feb352du;
	x = (x ^ (x >> 15)) * 0x846ca68bu;
	return x ^ (x >> 16);
}

/* What a helper is asked for, and what it says then. */
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

/* Another process of this program, with a HIP of its own. */
struct Helper {
	int pid = -1, orders = -1, errors = -1;

	Helper();
	Helper(const Helper &) = delete;
	~Helper();
	void order(const Order &order);
	/* Ends the case unless an answer comes, and notes what failed there. */
	void answer();
	/* Waits for its end; its status as waitpid has it, and what it wrote to its standard error. */
	int end(std::string *said);
};
/* The whole life of a helper, `fd` being where orders come from. */
int helper_main(int fd);

void copy_sizes(), copy_offsets(), copy_2d(), fill(), symbols(), host_register(), register_fork(), managed();
void lds(), dynamic_lds(), atomics(), atomics_lds(), atomics_host(), divergence(), grid3d(), last_block();
void scratch(), scratch_streams(), registers(), calls(), waves(), math(), half_floats(), integers(), cooperative(), groups();
void streams(), events(), ordering(), host_functions(), priorities(), launches();
void beyond_memory(), available(), pools(), virtual_memory();
void processes(), ipc_memory(), ipc_event(), fault_store(), fault_load();

#endif
