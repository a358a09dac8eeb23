// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Loads an AMDGPU code object and looks up its kernels. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"

#define EM_AMDGPU_MACHINE 224
/* XCCs take workgroups in turn. */
#define MAX_XCCS 8u

static const Elf64_Ehdr *header(const struct kfd_code *code)
{
	return (const Elf64_Ehdr *)(const void *)code->image;
}

static const Elf64_Phdr *segment(const struct kfd_code *code, unsigned int i)
{
	return (const Elf64_Phdr *)(const void *)(code->image + header(code)->e_phoff) + i;
}

static const Elf64_Shdr *section(const struct kfd_code *code, unsigned int i)
{
	return (const Elf64_Shdr *)(const void *)(code->image + header(code)->e_shoff) + i;
}

/* Code objects built from kernels/ by the Makefile, see kernels.S. */
extern const unsigned char kernels_gfx942[], kernels_gfx942_end[], kernels_gfx1201[],
	kernels_gfx1201_end[];

static const struct {
	uint32_t gfx_target_version;
	const unsigned char *image, *end;
} builds[] = {
	{ 90402, kernels_gfx942, kernels_gfx942_end },
	{ 120001, kernels_gfx1201, kernels_gfx1201_end },
};

/* Loads the kernels of kernels/ for this GPU's ISA; -ENOTSUP if not built for it. */
int kfd_kernels(struct kfd *k, struct kfd_code *code)
{
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		if (builds[i].gfx_target_version == k->node.gfx_target_version)
			return kfd_code_load(k, builds[i].image,
					     (size_t)(builds[i].end - builds[i].image), code);
	return -ENOTSUP;
}

/*
 * Copies the segments to memory visible to GPU and CPU. Position independent code needs no
 * relocation.
 */
int kfd_code_load(struct kfd *k, const void *image, size_t size, struct kfd_code *code)
{
	uint64_t low = UINT64_MAX, high = 0;
	int ret;

	memset(code, 0, sizeof(*code));
	code->image = image;
	code->image_size = size;
	if (size < sizeof(Elf64_Ehdr) || memcmp(header(code)->e_ident, ELFMAG, SELFMAG) ||
	    header(code)->e_machine != EM_AMDGPU_MACHINE)
		return -ENOEXEC;
	for (unsigned int i = 0; i < header(code)->e_phnum; i++) {
		const Elf64_Phdr *p = segment(code, i);

		if (p->p_type != PT_LOAD)
			continue;
		low = p->p_vaddr < low ? p->p_vaddr : low;
		high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
	}
	if (low >= high)
		return -ENOEXEC;
	low &= ~(uint64_t)(KFD_PAGE - 1);
	ret = kfd_bo_create(k, high - low, k->node.large_bar ? KFD_FLAGS_VRAM : KFD_FLAGS_GTT,
			    &code->bo);
	if (ret)
		return ret;
	code->lowest = low;
	memset(code->bo->va, 0, code->bo->size);
	for (unsigned int i = 0; i < header(code)->e_phnum; i++) {
		const Elf64_Phdr *p = segment(code, i);

		if (p->p_type == PT_LOAD)
			memcpy((char *)code->bo->va + (p->p_vaddr - low), code->image + p->p_offset,
			       p->p_filesz);
	}
	return kfd_hdp_flush(k);
}

/* The descriptor of a kernel is the 64-byte object NAME.kd. */
int kfd_code_kernel(const struct kfd_code *code, const char *name, struct kfd_kernel *kernel)
{
	char wanted[128];

	snprintf(wanted, sizeof(wanted), "%s.kd", name);
	for (unsigned int i = 0; i < header(code)->e_shnum; i++) {
		const Elf64_Shdr *s = section(code, i);
		const Elf64_Sym *symbols =
			(const Elf64_Sym *)(const void *)(code->image + s->sh_offset);
		const char *strings;

		if (s->sh_type != SHT_DYNSYM)
			continue;
		strings = (const char *)code->image + section(code, s->sh_link)->sh_offset;
		for (size_t n = 0; n < s->sh_size / sizeof(Elf64_Sym); n++) {
			const uint32_t *kd;

			if (strcmp(strings + symbols[n].st_name, wanted))
				continue;
			kernel->descriptor =
				kfd_va(code->bo->va) + symbols[n].st_value - code->lowest;
			kd = (const uint32_t *)(uintptr_t)kernel->descriptor;
			kernel->group_size = kd[0];
			kernel->private_size = kd[1];
			kernel->kernarg_size = kd[2];
			return 0;
		}
	}
	return -ENOENT;
}

void kfd_code_unload(struct kfd *k, struct kfd_code *code)
{
	kfd_bo_free(k, code->bo);
	code->bo = NULL;
}

void kfd_fill_dispatch(struct aql_dispatch *packet, const struct kfd_kernel *kernel,
		       const uint32_t grid[3], const uint16_t group[3], const void *kernarg,
		       const struct kfd_signal *signal)
{
	memset(packet, 0, sizeof(*packet));
	packet->header = AQL_HEADER(AQL_KERNEL_DISPATCH, true);
	/* Sizes of unused dimensions must be 1. */
	packet->setup = grid[2] > 1 || group[2] > 1 ? 3 : grid[1] > 1 || group[1] > 1 ? 2 : 1;
	for (int i = 0; i < 3; i++) {
		packet->workgroup_size[i] = group[i];
		packet->grid_size[i] = grid[i];
	}
	packet->private_segment_size = kernel->private_size;
	packet->group_segment_size = kernel->group_size;
	packet->kernel_object = kernel->descriptor;
	packet->kernarg_address = kfd_va(kernarg);
	packet->completion_signal = signal ? kfd_va(signal->s) : 0;
}

int kfd_start_endless(struct kfd *k, struct kfd_queue *q, struct kfd_signal *signal,
		      volatile uint32_t **stop)
{
	const uint32_t grid[3] = { MAX_XCCS * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	volatile uint32_t *flags;
	struct kfd_kernel kernel;
	struct kfd_code code;
	struct kfd_bo *words;
	uint64_t *kernarg;
	int ret = kfd_open(k);

	if (!ret)
		ret = kfd_queue_create(k, q, 64);
	if (!ret)
		ret = kfd_kernels(k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "endless", &kernel);
	if (!ret)
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &words);
	if (!ret)
		ret = kfd_signal_create(k, 1, signal);
	if (ret)
		return ret;
	flags = words->va;
	kernarg = (uint64_t *)words->va + 64;
	kernarg[0] = kfd_va((void *)&flags[0]);
	kernarg[1] = kfd_va((void *)&flags[1]);
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, signal);
	kfd_queue_ring(q, kfd_queue_write(q, &packet));
	for (unsigned int i = 0; i < 10000; i++) {
		if (flags[0] == MAX_XCCS) {
			*stop = &flags[1];
			return 0;
		}
		usleep(1000);
	}
	return -ETIME;
}
