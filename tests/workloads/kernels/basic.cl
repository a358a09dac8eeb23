// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// Kernels of the workloads. They use no device libraries: ids come from builtins, sizes from the
// dispatch packet, so that no kernel needs hidden arguments.

#define SYSTEM __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES
#define DEVICE __OPENCL_MEMORY_SCOPE_DEVICE
#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))

struct packet {
	ushort header, setup, group[3], reserved;
	uint grid[3];
};

static uint global_x(void)
{
	__constant struct packet *p = (__constant struct packet *)__builtin_amdgcn_dispatch_ptr();

	return __builtin_amdgcn_workgroup_id_x() * p->group[0] + __builtin_amdgcn_workitem_id_x();
}

static void barrier_all(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__kernel GROUP(256, 1, 1) void vecadd(__global const float *a, __global const float *b,
				      __global float *c)
{
	uint i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();

	c[i] = a[i] + b[i];
}

__kernel void copy(__global const uint *from, __global uint *to)
{
	uint i = global_x();

	to[i] = from[i];
}

__kernel void copy16(__global const uint4 *from, __global uint4 *to)
{
	uint i = global_x();

	to[i] = from[i];
}

__kernel void copy_bytes(__global const uchar *from, __global uchar *to)
{
	uint i = global_x();

	to[i] = from[i];
}

__kernel void fill(__global uint *to, uint value)
{
	to[global_x()] = value;
}

__kernel void scatter(__global uint *to, __global const uint *at)
{
	uint i = global_x();

	to[at[i]] = i + 1;
}

__kernel void saxpy(__global const float *x, __global float *y, float a)
{
	uint i = global_x();

	y[i] = a * x[i] + y[i];
}

// Tree reduction in LDS: one sum per workgroup.
__kernel GROUP(256, 1, 1) void reduce(__global const uint *in, __global uint *out)
{
	__local uint part[256];
	uint l = __builtin_amdgcn_workitem_id_x();
	uint g = __builtin_amdgcn_workgroup_id_x();

	part[l] = in[g * 256 + l];
	for (uint n = 128; n > 0; n >>= 1) {
		barrier_all();
		if (l < n)
			part[l] += part[l + n];
	}
	barrier_all();
	if (l == 0)
		out[g] = part[0];
}

// Reversal through LDS: work-item l writes slot l and reads slot 255 - l, across waves.
__kernel GROUP(256, 1, 1) void reverse(__global const uint *in, __global uint *out)
{
	__local uint part[256];
	uint l = __builtin_amdgcn_workitem_id_x();
	uint base = __builtin_amdgcn_workgroup_id_x() * 256;

	part[l] = in[base + l];
	barrier_all();
	out[base + l] = part[255 - l];
}

// A histogram, a maximum, a 64-bit sum, a count by compare-and-swap, a unique ticket per work-item.
__kernel void atomics(__global const uint *in, __global atomic_uint *bins,
		      __global atomic_uint *largest, __global atomic_ulong *sum,
		      __global atomic_uint *tally, __global atomic_uint *next,
		      __global uint *ticket)
{
	uint i = global_x();
	uint v = in[i];
	uint old;

	__opencl_atomic_fetch_add(&bins[v & 15], 1u, __ATOMIC_RELAXED, SYSTEM);
	__opencl_atomic_fetch_max(largest, v, __ATOMIC_RELAXED, SYSTEM);
	__opencl_atomic_fetch_add(sum, (ulong)v * 0x10001ul, __ATOMIC_RELAXED, SYSTEM);
	ticket[__opencl_atomic_fetch_add(next, 1u, __ATOMIC_RELAXED, SYSTEM)] = i;
	if (i % 16 == 0) {
		old = __opencl_atomic_load(tally, __ATOMIC_RELAXED, SYSTEM);
		while (!__opencl_atomic_compare_exchange_weak(
			tally, &old, old + 3, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SYSTEM))
			;
	}
}

// Nested divergent branches, and loops with different trip counts per work-item.
__kernel void divergent(__global const uint *in, __global uint *out)
{
	uint i = global_x();
	uint v = in[i];
	uint r = 0;

	if (v & 1) {
		if (v & 2)
			r = v * 3 + 1;
		else
			r = v ^ 0x5a5a5a5a;
		for (uint n = 0; n < (v & 31); n++) {
			if ((n ^ i) & 4)
				continue;
			r += n * n;
			if (r > 0xf0000000u)
				break;
		}
	} else {
		while (v > 1) {
			v = v & 1 ? v * 3 + 1 : v >> 1;
			r++;
			if (r > 200)
				break;
		}
	}
	out[i] = r;
}

// Uniform and nested loops, integer division by a value unknown to the compiler.
__kernel void loops(__global const uint *in, __global uint *out, uint rounds, uint divisor)
{
	uint i = global_x();
	uint r = in[i];

	for (uint n = 0; n < rounds; n++)
		for (uint m = 0; m <= n; m++)
			r = r * 1664525u + 1013904223u + m;
	out[i] = r / divisor + r % divisor;
}

// Each work-item of a 3D grid with partial workgroups writes its coordinates.
__kernel GROUP(8, 4, 2) void grid3d(__global uint *out)
{
	__constant struct packet *p = (__constant struct packet *)__builtin_amdgcn_dispatch_ptr();
	uint x = __builtin_amdgcn_workgroup_id_x() * 8 + __builtin_amdgcn_workitem_id_x();
	uint y = __builtin_amdgcn_workgroup_id_y() * 4 + __builtin_amdgcn_workitem_id_y();
	uint z = __builtin_amdgcn_workgroup_id_z() * 2 + __builtin_amdgcn_workitem_id_z();

	out[(z * p->grid[1] + y) * p->grid[0] + x] += x | y << 8 | z << 16 | 1u << 24;
}

// A private array that must be in scratch.
__kernel void scratch(__global const uint *in, __global uint *out)
{
	uint i = global_x();
	uint v = in[i];
	volatile uint mine[64];

	for (uint n = 0; n < 64; n++)
		mine[n] = v + n * 7;
	for (uint n = 0; n < 64; n++)
		mine[(n * 5 + v) & 63] ^= mine[n] << 1;
	uint r = 0;
	for (uint n = 0; n < 64; n++)
		r = r * 31 + mine[n];
	out[i] = r;
}

// Rounds in which all state is in registers and LDS: exchange across waves, divergence, 24 words
// per work-item that move on by one in each round.
__kernel GROUP(256, 1, 1) void mix(__global const uint *in, __global uint *out, uint rounds)
{
	__local uint part[256];
	uint l = __builtin_amdgcn_workitem_id_x();
	uint i = global_x();
	uint word[24];

	for (uint m = 0; m < 24; m++)
		word[m] = in[i] + m * 0x9e3779b9u;
	for (uint n = 0; n < rounds; n++) {
		uint last = word[23];

		part[l] = last;
		barrier_all();
		uint other = part[(l + 64 + n) & 255];
		barrier_all();
		if ((l ^ n) & 4)
			other = other << 7 | other >> 25;
#pragma unroll
		for (uint m = 23; m > 0; m--)
			word[m] = word[m - 1];
		word[0] = last * 1664525u + other;
	}
	uint r = 0;
	for (uint m = 0; m < 24; m++)
		r = r * 31 + word[m];
	out[i] = r;
}

// The same in scratch memory, without LDS.
__kernel void mix_private(__global const uint *in, __global uint *out, uint rounds)
{
	uint i = global_x();
	uint r = in[i];
	volatile uint word[16];

	for (uint m = 0; m < 16; m++)
		word[m] = r + m * 0x9e3779b9u;
	for (uint n = 0; n < rounds; n++) {
		r = r * 1664525u + word[(n + r) & 15];
		word[n & 15] = r;
	}
	out[i] = r ^ word[3];
}

// Spins until the host sets a flag.
__kernel GROUP(64, 1, 1) void endless(__global atomic_uint *started, __global atomic_uint *stop)
{
	if (__builtin_amdgcn_workitem_id_x() == 0)
		__opencl_atomic_fetch_add(started, 1u, __ATOMIC_RELAXED, SYSTEM);
	while (__opencl_atomic_load(stop, __ATOMIC_RELAXED, SYSTEM) == 0)
		__builtin_amdgcn_s_sleep(8);
}

// Answers each number that the host writes to word 0 by the same in word 1, until it is 0.
#define ECHO(name, scope)									\
	__kernel GROUP(64, 1, 1) void name(__global atomic_uint *words)				\
	{											\
		uint last = ~0u, now;								\
												\
		if (__builtin_amdgcn_workitem_id_x() != 0)					\
			return;									\
		while ((now = __opencl_atomic_load(&words[0], __ATOMIC_RELAXED, scope)) != 0) {	\
			if (now != last)							\
				__opencl_atomic_store(&words[1], now, __ATOMIC_RELAXED, scope);	\
			last = now;								\
			__builtin_amdgcn_s_sleep(8);						\
		}										\
	}

// Both accesses are coherent in the device only: the rest is up to the memory.
ECHO(echo, DEVICE)
// The same with the host, in any memory.
ECHO(echo_system, SYSTEM)

// Two kernels that differ in a constant only, for programs that replace their code.
#define CONSTANT(name, value)					\
	__kernel GROUP(64, 1, 1) void name(__global uint *to)	\
	{							\
		if (__builtin_amdgcn_workitem_id_x() == 0)	\
			*to = value;				\
	}

CONSTANT(constant_1, 0x1111u)
CONSTANT(constant_2, 0x2222u)

// Each work-item of workgroup 0 loads a word and asks its partner in workgroup 1 for another value,
// which it loads when the partner has answered: `rounds` times. Counts the values that were wrong.
__kernel GROUP(64, 1, 1) void handover(__global uint *words, __global atomic_uint *flags, uint rounds)
{
	uint l = __builtin_amdgcn_workitem_id_x();
	__global atomic_uint *asked = &flags[l], *answered = &flags[64 + l], *wrong = &flags[128];
	uint last = 0;

	for (uint n = 1; n <= rounds; n++) {
		if (__builtin_amdgcn_workgroup_id_x() == 0) {
			if (words[l] != last)
				__opencl_atomic_fetch_add(wrong, 1u, __ATOMIC_RELAXED, DEVICE);
			__opencl_atomic_store(asked, n, __ATOMIC_RELEASE, DEVICE);
			while (__opencl_atomic_load(answered, __ATOMIC_ACQUIRE, DEVICE) != n)
				__builtin_amdgcn_s_sleep(1);
			last = n * 1000 + l;
			if (words[l] != last)
				__opencl_atomic_fetch_add(wrong, 1u, __ATOMIC_RELAXED, DEVICE);
		} else {
			while (__opencl_atomic_load(asked, __ATOMIC_ACQUIRE, DEVICE) != n)
				__builtin_amdgcn_s_sleep(1);
			words[l] = n * 1000 + l;
			__opencl_atomic_store(answered, n, __ATOMIC_RELEASE, DEVICE);
		}
	}
}

// Adds the words of a buffer.
__kernel GROUP(64, 1, 1) void total(__global const uint *words, __global uint *sum, uint count)
{
	uint all = 0;

	if (__builtin_amdgcn_workitem_id_x() != 0)
		return;
	for (uint i = 0; i < count; i++)
		all += words[i];
	*sum = all;
}

// Spins until a flag is set, by the host or another kernel, and sets one itself.
__kernel GROUP(64, 1, 1) void relay(__global atomic_uint *started, __global atomic_uint *wait,
				    __global atomic_uint *set)
{
	if (__builtin_amdgcn_workitem_id_x() != 0)
		return;
	__opencl_atomic_fetch_add(started, 1u, __ATOMIC_RELAXED, SYSTEM);
	while (__opencl_atomic_load(wait, __ATOMIC_ACQUIRE, SYSTEM) == 0)
		__builtin_amdgcn_s_sleep(8);
	__opencl_atomic_store(set, 1u, __ATOMIC_RELEASE, SYSTEM);
}

// Spins until the host sets a flag. Logs each interval of at least `gap` ticks of the GPU clock
// between two looks at it, in which the wave was not resident: begin, end, queue. Leaves a number
// that depends on all rounds, and their count.
__kernel GROUP(64, 1, 1) void turns(__global atomic_uint *stop, __global atomic_uint *logged,
				    __global ulong *log, __global uint *out, uint most, uint gap,
				    uint queue)
{
	uint l = __builtin_amdgcn_workitem_id_x();
	uint r = queue * 64 + l;
	uint rounds = 0;
	ulong last = __builtin_readsteadycounter();

	do {
		__builtin_amdgcn_s_sleep(8);
		ulong now = __builtin_readsteadycounter();

		if (l == 0 && now - last >= gap) {
			uint at = __opencl_atomic_fetch_add(logged, 1u, __ATOMIC_RELAXED, SYSTEM);

			if (at < most) {
				log[at * 3] = last;
				log[at * 3 + 1] = now;
				log[at * 3 + 2] = queue;
			}
		}
		last = now;
		r = r * 1664525u + 1013904223u;
		rounds++;
	} while (__opencl_atomic_load(stop, __ATOMIC_RELAXED, SYSTEM) == 0);
	out[l] = r;
	out[64 + l] = rounds;
}

// One store to an address given by the host, for memory faults.
__kernel GROUP(64, 1, 1) void poke(__global uint *where, uint value)
{
	if (__builtin_amdgcn_workitem_id_x() == 0)
		*where = value;
}

// One store of 64 bits to an address given by the host, for doorbells.
__kernel GROUP(64, 1, 1) void poke64(__global atomic_ulong *where, ulong value)
{
	if (__builtin_amdgcn_workitem_id_x() == 0)
		__opencl_atomic_store(where, value, __ATOMIC_RELEASE, SYSTEM);
}

// An illegal instruction.
__kernel GROUP(64, 1, 1) void illegal(__global uint *out)
{
	if (__builtin_amdgcn_workitem_id_x() == 0)
		out[0] = 1;
	__asm__ volatile(".long 0xffffffff");
	out[1] = 1;
}

// Stores where each workgroup ran: HW_ID of gfx942, HW_ID1 of gfx1201.
__kernel GROUP(64, 1, 1) void hw_id(__global uint *out)
{
#ifdef __gfx1201__
	uint id = __builtin_amdgcn_s_getreg(23 | 31 << 11);
#else
	uint id = __builtin_amdgcn_s_getreg(4 | 31 << 11);
#endif

	if (__builtin_amdgcn_workitem_id_x() == 0)
		out[__builtin_amdgcn_workgroup_id_x()] = id;
}

// Returns XCC_ID, which gfx1201 does not have.
static uint this_xcc(void)
{
#ifdef __gfx1201__
	return 0;
#else
	/* Bits 3:0. */
	return __builtin_amdgcn_s_getreg(20 | 3 << 11);
#endif
}

// Stores the XCC on which each workgroup ran.
__kernel GROUP(64, 1, 1) void xcc_id(__global uint *out)
{
	uint id = this_xcc();

	if (__builtin_amdgcn_workitem_id_x() == 0)
		out[__builtin_amdgcn_workgroup_id_x()] = id;
}

// Stores one word as read by each workgroup, and the XCC on which it ran.
__kernel GROUP(64, 1, 1) void read_on_xcc(__global const uint *from, __global uint2 *out)
{
	uint id = this_xcc();

	if (__builtin_amdgcn_workitem_id_x() == 0)
		out[__builtin_amdgcn_workgroup_id_x()] = (uint2)(*from, id);
}

// Spins on one XCC until the host sets a flag; workgroups on other XCCs end.
__kernel GROUP(64, 1, 1) void endless_on_xcc(__global atomic_uint *started,
					     __global atomic_uint *stop, uint xcc)
{
	if (this_xcc() != xcc)
		return;
	if (__builtin_amdgcn_workitem_id_x() == 0)
		__opencl_atomic_fetch_add(started, 1u, __ATOMIC_RELAXED, SYSTEM);
	while (__opencl_atomic_load(stop, __ATOMIC_RELAXED, SYSTEM) == 0)
		__builtin_amdgcn_s_sleep(8);
}
