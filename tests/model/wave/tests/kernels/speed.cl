// SPDX-License-Identifier: GPL-2.0 OR MIT

// Copy and fill kernels, as runtimes use them without SDMA.

#define ITEM (__builtin_amdgcn_workgroup_id_x() * 256UL + __builtin_amdgcn_workitem_id_x())

typedef ulong ulong2_t __attribute__((ext_vector_type(2)));

// 16 bytes per work-item and iteration.
kernel void copy16(global const ulong2_t *from, global ulong2_t *to, ulong count, uint step)
{
	for (ulong n = ITEM; n < count; n += step)
		to[n] = from[n];
}

// One byte per work-item and iteration.
kernel void copy1(global const uchar *from, global uchar *to, ulong count, uint step)
{
	for (ulong n = ITEM; n < count; n += step)
		to[n] = from[n];
}

// Each work-item writes a pattern once.
kernel void fill8(global ulong *to, constant ulong *pattern, uint length, ulong count)
{
	ulong n = ITEM;

	if (n >= count)
		return;
	for (uint k = 0; k < length; k++)
		to[n * length + k] = pattern[k];
}
