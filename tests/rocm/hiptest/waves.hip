// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests control flow and thread layout: divergence, 3D grids, inter-block synchronization, lanes of
 * a wave, cooperative groups; and arithmetic: integers, floats, doubles, halves.
 */
#include "hiptest.h"

#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>

#include <cmath>

namespace cg = cooperative_groups;

#define THREADS 256u

/*
 * Every control flow construct, diverging by lane: loops with different trip counts, break,
 * continue, switch, return.
 */
static __host__ __device__ uint32_t wander(uint32_t id)
{
	uint32_t n = id + 1, steps = 0;

	if (id % 17 == 3)
		return 7;
	while (n != 1) {
		n = n % 2 ? 3 * n + 1 : n / 2;
		if (++steps > 100)
			break;
		if (n % 5 == 0)
			continue;
		steps += n % 3 == 1;
	}
	switch (mix(id) % 6) {
	case 0:
		steps += 100;
		break;
	case 1:
		for (uint32_t i = 0; i < id % 7; i++)
			for (uint32_t j = i; j < 5; j++)
				steps += i * j;
		break;
	case 2:
		steps ^= id;
		/* fall through */
	case 3:
		steps *= 3;
		break;
	default:
		do {
			steps--;
		} while (steps % 4);
	}
	return steps;
}

static __global__ void wander_all(uint32_t *out, uint32_t count)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;

	if (id < count)
		out[id] = wander(id);
}

void divergence()
{
	const uint32_t count = 20 * THREADS - 77;
	Device<uint32_t> out(20 * THREADS);

	out.clear();
	wander_all<<<20, THREADS>>>(out.at, count);
	launched();
	expect_all("divergent ways", out.get(),
		   [=](size_t id) { return id < count ? wander((uint32_t)id) : 0; });
}

/* Each thread writes its coordinates. */
static __global__ void where(uint64_t *out, uint3 size)
{
	uint3 at = { blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
		     blockIdx.z * blockDim.z + threadIdx.z };

	if (at.x >= size.x || at.y >= size.y || at.z >= size.z)
		return;
	out[((uint64_t)at.z * size.y + at.y) * size.x + at.x] =
		(uint64_t)at.x << 40 | (uint64_t)at.y << 20 | at.z |
		(uint64_t)(gridDim.x + gridDim.y + gridDim.z) << 56;
}

void grid3d()
{
	static const uint3 sizes[] = {
		{ 56, 20, 6 }, { 33, 17, 5 }, { 1, 1, 70 }, { 3, 700, 1 }, { 1, 3, 4097 }
	};
	static const uint3 blocks[] = {
		{ 8, 4, 2 }, { 7, 5, 3 }, { 1, 1, 64 }, { 1, 256, 1 }, { 1, 2, 16 }
	};

	for (size_t i = 0; i < 5; i++) {
		uint3 n = sizes[i], b = blocks[i];
		dim3 grid((n.x + b.x - 1) / b.x, (n.y + b.y - 1) / b.y, (n.z + b.z - 1) / b.z);
		Device<uint64_t> out((size_t)n.x * n.y * n.z);

		out.clear();
		where<<<grid, dim3(b.x, b.y, b.z)>>>(out.at, n);
		launched();
		expect_all("grid of three dimensions", out.get(), [=](size_t at) {
			uint64_t x = at % n.x, y = at / n.x % n.y, z = at / n.x / n.y;
			return x << 40 | y << 20 | z | (uint64_t)(grid.x + grid.y + grid.z) << 56;
		});
	}
}

/* The last block sums the results of all others: fences between blocks have to hold. */
static __global__ void last_adds(const uint32_t *in, uint32_t *parts, uint32_t *counter,
				 uint32_t *out)
{
	__shared__ bool last;
	uint32_t sum = 0;

	atomicAdd(&parts[blockIdx.x], in[blockIdx.x * blockDim.x + threadIdx.x]);
	__threadfence();
	__syncthreads();
	if (!threadIdx.x)
		last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	for (uint32_t i = threadIdx.x; i < gridDim.x; i += blockDim.x)
		sum += parts[i];
	atomicAdd(out, sum);
}

void last_block()
{
	const uint32_t blocks = 100;
	std::vector<uint32_t> in(blocks * THREADS);
	uint32_t sum = 0;

	for (uint32_t i = 0; i < in.size(); i++)
		sum += in[i] = mix(i);
	Device<uint32_t> from(in), parts(blocks), counter(1), out(1);
	parts.clear();
	counter.clear();
	out.clear();
	last_adds<<<blocks, THREADS>>>(from.at, parts.at, counter.at, out.at);
	launched();
	EXPECT(out.get()[0] == sum, "%u, not %u", out.get()[0], sum);
	EXPECT(counter.get()[0] == 0);
}

struct Lanes {
	uint32_t up, down, across, from5;
	unsigned long long odd;
	int any, all, bits, first;
	double wide;
};

static __global__ void between_lanes(Lanes *out)
{
	uint32_t id = threadIdx.x, lane = id % warpSize, x = mix(id);
	Lanes l;

	l.up = __shfl_up(x, 3);
	l.down = __shfl_down(x, 7);
	l.across = __shfl_xor(x, 21);
	l.from5 = __shfl(x, 5);
	l.odd = __ballot(x & 1);
	l.any = __any(x % 64 == 1) != 0;
	l.all = __all(x != 12345) != 0;
	l.bits = __popcll(l.odd) + __clz((int)(x | 1)) + __ffs((int)x);
	l.first = __ffsll(l.odd) - 1;
	l.wide = __shfl((double)x * 0.25, (int)(lane ^ 1));
	out[id] = l;
}

void waves()
{
	Device<Lanes> out(THREADS);
	uint32_t width = (uint32_t)attribute(hipDeviceAttributeWarpSize);
	uint32_t wrong = 0;

	ASSERT(width == 64 || width == 32, "%u", width);
	between_lanes<<<1, THREADS>>>(out.at);
	launched();
	std::vector<Lanes> got = out.get();
	for (uint32_t id = 0; id < THREADS; id++) {
		uint32_t lane = id % width, base = id - lane, x = mix(id);
		unsigned long long odd = 0;
		int any = 0, all = 1, bits;

		for (uint32_t i = 0; i < width; i++) {
			odd |= (unsigned long long)(mix(base + i) & 1) << i;
			any |= mix(base + i) % 64 == 1;
			all &= mix(base + i) != 12345;
		}
		bits = __builtin_popcountll(odd) + __builtin_clz(x | 1) + __builtin_ffs((int)x);
		wrong += got[id].up != mix(lane < 3 ? id : id - 3) ||
			 got[id].down != mix(lane + 7 >= width ? id : id + 7) ||
			 got[id].across != mix(base + (lane ^ 21)) ||
			 got[id].from5 != mix(base + 5) || got[id].odd != odd ||
			 got[id].any != any || got[id].all != all || got[id].bits != bits ||
			 got[id].first != __builtin_ffsll((long long)odd) - 1 ||
			 got[id].wide != (double)mix(base + (lane ^ 1)) * 0.25;
	}
	EXPECT(!wrong, "%u of %u lanes wrong", wrong, THREADS);
}

#define FUNCTIONS 12
static __global__ void compute(const double *in, float *f, double *d)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
	double x = in[id];
	float y = (float)x;

	f += id * FUNCTIONS;
	d += id * FUNCTIONS;
	f[0] = sinf(y), f[1] = cosf(y), f[2] = expf(-y), f[3] = logf(y), f[4] = sqrtf(y),
	f[5] = powf(y, 1.5f);
	f[6] = erff(y), f[7] = tanhf(y), f[8] = atan2f(y, 2.0f), f[9] = 1.0f / y,
	f[10] = fmodf(y, 0.7f), f[11] = cbrtf(y);
	d[0] = sin(x), d[1] = cos(x), d[2] = exp(-x), d[3] = log(x), d[4] = sqrt(x),
	d[5] = pow(x, 1.5);
	d[6] = erf(x), d[7] = tanh(x), d[8] = atan2(x, 2.0), d[9] = 1.0 / x, d[10] = fmod(x, 0.7),
	d[11] = cbrt(x);
}

void math()
{
	static const char *const names[FUNCTIONS] = {
		"sin", "cos",  "exp",	"log", "sqrt", "pow",
		"erf", "tanh", "atan2", "1/x", "fmod", "cbrt"
	};
	const uint32_t count = 4 * 64;
	std::vector<double> in(count);

	/* Values that are exact in float, so that both widths compute the same. */
	for (uint32_t i = 0; i < count; i++)
		in[i] = (double)(mix(i) % 4096 + 1) / 128.0;
	Device<double> from(in), doubles(count * FUNCTIONS);
	Device<float> floats(count * FUNCTIONS);
	compute<<<4, 64>>>(from.at, floats.at, doubles.at);
	launched();
	std::vector<float> f = floats.get();
	std::vector<double> d = doubles.get();
	for (uint32_t which = 0; which < FUNCTIONS; which++) {
		double worst_f = 0, worst_d = 0;

		for (uint32_t i = 0; i < count; i++) {
			double x = in[i],
			       r[FUNCTIONS] = { sin(x),	       cos(x),	    exp(-x),	  log(x),
						sqrt(x),       pow(x, 1.5), erf(x),	  tanh(x),
						atan2(x, 2.0), 1.0 / x,	    fmod(x, 0.7), cbrt(x) };
			double scale = fmax(fabs(r[which]), 1e-3);

			/*
			 * The second argument is not exact in float: expect the float's own result.
			 */
			if (which == 10)
				r[which] = fmod(x, 0.7);
			worst_d = fmax(worst_d, fabs(d[i * FUNCTIONS + which] - r[which]) / scale);
			if (which == 10)
				r[which] = (double)fmodf((float)x, 0.7f);
			worst_f = fmax(worst_f,
				       fabs((double)f[i * FUNCTIONS + which] - r[which]) / scale);
		}
		EXPECT(worst_d < 1e-12, "%s of doubles is wrong by %g", names[which], worst_d);
		EXPECT(worst_f < 1e-5, "%s of floats is wrong by %g", names[which], worst_f);
	}
}

static __global__ void halves(const float *in, float *out, uint32_t count)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
	__half a = __float2half(in[id]), b = __float2half(in[(id + 1) % count]);
	__half2 pair = __hfma2(__halves2half2(a, b), __halves2half2(b, a), __halves2half2(a, a));

	out[2 * id] = __half2float(__hadd(a, b));
	out[2 * id + 1] = __low2float(pair) + __high2float(pair);
}

void half_floats()
{
	const uint32_t count = 256;
	std::vector<float> in(count);

	/* Small integers: every result is exact. */
	for (uint32_t i = 0; i < count; i++)
		in[i] = (float)(int)(mix(i) % 31) - 15.0f;
	Device<float> from(in), to(2 * count);
	halves<<<4, 64>>>(from.at, to.at, count);
	launched();
	expect_all("halves", to.get(), [&](size_t i) {
		float a = in[i / 2], b = in[(i / 2 + 1) % count];
		return i % 2 ? 2 * (a * b + a) : a + b;
	});
}

struct Whole {
	uint64_t quotient, rest, high, product;
	int64_t signed_quotient, signed_rest;
	uint32_t quotient32, rest32, high32, reversed;
	int32_t signed32;
};

static __host__ __device__ void divide(Whole *w, uint32_t id)
{
	uint64_t x = (uint64_t)mix(id) << 32 | mix(id + 1),
		 y = (uint64_t)mix(id + 2) >> id % 31 << id % 33 | 1;
	uint32_t a = (uint32_t)x, b = (uint32_t)(x >> 40) | 1, bits = 0;

	w->quotient = x / y;
	w->rest = x % y;
	w->high = (uint64_t)(((unsigned __int128)x * y) >> 64);
	w->product = x * y;
	w->signed_quotient = (int64_t)x / (int64_t)(y >> 1 | 1);
	w->signed_rest = (int64_t)x % (int64_t)(y >> 1 | 1);
	w->quotient32 = a / b;
	w->rest32 = a % b;
	w->high32 = (uint32_t)(((uint64_t)a * b) >> 32);
	for (uint32_t i = 0; i < 32; i++)
		bits |= (a >> i & 1) << (31 - i);
	w->reversed = bits;
	w->signed32 = (int32_t)a / (int32_t)b + ((int32_t)a >> b % 32);
}

static __global__ void divide_all(Whole *out)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;

	divide(&out[id], id);
}

void integers()
{
	Device<Whole> out(8 * 64);
	uint32_t wrong = 0;

	out.clear();
	divide_all<<<8, 64>>>(out.at);
	launched();
	std::vector<Whole> got = out.get();
	for (uint32_t id = 0; id < got.size(); id++) {
		Whole w;

		memset(&w, 0, sizeof(w));
		divide(&w, id);
		if (memcmp(&w, &got[id], sizeof(w)) && !wrong++)
			note("number %u: %#llx / .. = %#llx, not %#llx", id,
			     (unsigned long long)w.product, (unsigned long long)got[id].quotient,
			     (unsigned long long)w.quotient);
	}
	EXPECT(!wrong, "%u of %zu wrong", wrong, got.size());
}

static __global__ void group_sums(uint32_t *out)
{
	cg::thread_block block = cg::this_thread_block();
	cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
	uint32_t id = block.thread_rank(), sum = mix(id);

	for (uint32_t step = tile.size() / 2; step; step /= 2)
		sum += tile.shfl_xor(sum, step);
	if (id % 3 == 0) {
		cg::coalesced_group some = cg::coalesced_threads();
		sum += some.size();
	}
	block.sync();
	out[id] = sum;
}

/* Groups within a block, which need no driver support. */
void groups()
{
	Device<uint32_t> out(128);
	uint32_t width = (uint32_t)attribute(hipDeviceAttributeWarpSize);

	group_sums<<<1, 128>>>(out.at);
	launched();
	expect_all("sums of groups", out.get(), [=](size_t id) {
		uint32_t sum = 0, some = 0;
		for (uint32_t i = 0; i < 16; i++)
			sum += mix((uint32_t)(id / 16 * 16 + i));
		for (uint32_t i = 0; i < width; i++)
			some += (id / width * width + i) % 3 == 0;
		return sum + (id % 3 ? 0 : some);
	});
}

/* Each round reads what another block wrote in the previous round. */
static __global__ void around(uint32_t *a, uint32_t *b, uint32_t rounds)
{
	cg::grid_group grid = cg::this_grid();
	uint32_t id = (uint32_t)grid.thread_rank(), size = (uint32_t)grid.size();

	for (uint32_t i = 0; i < rounds; i++) {
		b[id] = a[(id + blockDim.x) % size] + i;
		grid.sync();
		uint32_t *t = a;
		a = b;
		b = t;
	}
}

void cooperative()
{
	const uint32_t blocks = 8, threads = 64, size = blocks * threads;
	std::vector<uint32_t> in(size), now, next(size);
	uint32_t rounds = 6;

	for (uint32_t i = 0; i < size; i++)
		in[i] = mix(i);
	Device<uint32_t> a(in), b(size);
	void *arguments[] = { &a.at, &b.at, &rounds };
	if (!attribute(hipDeviceAttributeCooperativeLaunch)) {
		hipError_t got = hipLaunchCooperativeKernel((const void *)around, dim3(blocks),
							    dim3(threads), arguments, 0, 0);

		(void)hipGetLastError();
		EXPECT(got != hipSuccess,
		       "a cooperative launch that the device does not advertise is accepted");
		throw Skipped{ "hipDeviceAttributeCooperativeLaunch is 0" };
	}
	HIP(hipLaunchCooperativeKernel((const void *)around, dim3(blocks), dim3(threads), arguments,
				       0, 0));
	launched();
	now = in;
	for (uint32_t i = 0; i < rounds; i++) {
		for (uint32_t id = 0; id < size; id++)
			next[id] = now[(id + threads) % size] + i;
		now.swap(next);
	}
	expect_all("cooperative grid", a.get(), [&](size_t i) { return now[i]; });
}
