// SPDX-License-Identifier: GPL-2.0 OR MIT

// Matrix instructions. Each kernel multiplies row-major matrices in memory; the layout of their
// elements in the lanes is that of AMD's documentation of each instruction.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef half half4_t __attribute__((ext_vector_type(4)));
typedef float float4_t __attribute__((ext_vector_type(4)));
typedef float float16_t __attribute__((ext_vector_type(16)));
typedef float float32_t __attribute__((ext_vector_type(32)));
typedef int int4_t __attribute__((ext_vector_type(4)));
typedef double double4_t __attribute__((ext_vector_type(4)));

#define LANE __builtin_amdgcn_workitem_id_x()

// A 32x2, B 2x32, C and D 32x32.
kernel void f32_32x32x2(global const float *a, global const float *b, global float *d)
{
	uint l = LANE, n = l % 32, g = l / 32;
	float16_t c;

	for (uint v = 0; v < 16; v++)
		c[v] = d[(8 * (v / 4) + 4 * g + v % 4) * 32 + n];
	c = __builtin_amdgcn_mfma_f32_32x32x2f32(a[n * 2 + g], b[g * 32 + n], c, 0, 0, 0);
	for (uint v = 0; v < 16; v++)
		d[(8 * (v / 4) + 4 * g + v % 4) * 32 + n] = c[v];
}

// A 16x16, B 16x16, f16.
kernel void f16_16x16x16(global const half *a, global const half *b, global float *d)
{
	uint l = LANE, n = l % 16, g = l / 16;
	half4_t x, y;
	float4_t c = 0;

	for (uint j = 0; j < 4; j++) {
		x[j] = a[n * 16 + 4 * g + j];
		y[j] = b[(4 * g + j) * 16 + n];
	}
	c = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, c, 0, 0, 0);
	for (uint v = 0; v < 4; v++)
		d[(4 * g + v) * 16 + n] = c[v];
}

// Two blocks: A 32x1, B 1x32 each.
kernel void f32_32x32x1(global const float *a, global const float *b, global float *d)
{
	uint l = LANE, n = l % 32, g = l / 32;
	float32_t c = 0;

	c = __builtin_amdgcn_mfma_f32_32x32x1f32(a[l], b[l], c, 0, 0, 0);
	for (uint v = 0; v < 32; v++)
		d[(v / 16) * 1024 + (8 * (v % 16 / 4) + 4 * g + v % 4) * 32 + n] = c[v];
}

// 16 blocks of 4x4x1.
kernel void f32_4x4x1(global const float *a, global const float *b, global float *d)
{
	uint l = LANE;
	float4_t c = 0;

	c = __builtin_amdgcn_mfma_f32_4x4x1f32(a[l], b[l], c, 0, 0, 0);
	for (uint v = 0; v < 4; v++)
		d[(l / 4) * 16 + v * 4 + l % 4] = c[v];
}

// A 16x32, B 32x16 of bytes.
kernel void i8_16x16x32(global const char *a, global const char *b, global int *d)
{
	uint l = LANE, n = l % 16, g = l / 16;
	ulong x = 0, y = 0;
	int4_t c = 0;

	for (uint j = 0; j < 8; j++) {
		x |= (ulong)(uchar)a[n * 32 + 8 * g + j] << (8 * j);
		y |= (ulong)(uchar)b[(8 * g + j) * 16 + n] << (8 * j);
	}
	c = __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, c, 0, 0, 0);
	for (uint v = 0; v < 4; v++)
		d[(4 * g + v) * 16 + n] = c[v];
}

kernel void f64_16x16x4(global const double *a, global const double *b, global double *d)
{
	uint l = LANE, n = l % 16, g = l / 16;
	double4_t c = 0;

	c = __builtin_amdgcn_mfma_f64_16x16x4f64(a[n * 4 + g], b[g * 16 + n], c, 0, 0, 0);
	for (uint v = 0; v < 4; v++)
		d[(4 * v + g) * 16 + n] = c[v];
}

// A vector in registers, indexed at run time.
typedef uint uint16_t __attribute__((ext_vector_type(16)));

kernel void indexed(global const uint *in, global uint *out, uint n)
{
	uint i = __builtin_amdgcn_workgroup_id_x() * 64 + LANE;
	uint16_t v;

	for (uint k = 0; k < 16; k++)
		v[k] = in[i] * (k + 1);
	// A uniform index, then one per lane.
	v[n & 15] = i;
	out[i] = v[(n + 3) & 15] ^ v[in[i] & 15];
}

// Four blocks of 4x4.
kernel void f64_4x4x4(global const double *a, global const double *b, global double *d)
{
	uint l = LANE, n = l % 4, block = l / 4 % 4, g = l / 16;
	double c = d[block * 16 + g * 4 + n];

	c = __builtin_amdgcn_mfma_f64_4x4x4f64(a[block * 16 + n * 4 + g],
					       b[block * 16 + g * 4 + n], c, 0, 0, 0);
	d[block * 16 + g * 4 + n] = c;
}

// Compresses COUNT elements in a row of A, of which two of every four are nonzero, for a sparse
// instruction: the nonzero elements to TO, their positions within the four to PLACES.
#define COMPRESS(FROM, COUNT, TO, PLACES)                                  \
	for (uint m = 0; m < (COUNT) / 2; m++) {                           \
		uint seen = 0;                                             \
		for (uint j = 0; j < (COUNT); j++) {                       \
			if ((FROM)[j] == 0)                                \
				continue;                                  \
			if (seen == m) {                                   \
				(TO)[m] = (FROM)[j];                       \
				(PLACES) |= (uint)(j % 4) << (2 * m);      \
			}                                                  \
			seen++;                                            \
		}                                                          \
	}

typedef half half8_t __attribute__((ext_vector_type(8)));
typedef char char8_t __attribute__((ext_vector_type(8)));
typedef char char16_t __attribute__((ext_vector_type(16)));
typedef int int2_t __attribute__((ext_vector_type(2)));
typedef int int16_t __attribute__((ext_vector_type(16)));

// A 16x32, B 32x16, f16; the positions are in the third byte of their register.
kernel void sparse_f16(global const half *a, global const half *b, global float *d)
{
	uint l = LANE, n = l % 16, g = l / 16, places = 0;
	half4_t x = 0;
	half8_t y;
	float4_t c;

	COMPRESS(a + n * 32 + 8 * g, 8, x, places);
	for (uint j = 0; j < 8; j++)
		y[j] = b[(8 * g + j) * 16 + n];
	for (uint v = 0; v < 4; v++)
		c[v] = d[(4 * g + v) * 16 + n];
	c = __builtin_amdgcn_smfmac_f32_16x16x32_f16(x, y, c, places << 16, 0, 2);
	for (uint v = 0; v < 4; v++)
		d[(4 * g + v) * 16 + n] = c[v];
}

// A 32x32, B 32x32 of bytes; the positions are in the upper half of their register.
kernel void sparse_i8(global const char *a, global const char *b, global int *d)
{
	uint l = LANE, n = l % 32, g = l / 32, places = 0;
	char8_t x = 0;
	char16_t y;
	int16_t c = 0;

	COMPRESS(a + n * 32 + 16 * g, 16, x, places);
	for (uint j = 0; j < 16; j++)
		y[j] = b[(16 * g + j) * 32 + n];
	c = __builtin_amdgcn_smfmac_i32_32x32x32_i8(__builtin_astype(x, int2_t),
						    __builtin_astype(y, int4_t), c,
						    places << 16, 0, 1);
	for (uint v = 0; v < 16; v++)
		d[(8 * (v / 4) + 4 * g + v % 4) * 32 + n] = c[v];
}
