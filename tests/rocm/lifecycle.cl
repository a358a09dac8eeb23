// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Kernels of lifecycle.c, in workgroups of 64. Nothing of a library is needed for them. */

/* Puts `value` plus its index in each word. */
kernel void fill(global uint *out, uint value)
{
	uint i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();

	out[i] = value + i;
}

/* Runs until somebody writes the word `end`; says in `begun` that it runs. */
kernel void spin(global volatile uint *begun, global volatile uint *end)
{
	*begun = 1;
	while (!*end)
		;
}
