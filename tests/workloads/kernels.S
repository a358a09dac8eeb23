/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The code object of kernels/, inside the program. */
	.section .rodata
	.balign 4096
	.globl kernels_image
kernels_image:
	.incbin KERNELS
	.globl kernels_image_end
kernels_image_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
