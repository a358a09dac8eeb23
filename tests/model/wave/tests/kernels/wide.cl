// SPDX-License-Identifier: GPL-2.0 OR MIT

// Kernels for further instructions that clang emits: wide integers, division, f64, f16, vectors,
// calls, lane operations, atomics. No device library: builtins only.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable

#define WAVE __AMDGCN_WAVEFRONT_SIZE__
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

static void sync(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

kernel void int64(global const ulong *a, global const ulong *b, global ulong *out, uint n)
{
	uint i = ID;
	ulong x = a[i], y = b[i] | 1;
	long sx = x, sy = y;

	out[i] = x * y;
	out[i + n] = x / y;
	out[i + 2 * n] = x % y;
	out[i + 3 * n] = sx / (sy >> 33 | 1);
	out[i + 4 * n] = (x << (y & 63)) ^ (sx >> (x & 63)) ^ (x >> 7);
	out[i + 5 * n] = __builtin_popcountl(x) + 100 * __builtin_clzl(y) + 10000 * __builtin_ctzl(y);
	out[i + 6 * n] = sx < sy ? x - y : x + y;
}

kernel void int32(global const uint *a, global const uint *b, global uint *out, uint n)
{
	uint i = ID;
	uint x = a[i], y = b[i] | 1;
	int sx = x, sy = y;

	out[i] = x / y;
	out[i + n] = x % (y & 0xff);
	out[i + 2 * n] = sy == -1 ? 0 : sx / sy;
	out[i + 3 * n] = ((ulong)x * y) >> 32;
	out[i + 4 * n] = x / 7 + sx % 10;
	out[i + 5 * n] = (x >> 3 & 0xff) | (y << 24);
	out[i + 6 * n] = x << (y & 31) | x >> (32 - (y & 31) & 31);
	switch (x & 7) {
	case 0: out[i + 7 * n] = y * 3; break;
	case 1: out[i + 7 * n] = y + 5; break;
	case 2: out[i + 7 * n] = y ^ 9; break;
	case 5: out[i + 7 * n] = y >> 2; break;
	default: out[i + 7 * n] = ~y; break;
	}
}

kernel void floats(global const float *a, global const float *b, global float *out, uint n)
{
	uint i = ID;
	float x = a[i], y = b[i];

	out[i] = x / y;
	out[i + n] = __builtin_sqrtf(__builtin_fabsf(x));
	out[i + 2 * n] = __builtin_floorf(x) + __builtin_ceilf(y);
	out[i + 3 * n] = __builtin_fminf(x, y) - __builtin_fmaxf(x, 1.0f);
	out[i + 4 * n] = (float)(int)x + (float)(uint)__builtin_fabsf(y);
	out[i + 5 * n] = __builtin_truncf(x) * __builtin_rintf(y);
	out[i + 6 * n] = x > y ? x : -y;
	out[i + 7 * n] = (float)(long)x + (float)(ulong)__builtin_fabsf(y);
}

kernel void doubles(global const double *a, global const double *b, global double *out, uint n)
{
	uint i = ID;
	double x = a[i], y = b[i];

	out[i] = x / y;
	out[i + n] = __builtin_sqrt(__builtin_fabs(x));
	out[i + 2 * n] = __builtin_floor(x) + __builtin_ceil(y);
	out[i + 3 * n] = __builtin_fma(x, y, 1.0);
	out[i + 4 * n] = (double)(int)x - (double)(float)y;
	out[i + 5 * n] = (double)(long)x + (double)(ulong)__builtin_fabs(y);
	out[i + 6 * n] = __builtin_fmin(x, y) * __builtin_fmax(x, y);
}

kernel void halves(global const half *a, global const half *b, global half *out, uint n)
{
	uint i = ID;
	half x = a[i], y = b[i];

	out[i] = x + y;
	out[i + n] = x * y;
	out[i + 2 * n] = (half)((float)x + 1.0f);
	out[i + 3 * n] = x > y ? x : y;
	out[i + 4 * n] = (half)(short)x;
	out[i + 5 * n] = x / y;
}

kernel void half2s(global const half2 *a, global const half2 *b, global half2 *out, uint n)
{
	uint i = ID;

	out[i] = a[i] + b[i];
	out[i + n] = a[i] * b[i] + a[i];
}

kernel void vectors(global const float4 *a, global const float4 *b, global float4 *out,
		    global const uchar4 *c, global short4 *d, global long2 *e)
{
	uint i = ID;
	float4 x = a[i] * b[i] + a[i].wzyx;
	uchar4 v = c[i];

	out[i] = x.yxwz;
	d[i] = (short4)(v.x, v.y, v.z, v.w) * (short4)(3, -4, 5, -6);
	e[i] = (long2)((long)v.x << 40, -(long)v.y);
}

__attribute__((noinline)) static uint mix(uint a, uint b, uint depth)
{
	uint t[8];

	for (uint k = 0; k < 8; k++)
		t[k] = a * (k + depth) + b;
	return t[(a ^ b) & 7] ^ (b >> 3);
}

kernel void calls(global const uint *a, global uint *out)
{
	uint i = ID;
	uint v = a[i];

	for (uint k = 0; k < 5; k++)
		v = mix(v, i, k);
	out[i] = v;
}

// Lane operations: prefix sum by DPP, rotation by bpermute, ballot, broadcast.
kernel void lanes(global const uint *a, global uint *out, uint n)
{
	uint i = ID;
	uint lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
	uint v = a[i];
	uint s = v;

	s += __builtin_amdgcn_update_dpp(0, s, 0x111, 0xf, 0xf, true);
	s += __builtin_amdgcn_update_dpp(0, s, 0x112, 0xf, 0xf, true);
	s += __builtin_amdgcn_update_dpp(0, s, 0x114, 0xf, 0xf, true);
	s += __builtin_amdgcn_update_dpp(0, s, 0x118, 0xf, 0xf, true);
#ifdef __gfx942__
	s += __builtin_amdgcn_update_dpp(0, s, 0x142, 0xa, 0xf, false);
	s += __builtin_amdgcn_update_dpp(0, s, 0x143, 0xc, 0xf, false);
#else
	// DPP does not cross rows.
	for (uint row = 16; row < WAVE; row += 16) {
		uint last = __builtin_amdgcn_readlane(s, row - 1);

		s += lane / 16 == row / 16 ? last : 0;
	}
#endif
	out[i] = s;
	out[i + n] = __builtin_amdgcn_ds_bpermute(((lane + 5) & (WAVE - 1)) * 4, v);
#if WAVE == 64
	ulong odd = __builtin_amdgcn_ballot_w64(v & 1);
#else
	ulong odd = __builtin_amdgcn_ballot_w32(v & 1);
#endif
	out[i + 2 * n] = __builtin_popcountl(odd & ((1ul << lane) - 1));
	out[i + 3 * n] = __builtin_amdgcn_readfirstlane(v) ^ __builtin_amdgcn_readlane(v, 17);
	out[i + 4 * n] = __builtin_amdgcn_ds_swizzle(v, 0x041f);
	if (v & 2)
		out[i + 5 * n] = __builtin_amdgcn_readfirstlane(i) + 1;
	else
		out[i + 5 * n] = 0;
}

kernel void atomic_kinds(global const uint *a, volatile global uint *u, volatile global ulong *q,
			 global double *sum)
{
	uint v = a[ID];

	__opencl_atomic_fetch_min((volatile global atomic_uint *)&u[0], v, memory_order_relaxed,
				  memory_scope_device);
	__opencl_atomic_fetch_max((volatile global atomic_int *)&u[1], (int)v, memory_order_relaxed,
				  memory_scope_device);
	__opencl_atomic_fetch_or((volatile global atomic_uint *)&u[2], v & 0xf0f0,
				 memory_order_relaxed, memory_scope_device);
	__opencl_atomic_fetch_xor((volatile global atomic_uint *)&u[3], v, memory_order_seq_cst,
				  memory_scope_all_svm_devices);
	__opencl_atomic_fetch_add((volatile global atomic_ulong *)q, (ulong)v << 4,
				  memory_order_acq_rel, memory_scope_device);
	// Multiplies by compare-and-swap.
	uint old = u[4];

	while (!__opencl_atomic_compare_exchange_weak((volatile global atomic_uint *)&u[4], &old,
						      old * (v | 1), memory_order_relaxed,
						      memory_order_relaxed, memory_scope_device))
		;
#ifdef __gfx942__
	__builtin_amdgcn_global_atomic_fadd_f64(sum, (double)(v & 0xff));
#else
	// Not available on gfx1201.
	union { double f; ulong q; } was = { *sum }, is;

	do
		is.f = was.f + (double)(v & 0xff);
	while (!__opencl_atomic_compare_exchange_weak((volatile global atomic_ulong *)sum, &was.q,
						      is.q, memory_order_relaxed,
						      memory_order_relaxed, memory_scope_device));
#endif
}

// Transposes 16x16 tiles through LDS.
kernel void transpose(global const ulong *in, global ulong *out)
{
	local ulong tile[16][17];
	uint l = __builtin_amdgcn_workitem_id_x(), g = __builtin_amdgcn_workgroup_id_x();
	uint x = l & 15, y = l >> 4;

	for (uint k = 0; k < 16; k += 4)
		tile[y + k][x] = in[g * 256 + (y + k) * 16 + x];
	sync();
	for (uint k = 0; k < 16; k += 4)
		out[g * 256 + (y + k) * 16 + x] = tile[x][y + k];
}

// Sorts in LDS: many barriers, divergence.
kernel void sort(global uint *data)
{
	local uint v[512];
	uint l = __builtin_amdgcn_workitem_id_x();

	data += __builtin_amdgcn_workgroup_id_x() * 512;
	v[l] = data[l];
	v[l + 256] = data[l + 256];
	sync();
	for (uint size = 2; size <= 512; size *= 2) {
		for (uint stride = size / 2; stride; stride /= 2) {
			uint i = 2 * l - (l & (stride - 1));
			uint j = i + stride;
			uint up = (i & size) == 0;
			uint a = v[i], b = v[j];

			if ((a > b) == up) {
				v[i] = b;
				v[j] = a;
			}
			sync();
		}
	}
	data[l] = v[l];
	data[l + 256] = v[l + 256];
}

// Stores fields of the dispatch packet and ids of the wave.
kernel void self(global uint *out)
{
	const constant uint *packet = (const constant uint *)__builtin_amdgcn_dispatch_ptr();
	uint i = ID;

	out[8 * i] = packet[1] & 0xffff;
	out[8 * i + 1] = packet[3];
	out[8 * i + 2] = packet[4];
	out[8 * i + 3] = __builtin_amdgcn_workgroup_id_x();
#ifdef __gfx942__
	out[8 * i + 4] = __builtin_amdgcn_s_memrealtime() != 0;
	out[8 * i + 5] = __builtin_amdgcn_s_getreg(20 | 3 << 11);
#else
	out[8 * i + 4] = __builtin_amdgcn_s_sendmsg_rtnl(0x83) != 0;
	out[8 * i + 5] = __builtin_amdgcn_s_getreg(26 | 3 << 11);
#endif
	if (i == 0)
		__builtin_amdgcn_s_sendmsg(1, 0x123456);
}
