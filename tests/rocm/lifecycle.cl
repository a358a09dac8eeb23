// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Kernels of lifecycle.c, for workgroups of 64. They need no device libraries. */

/* Writes `value` plus its index to each word. */
kernel void fill(global uint *out, uint value)
{
	uint i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();

	out[i] = value + i;
}

/* Spins until the word `end` is written; sets `begun` at the start. */
kernel void spin(global volatile uint *begun, global volatile uint *end)
{
	*begun = 1;
	while (!*end)
		;
}
