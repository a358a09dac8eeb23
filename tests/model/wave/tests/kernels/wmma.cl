// SPDX-License-Identifier: GPL-2.0 OR MIT

// Matrix instructions of gfx1201 in a wave32. Each kernel multiplies row-major matrices in memory
// and adds to D; the layout of their elements in the lanes is that of AMD's RDNA 4 documentation.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef half half8_t __attribute__((ext_vector_type(8)));
typedef half half16_t __attribute__((ext_vector_type(16)));
typedef short short8_t __attribute__((ext_vector_type(8)));
typedef float float8_t __attribute__((ext_vector_type(8)));
typedef int int8_t __attribute__((ext_vector_type(8)));

#define LANE __builtin_amdgcn_workitem_id_x()
#define COLUMN (LANE % 16)
#define HALF (LANE / 16)
// Position of element v of C and D.
#define AT(v) ((v + 8 * HALF) * 16 + COLUMN)

// Loads `count` bytes of a lane: from a row of A, from a column of B.
static void bytes(uchar *out, global const uchar *from, uint count, uint start, uint step)
{
	for (uint n = 0; n < count; n++)
		out[n] = from[start + n * step];
}

kernel void f32_f16(global const half *a, global const half *b, global float *d)
{
	half8_t x, y;
	float8_t c;

	for (uint v = 0; v < 8; v++) {
		x[v] = a[COLUMN * 16 + v + 8 * HALF];
		y[v] = b[(v + 8 * HALF) * 16 + COLUMN];
		c[v] = d[AT(v)];
	}
	c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

kernel void f16_f16(global const half *a, global const half *b, global float *d)
{
	half8_t x, y, c;

	for (uint v = 0; v < 8; v++) {
		x[v] = a[COLUMN * 16 + v + 8 * HALF];
		y[v] = b[(v + 8 * HALF) * 16 + COLUMN];
		c[v] = d[AT(v)];
	}
	c = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(x, y, c);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

kernel void f32_bf16(global const short *a, global const short *b, global float *d)
{
	short8_t x, y;
	float8_t c;

	for (uint v = 0; v < 8; v++) {
		x[v] = a[COLUMN * 16 + v + 8 * HALF];
		y[v] = b[(v + 8 * HALF) * 16 + COLUMN];
		c[v] = d[AT(v)];
	}
	c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

kernel void bf16_bf16(global const short *a, global const short *b, global float *d)
{
	short8_t x, y, c;

	for (uint v = 0; v < 8; v++) {
		x[v] = a[COLUMN * 16 + v + 8 * HALF];
		y[v] = b[(v + 8 * HALF) * 16 + COLUMN];
		c[v] = as_uint(d[AT(v)]) >> 16;
	}
	c = __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32_gfx12(x, y, c);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = as_float((uint)(ushort)c[v] << 16);
}

kernel void i32_iu8(global const uchar *a, global const uchar *b, global int *d)
{
	uchar x[8], y[8];
	int8_t c;

	bytes(x, a, 8, COLUMN * 16 + 8 * HALF, 1);
	bytes(y, b, 8, 8 * HALF * 16 + COLUMN, 16);
	for (uint v = 0; v < 8; v++)
		c[v] = d[AT(v)];
	c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, *(int2 *)x, 1, *(int2 *)y, c, 0);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

kernel void f32_fp8(global const uchar *a, global const uchar *b, global float *d)
{
	uchar x[8], y[8];
	float8_t c;

	bytes(x, a, 8, COLUMN * 16 + 8 * HALF, 1);
	bytes(y, b, 8, 8 * HALF * 16 + COLUMN, 16);
	for (uint v = 0; v < 8; v++)
		c[v] = d[AT(v)];
	c = __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(*(int2 *)x, *(int2 *)y, c);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

// A is 16 x 32 with 8 pairs per row; the positions of a pair are `place` and `place` + 1.
kernel void sparse_f32_f16(global const half *a, global const half *b, global float *d, uint place)
{
	half8_t x;
	half16_t y;
	float8_t c;
	uint index = 0;

	for (uint v = 0; v < 8; v++) {
		x[v] = a[COLUMN * 16 + v + 8 * HALF];
		index |= (place + v % 2) << (2 * v);
		c[v] = d[AT(v)];
	}
	for (uint v = 0; v < 16; v++)
		y[v] = b[(v + 16 * HALF) * 16 + COLUMN];
	c = __builtin_amdgcn_swmmac_f32_16x16x32_f16_w32(x, y, c, index);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}

kernel void sparse_i32_iu8(global const uchar *a, global const uchar *b, global int *d, uint place)
{
	uchar x[8], y[16];
	int8_t c;
	uint index = 0;

	bytes(x, a, 8, COLUMN * 16 + 8 * HALF, 1);
	bytes(y, b, 16, 16 * HALF * 16 + COLUMN, 16);
	for (uint v = 0; v < 8; v++) {
		index |= (place + v % 2) << (2 * v);
		c[v] = d[AT(v)];
	}
	c = __builtin_amdgcn_swmmac_i32_16x16x32_iu8_w32(1, *(int2 *)x, 1, *(int4 *)y, c, index, 0);
	for (uint v = 0; v < 8; v++)
		d[AT(v)] = c[v];
}
