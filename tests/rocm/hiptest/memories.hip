// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests kernels and memory types: static and dynamic LDS; atomics on LDS, VRAM and host memory;
 * scratch, from small arrays to register spills; the call stack.
 */
#include "hiptest.h"

#include <algorithm>

#define THREADS 256u

static __global__ void sum_blocks(const uint32_t *in, uint32_t *out)
{
	__shared__ uint32_t part[THREADS];

	part[threadIdx.x] = in[blockIdx.x * THREADS + threadIdx.x];
	for (uint32_t half = THREADS / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
	}
	if (!threadIdx.x)
		out[blockIdx.x] = part[0];
}

/* All LDS of a workgroup; each word is written by one thread and read by another. */
static __global__ void all_lds(uint32_t *out)
{
	__shared__ uint32_t words[16384];

	for (uint32_t i = threadIdx.x; i < 16384; i += blockDim.x)
		words[i] = mix(i + blockIdx.x);
	__syncthreads();
	uint32_t sum = 0;
	for (uint32_t i = threadIdx.x; i < 16384; i += blockDim.x)
		sum += words[16383 - i] * (i + 1);
	out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* Transposes through LDS, in bytes, halves and words: every width of ds_read and ds_write. */
template <typename T> static __global__ void transpose(const T *in, T *out)
{
	__shared__ T tile[32][33];
	uint32_t x = threadIdx.x, y = threadIdx.y;

	tile[y][x] = in[y * 32 + x];
	__syncthreads();
	out[y * 32 + x] = tile[x][y];
}

template <typename T> static void check_transpose(const char *what)
{
	std::vector<T> in(1024);

	for (uint32_t i = 0; i < 1024; i++)
		in[i] = (T)mix(i);
	Device<T> from(in), to(1024);
	transpose<T><<<1, dim3(32, 32)>>>(from.at, to.at);
	launched();
	expect_all(what, to.get(), [&](size_t i) { return in[i % 32 * 32 + i / 32]; });
}

void lds()
{
	std::vector<uint32_t> in(64 * THREADS);

	for (uint32_t i = 0; i < in.size(); i++)
		in[i] = mix(i);
	Device<uint32_t> from(in), to(64), all(8 * THREADS);
	sum_blocks<<<64, THREADS>>>(from.at, to.at);
	launched();
	expect_all("sum of a block", to.get(), [&](size_t block) {
		uint32_t sum = 0;
		for (size_t i = 0; i < THREADS; i++)
			sum += in[block * THREADS + i];
		return sum;
	});
	all_lds<<<8, THREADS>>>(all.at);
	launched();
	expect_all("64 KiB of LDS", all.get(), [&](size_t thread) {
		uint32_t sum = 0;
		for (uint32_t i = thread % THREADS; i < 16384; i += THREADS)
			sum += mix(16383 - i + (uint32_t)(thread / THREADS)) * (i + 1);
		return sum;
	});
	check_transpose<uint8_t>("transpose of bytes");
	check_transpose<uint16_t>("transpose of halves");
	check_transpose<uint32_t>("transpose of words");
	check_transpose<uint64_t>("transpose of double words");
	check_transpose<double>("transpose of doubles");
}

static __global__ void reverse(uint32_t *data, uint32_t words)
{
	extern __shared__ uint32_t dynamic[];

	for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
		dynamic[i] = data[blockIdx.x * words + i];
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
		data[blockIdx.x * words + i] = dynamic[words - 1 - i];
}

void dynamic_lds()
{
	static const uint32_t sizes[] = { 4, 512, 1 << 10, 20 << 10, 64 << 10 };

	for (uint32_t bytes : sizes) {
		uint32_t words = bytes / 4;
		std::vector<uint32_t> in(words * 5);

		for (uint32_t i = 0; i < in.size(); i++)
			in[i] = mix(i + bytes);
		Device<uint32_t> data(in);
		reverse<<<5, THREADS, bytes>>>(data.at, words);
		launched();
		expect_all("reversed by dynamic LDS", data.get(),
			   [&](size_t i) { return in[i / words * words + words - 1 - i % words]; });
	}
}

/* The results do not depend on the order of threads. */
struct Sums {
	uint32_t added, subtracted, incremented, swapped, ored, anded, xored, umin, umax, looped;
	int32_t imin, imax;
	unsigned long long added64, looped64, min64, max64;
	float addedf;
	double addedd;
};

static __device__ void use_atomics(Sums *s, uint32_t id)
{
	uint32_t x = mix(id), old, seen;
	unsigned long long old64, seen64;

	atomicAdd(&s->added, x);
	atomicSub(&s->subtracted, x);
	atomicInc(&s->incremented, 1000);
	/*
	 * Each thread exchanges a value for its own: the sum of all returned values and the last
	 * one is known.
	 */
	atomicAdd(&s->added, atomicExch(&s->swapped, id));
	atomicOr(&s->ored, 1u << (x % 32));
	atomicAnd(&s->anded, ~(1u << (id % 7)));
	atomicXor(&s->xored, x);
	atomicMin(&s->umin, x);
	atomicMax(&s->umax, x);
	atomicMin(&s->imin, (int32_t)x);
	atomicMax(&s->imax, (int32_t)x);
	atomicAdd(&s->added64, (unsigned long long)x << 20);
	atomicMin(&s->min64, (unsigned long long)x << 20);
	atomicMax(&s->max64, (unsigned long long)x << 20);
	atomicAdd(&s->addedf, 1.0f);
	atomicAdd(&s->addedd, 0.5);
	old = s->looped;
	do {
		seen = old;
		old = atomicCAS(&s->looped, seen, seen + 3);
	} while (old != seen);
	old64 = s->looped64;
	do {
		seen64 = old64;
		old64 = atomicCAS(&s->looped64, seen64, seen64 + (1ull << 33));
	} while (old64 != seen64);
}

static Sums sums_start()
{
	Sums s = {};

	s.anded = s.umin = UINT32_MAX;
	s.imin = INT32_MAX;
	s.imax = INT32_MIN;
	s.min64 = UINT64_MAX;
	return s;
}

static void check_sums(Sums got, uint32_t threads)
{
	Sums w = sums_start();
	uint32_t xs = 0, ids = 0;

	for (uint32_t id = 0; id < threads; id++) {
		uint32_t x = mix(id);

		xs += x;
		ids += id;
		w.ored |= 1u << (x % 32);
		w.anded &= ~(1u << (id % 7));
		w.xored ^= x;
		w.umin = std::min(w.umin, x);
		w.umax = std::max(w.umax, x);
		w.imin = std::min(w.imin, (int32_t)x);
		w.imax = std::max(w.imax, (int32_t)x);
		w.added64 += (unsigned long long)x << 20;
		w.min64 = std::min(w.min64, (unsigned long long)x << 20);
		w.max64 = std::max(w.max64, (unsigned long long)x << 20);
	}
	EXPECT(got.added + got.swapped == xs + ids, "%u + %u", got.added, got.swapped);
	EXPECT(got.subtracted == 0u - xs, "%u", got.subtracted);
	EXPECT(got.incremented == threads % 1001, "%u", got.incremented);
	EXPECT(got.ored == w.ored && got.anded == w.anded && got.xored == w.xored, "%#x %#x %#x",
	       got.ored, got.anded, got.xored);
	EXPECT(got.umin == w.umin && got.umax == w.umax, "%u %u", got.umin, got.umax);
	EXPECT(got.imin == w.imin && got.imax == w.imax, "%d %d", got.imin, got.imax);
	EXPECT(got.added64 == w.added64, "%llu", got.added64);
	EXPECT(got.min64 == w.min64 && got.max64 == w.max64, "%llu %llu", got.min64, got.max64);
	EXPECT(got.addedf == (float)threads, "%g", (double)got.addedf);
	EXPECT(got.addedd == 0.5 * threads, "%g", got.addedd);
	EXPECT(got.looped == 3 * threads, "%u", got.looped);
	EXPECT(got.looped64 == (unsigned long long)threads << 33, "%llu", got.looped64);
}

static __global__ void atomics_global(Sums *s)
{
	use_atomics(s, blockIdx.x * blockDim.x + threadIdx.x);
}

static __global__ void atomics_shared(Sums *out, Sums start)
{
	__shared__ Sums s;

	if (!threadIdx.x)
		s = start;
	__syncthreads();
	use_atomics(&s, threadIdx.x);
	__syncthreads();
	if (!threadIdx.x)
		out[blockIdx.x] = s;
}

void atomics()
{
	std::vector<Sums> start(1, sums_start());
	Device<Sums> sums(start);

	atomics_global<<<24, 128>>>(sums.at);
	launched();
	check_sums(sums.get()[0], 24 * 128);
}

void atomics_lds()
{
	Device<Sums> sums(3);

	atomics_shared<<<3, THREADS>>>(sums.at, sums_start());
	launched();
	for (const Sums &s : sums.get())
		check_sums(s, THREADS);
}

static __global__ void count_with_host(uint32_t *word, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++)
		atomicAdd_system(word, 1);
}

/* On host memory, with concurrent CPU atomics on the same word. */
void atomics_host()
{
	Pinned<Sums> sums(1, hipHostMallocMapped | hipHostMallocCoherent);
	Pinned<uint32_t> word(1, hipHostMallocMapped | hipHostMallocCoherent);
	const uint32_t mine = 20000, theirs = 64 * 4 * 10;

	sums[0] = sums_start();
	atomics_global<<<4, 64>>>(sums.at);
	launched();
	check_sums(sums[0], 4 * 64);
	word[0] = 0;
	count_with_host<<<4, 64>>>(word.at, 10);
	for (uint32_t i = 0; i < mine; i++)
		__atomic_fetch_add(word.at, 1, __ATOMIC_RELAXED);
	launched();
	EXPECT(word[0] == mine + theirs, "%u, not %u", word[0], mine + theirs);
}

/* A per-thread array with an index unknown to the compiler: placed in scratch. */
template <uint32_t WORDS> static __global__ void array_of_each(const uint32_t *order, uint32_t *out)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x, mine[WORDS], sum = 0;

	for (uint32_t i = 0; i < WORDS; i++)
		mine[order[i]] = mix(id + i);
	for (uint32_t i = 0; i < WORDS; i++)
		sum = sum * 31 + mine[WORDS - 1 - i];
	out[id] = sum;
}

template <uint32_t WORDS>
static void check_array(hipStream_t stream, uint32_t blocks, uint32_t threads)
{
	std::vector<uint32_t> order(WORDS);

	/* A permutation: odd numbers have an inverse modulo a power of two. */
	for (uint32_t i = 0; i < WORDS; i++)
		order[i] = i * 5 % WORDS;
	Device<uint32_t> indices(order), out(blocks * threads);
	array_of_each<WORDS><<<blocks, threads, 0, stream>>>(indices.at, out.at);
	HIP(hipGetLastError());
	HIP(hipStreamSynchronize(stream));
	std::vector<uint32_t> got = out.get(), at(WORDS);
	for (uint32_t i = 0; i < WORDS; i++)
		at[order[i]] = i;
	expect_all("array of each thread", got, [&](size_t id) {
		uint32_t sum = 0;
		for (uint32_t i = 0; i < WORDS; i++)
			sum = sum * 31 + mix((uint32_t)id + at[WORDS - 1 - i]);
		return sum;
	});
}

/* Small, larger, small again: the queue's scratch must grow and work for each size. */
void scratch()
{
	check_array<64>(0, 8, 64);
	check_array<512>(0, 4, 128);
	check_array<64>(0, 8, 64);
	check_array<4096>(0, 2, 64);
	check_array<1024>(0, 16, THREADS);
}

void scratch_streams()
{
	Stream a, b;

	check_array<256>(a.at, 4, 64);
	check_array<2048>(b.at, 4, 64);
	check_array<256>(a.at, 4, 64);
	check_array<64>(b.at, 4, 64);
}

/* More live values than registers per thread at this block size: the compiler spills. */
#define ALIVE 192
static __global__ __launch_bounds__(1024) void many_values(const uint32_t *in, uint32_t *out)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x, v[ALIVE], sum = 0;

#pragma unroll
	for (uint32_t i = 0; i < ALIVE; i++)
		v[i] = in[i] + id;
	for (uint32_t round = 0; round < 3; round++) {
#pragma unroll
		for (uint32_t i = 0; i < ALIVE; i++)
			v[i] = v[i] * 3 + v[(i + 77) % ALIVE];
	}
#pragma unroll
	for (uint32_t i = 0; i < ALIVE; i++)
		sum ^= v[i];
	out[id] = sum;
}

void registers()
{
	std::vector<uint32_t> in(ALIVE);
	hipFuncAttributes about;

	for (uint32_t i = 0; i < ALIVE; i++)
		in[i] = mix(i);
	HIP(hipFuncGetAttributes(&about, (const void *)many_values));
	note("%d registers, %zu bytes of scratch for each thread", about.numRegs,
	     about.localSizeBytes);
	EXPECT(about.localSizeBytes, "no spills: nothing tested");
	Device<uint32_t> from(in), out(2 * 1024);
	many_values<<<2, 1024>>>(from.at, out.at);
	launched();
	expect_all("spilled values", out.get(), [&](size_t id) {
		uint32_t v[ALIVE], sum = 0;
		for (uint32_t i = 0; i < ALIVE; i++)
			v[i] = in[i] + (uint32_t)id;
		for (uint32_t round = 0; round < 3; round++)
			for (uint32_t i = 0; i < ALIVE; i++)
				v[i] = v[i] * 3 + v[(i + 77) % ALIVE];
		for (uint32_t i = 0; i < ALIVE; i++)
			sum ^= v[i];
		return sum;
	});
}

typedef uint32_t (*Function)(uint32_t);

static __host__ __device__ __attribute__((noinline)) uint32_t twice(uint32_t x)
{
	return 2 * x;
}
static __host__ __device__ __attribute__((noinline)) uint32_t square(uint32_t x)
{
	return x * x;
}
static __host__ __device__ __attribute__((noinline)) uint32_t fibonacci(uint32_t n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static __global__ void recurse(uint32_t *out)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;

	out[id] = fibonacci(id % 9);
}

static __global__ void call_them(uint32_t *out)
{
	static Function const table[] = { twice, square, mix };
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;

	out[id] = table[id % 3](id) + fibonacci(id % 9);
}

/* Returns whether the PCIe link supports atomics on host memory, according to the topology. */
static bool link_has_atomics()
{
	return !(topology("io_links/0/properties", "flags") & 0xc);
}

/* Recursion and divergent function pointers: a stack of unknown size. */
void calls()
{
	Device<uint32_t> out(4 * 64);

	out.clear();
	recurse<<<4, 64>>>(out.at);
	launched();
	expect_all("recursion", out.get(), [](size_t id) { return fibonacci((uint32_t)id % 9); });
	/*
	 * An unknown function might call printf, which HIP implements with atomics on host memory.
	 */
	if (!link_has_atomics())
		throw Skipped{
			"recursion works; HIP runs no kernels with function pointers without PCIe atomics"
		};
	call_them<<<4, 64>>>(out.at);
	launched();
	expect_all("called functions", out.get(), [](size_t i) {
		uint32_t id = (uint32_t)i, x = id % 3 == 0 ? twice(id) :
					       id % 3 == 1 ? square(id) :
							     mix(id);
		return x + fibonacci(id % 9);
	});
}
