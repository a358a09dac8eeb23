/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Embeds the code objects of kernels/, one per ISA; kfd_kernels() selects one. */
#ifdef ISA
#define PASTE(name, isa, end) name##isa##end
#define NAME(name, isa, end) PASTE(name, isa, end)
	.section .rodata
	.balign 4096
	.globl NAME(kernels_, ISA, )
NAME(kernels_, ISA, ):
	.incbin KERNELS
	.globl NAME(kernels_, ISA, _end)
NAME(kernels_, ISA, _end):
	.byte 0
#endif
	.section .note.GNU-stack, "", @progbits
