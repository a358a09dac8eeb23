/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Helpers for userptr tests. */
#ifndef USERPTR_H
#define USERPTR_H

#include <sys/mman.h>

#include "fixture.h"

#define MIB (1ul << 20)
#define FLAGS                                                                    \
	(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |    \
	 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | \
	 KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)

/* A userptr BO. */
struct pages {
	struct kfd_bo bo;
	char *cpu;
	uint64_t gpu;
	size_t size;
};

static inline char *anonymous(size_t size)
{
	size_t reserved;
	void *start, *p = kfd_reserve(size, &reserved, &start);

	ASSERT(p != NULL);
	ASSERT(mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		    0) == p);
	return p;
}

static inline int try_register(struct kfd *k, void *cpu, uint64_t gpu, size_t size, uint32_t flags,
			       struct pages *p)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = gpu,
							   .size = size,
							   .gpu_id = k->node.gpu_id,
							   .flags = flags,
							   .mmap_offset = kfd_va(cpu) };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);

	memset(p, 0, sizeof(*p));
	if (ret)
		return ret;
	p->bo.handle = args.handle;
	p->bo.mmap_offset = args.mmap_offset;
	p->bo.size = size;
	p->cpu = cpu;
	p->gpu = gpu;
	p->size = size;
	return 0;
}

static inline void register_at(struct kfd *k, void *cpu, uint64_t gpu, size_t size, struct pages *p)
{
	ASSERT_OK(try_register(k, cpu, gpu, size, FLAGS, p));
	ASSERT_OK(kfd_bo_map_gpu(k, &p->bo));
}

/* New pages, mapped for CPU and GPU at the same address. */
static inline void register_new(struct kfd *k, size_t size, struct pages *p)
{
	char *cpu = anonymous(size);

	register_at(k, cpu, kfd_va(cpu), size, p);
}

static inline int unregister(struct kfd *k, struct pages *p)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = p->bo.handle };
	int ret = p->bo.mapped ? kfd_bo_unmap_gpu(k, &p->bo) : 0;

	return ret ? ret : kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

/* The GPU fills `count` dwords from byte `at` on; the CPU compares. */
static inline bool gpu_writes(struct fixture *f, struct pages *p, size_t at, uint32_t count,
			      uint32_t value)
{
	uint32_t *cpu = (uint32_t *)(p->cpu + at);

	if (!EXPECT_OK(fixture_fill(f, &f->q, (uint32_t *)(p->gpu + at), count, value)))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!EXPECT(cpu[i] == value, "word %u at %#zx: %#x, not %#x", i, at, cpu[i], value))
			return false;
	return true;
}

/* Memory that the process has written to, but that the kernel may drop until the next write. */
static inline char *lazily_freed(size_t size)
{
	char *p = anonymous(size);

	memset(p, 0x11, size);
	ASSERT(madvise(p, size, MADV_FREE) == 0);
	return p;
}

/* Memory of a file that has not been written to. */
static inline char *read_before(size_t size)
{
	int fd = memfd_create("clean", 0);
	char *p = anonymous(size);

	ASSERT(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	ASSERT(mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	for (size_t at = 0; at < size; at += KFD_PAGE)
		ASSERT(*(volatile char *)(p + at) == 0);
	close(fd);
	return p;
}

/* Expects that no page to which the GPU writes is dropped as clean. */
static inline void expect_kept(struct fixture *f, struct pages *p)
{
	for (size_t at = 0; at < p->size; at += KFD_PAGE)
		ASSERT_OK(fixture_fill(f, &f->q, (uint32_t *)(p->gpu + at), 64,
				       (uint32_t)(at / KFD_PAGE) + 1));
	ASSERT(madvise(p->cpu, p->size, MADV_PAGEOUT) == 0);
	for (size_t at = 0; at < p->size; at += KFD_PAGE)
		EXPECT_EQ(*(uint32_t *)(p->cpu + at), at / KFD_PAGE + 1);
}

/* The CPU writes a dword of the pages, the GPU copies it to another BO. */
static inline bool gpu_reads(struct fixture *f, struct pages *p, size_t at, uint32_t value)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *to = f->data->va;
	uint64_t args[2] = { p->gpu + at, kfd_va(f->data->va) };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	for (int i = 0; i < 64; i++)
		((volatile uint32_t *)(p->cpu + at))[i] = value + i;
	to[0] = to[63] = ~0u;
	ASSERT_OK(fixture_kernel(f, "copy", &kernel));
	memcpy((char *)f->kernarg->va + 63 * 256, args, sizeof(args));
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, (char *)f->kernarg->va + 63 * 256,
			  &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
	if (!EXPECT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS)))
		return false;
	return EXPECT(to[0] == value && to[63] == value + 63, "at %#zx: %#x, %#x, not %#x", at,
		      to[0], to[63], value);
}

#endif
