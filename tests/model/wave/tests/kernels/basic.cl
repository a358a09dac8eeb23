// SPDX-License-Identifier: GPL-2.0 OR MIT

// Test kernels, compiled with clang. No device library: builtins only.

#define LX __builtin_amdgcn_workitem_id_x()
#define LY __builtin_amdgcn_workitem_id_y()
#define LZ __builtin_amdgcn_workitem_id_z()
#define GX __builtin_amdgcn_workgroup_id_x()
#define GY __builtin_amdgcn_workgroup_id_y()
#define GZ __builtin_amdgcn_workgroup_id_z()

kernel void vadd(global const uint *a, global const uint *b, global uint *c)
{
	uint i = GX * 256 + LX;

	c[i] = a[i] + b[i];
}

kernel void fill(global uint *out, uint value, uint n)
{
	uint i = GX * 256 + LX;

	if (i < n)
		out[i] = value ^ i;
}

kernel void saxpy(float a, global const float *x, global float *y)
{
	uint i = GX * 64 + LX;

	y[i] = a * x[i] + y[i];
}

kernel void copy16(global uint4 *to, global const uint4 *from)
{
	uint i = GX * 64 + LX;

	to[i] = from[i];
}

kernel void bytes(global uchar *to, global const uchar *from, global ushort *wide)
{
	uint i = GX * 64 + LX;

	to[i] = from[i] + 3;
	wide[i] = (short)(char)from[i];
}

// Sum of 1024 numbers per workgroup of 256.
kernel void reduce(global const uint *in, global uint *out)
{
	local uint part[256];
	uint l = LX;
	uint sum = 0;

	for (uint k = 0; k < 4; k++)
		sum += in[GX * 1024 + k * 256 + l];
	part[l] = sum;
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
	for (uint step = 128; step; step >>= 1) {
		if (l < step)
			part[l] += part[l + step];
		__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
		__builtin_amdgcn_s_barrier();
		__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
	}
	if (l == 0)
		out[GX] = part[0];
}

kernel void histogram(global const uint *in, global uint *bins, global float *total)
{
	uint v = in[GX * 64 + LX];

	__opencl_atomic_fetch_add((volatile global atomic_uint *)&bins[v & 15], 1,
				  memory_order_relaxed, memory_scope_device);
	__builtin_amdgcn_global_atomic_fadd_f32(total, 1.0f);
}

// Collatz: a loop with divergent trip counts.
kernel void collatz(global const uint *in, global uint *steps)
{
	uint i = GX * 64 + LX;
	uint v = in[i];
	uint n = 0;

	while (v != 1) {
		if (v & 1)
			v = 3 * v + 1;
		else
			v >>= 1;
		n++;
	}
	steps[i] = n;
}

kernel void grid3(global uint *out, uint nx, uint ny)
{
	uint x = GX * 5 + LX, y = GY * 3 + LY, z = GZ * 4 + LZ;

	out[(z * ny + y) * nx + x] = x | y << 8 | z << 16;
}

// A stack array, indexed at run time.
kernel void stack(global const uint *in, global uint *out)
{
	uint i = GX * 64 + LX;
	uint a[32];

	for (uint k = 0; k < 32; k++)
		a[k] = in[i] * (k + 1);
	uint s = 0;
	for (uint k = 0; k < 8; k++) {
		uint at = (in[i] >> (k * 2)) & 31;

		a[at] += k;
		s = s * 31 + a[(at * 7 + k) & 31];
	}
	out[i] = s;
}
