// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Mappings of each type, accessed by the GPU; memory cost of processes, queues and BOs. See
 * compare.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "compare.h"

#define COPIES 8u
#define BUFFERS 64u

struct mapping {
	const char *name;
	size_t size;
	uint32_t set, clear;
};

#define VRAM KFD_IOC_ALLOC_MEM_FLAGS_VRAM
#define GTT KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define PLAIN                                                                    \
	(KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)

static const struct mapping mappings[] = {
	{ "vram_4K", 4096, VRAM | PLAIN, 0 },
	{ "vram_64K", 65536, VRAM | PLAIN, 0 },
	{ "vram_2M", 2ul << 20, VRAM | PLAIN, 0 },
	{ "vram_2M_and_12K", (2ul << 20) + 12288, VRAM | PLAIN, 0 },
	{ "vram_8M", 8ul << 20, VRAM | PLAIN, 0 },
	{ "vram_coherent", 65536, VRAM | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT, 0 },
	{ "vram_ext_coherent", 65536, VRAM | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT, 0 },
	{ "vram_uncached", 65536, VRAM | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED, 0 },
	{ "vram_read_only", 65536, VRAM | PLAIN, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE },
	{ "vram_no_execute", 65536, VRAM | PLAIN, KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE },
	{ "gtt_4K", 4096, GTT | PLAIN, 0 },
	{ "gtt_2M", 2ul << 20, GTT | PLAIN, 0 },
	{ "gtt_coherent", 65536, GTT | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT, 0 },
	{ "gtt_ext_coherent", 65536, GTT | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT, 0 },
	{ "gtt_uncached", 65536, GTT | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED, 0 },
	{ "gtt_read_only", 65536, GTT | PLAIN, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE },
	{ "userptr_64K", 65536, USERPTR | PLAIN, 0 },
	{ "userptr_coherent", 65536, USERPTR | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT, 0 },
	{ "userptr_read_only", 65536, USERPTR | PLAIN, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE },
};

/* Page by page: huge pages are not deterministic. */
static void *own_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_NOHUGEPAGE);
	memset(p, 1, size);
	return p;
}

static int one_mapping(struct compare *c, const struct mapping *m)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .size = m->size,
							   .gpu_id = c->k.node.gpu_id };
	struct kfd_ioctl_map_memory_to_gpu_args map = {
		.device_ids_array_ptr = kfd_va(&c->k.node.gpu_id), .n_devices = 1
	};
	struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
		.device_ids_array_ptr = map.device_ids_array_ptr, .n_devices = 1
	};
	struct kfd_ioctl_free_memory_of_gpu_args gone = { 0 };
	uint32_t packets[16], *p = packets;
	char mark[64];
	size_t reserved;
	void *va, *start;
	int ret;

	args.flags = m->set & ~m->clear;
	va = m->set & USERPTR ? own_memory(m->size) : kfd_reserve(m->size, &reserved, &start);
	if (!va)
		return -ENOMEM;
	args.va_addr = kfd_va(va);
	if (m->set & USERPTR)
		args.mmap_offset = args.va_addr;
	ret = kfd_ioctl(c->k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	map.handle = unmap.handle = gone.handle = args.handle;
	if (!ret)
		ret = kfd_ioctl(c->k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map);
	printf("cmp map %s va=%#llx size=%#zx ret=%d\n", m->name, (unsigned long long)args.va_addr,
	       m->size, ret);
	if (ret)
		return 0;
	/* First and last dword; read-only memory is read. */
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t at = args.va_addr + (i ? m->size - 4 : 0);

		if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
			sdma_fill(&p, at, 0x600d0000 + i, 4);
		else
			sdma_copy(&p, kfd_va(c->memory->va) + 64, at, 4);
	}
	if (compare_mark(c, m->name))
		return 1;
	ret = compare_run(c, packets, p);
	if (ret)
		return ret;
	snprintf(mark, sizeof(mark), "UNMAP_MEMORY.%s", m->name);
	if (compare_mark(c, mark))
		return 1;
	ret = kfd_ioctl(c->k.fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &unmap);
	if (compare_mark(c, "between"))
		return 1;
	return ret ? ret : kfd_ioctl(c->k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &gone);
}

int compare_mappings(struct compare *c)
{
	if (compare_mark(c, "kind map"))
		return 1;
	for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++) {
		int ret = one_mapping(c, &mappings[i]);

		if (ret)
			return compare_failed(mappings[i].name, ret);
	}
	return 0;
}

/* Free pages, per-CPU lists included. */
static long long free_bytes(void)
{
	long long pages = 0, n;
	char line[256];
	FILE *f;

	usleep(300000);
	f = fopen("/proc/zoneinfo", "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " pages free %lld", &n) == 1 ||
		    sscanf(line, " count: %lld", &n) == 1)
			pages += n;
	}
	if (f)
		fclose(f);
	return pages * (long long)KFD_PAGE;
}

static uint64_t usage(int fd, uint32_t query)
{
	uint64_t bytes = 0;
	struct drm_amdgpu_info info = { .return_pointer = kfd_va(&bytes),
					.return_size = sizeof(bytes),
					.query = query };

	return kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &info) ? 0 : bytes;
}

struct used {
	long long guest, vram, gtt;
};

static struct used now(int fd)
{
	return (struct used) { -free_bytes(), (long long)usage(fd, AMDGPU_INFO_VRAM_USAGE),
			       (long long)usage(fd, AMDGPU_INFO_GTT_USAGE) };
}

static void told(const char *what, struct used before, struct used after, long long count,
		 long long own)
{
	printf("cmp memory %s guest=%lld vram=%lld gtt=%lld\n", what,
	       (after.guest - before.guest - own) / count, (after.vram - before.vram) / count,
	       (after.gtt - before.gtt) / count);
}

/* Depth of initialization of a child. */
enum stage { NOTHING, OPENED, ACQUIRED };

static int child(enum stage stage, int ready, int go)
{
	struct kfd k = { .fd = -1, .drm = -1 };
	char byte = 0;
	int ret = 0;

	if (stage == OPENED)
		ret = kfd_open_device(&k);
	else if (stage == ACQUIRED)
		ret = kfd_open(&k);
	byte = ret ? 'e' : '.';
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
		return 1;
	return 0;
}

/* Memory of COPIES processes that have reached `stage`, less their baseline. */
static int processes(int fd, enum stage stage, const char *what, long long own, long long *guest)
{
	int ready[2], go[2], bad = 0;
	struct used before, after;
	char byte;

	if (pipe(ready) || pipe(go))
		return compare_failed("pipe", -errno);
	before = now(fd);
	for (unsigned int i = 0; i < COPIES; i++) {
		if (!fork()) {
			close(go[1]);
			_exit(child(stage, ready[1], go[0]));
		}
		bad |= read(ready[0], &byte, 1) != 1 || byte != '.';
	}
	after = now(fd);
	*guest = after.guest - before.guest;
	if (what)
		told(what, before, after, COPIES, own);
	close(go[1]);
	while (wait(NULL) > 0)
		;
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	return bad ? compare_failed("a process of many", -EIO) : 0;
}

static int queues_and_buffers(void)
{
	static struct kfd_queue queues[COPIES];
	static struct kfd_ioctl_create_queue_args args[COPIES];
	static struct kfd_bo *bos[BUFFERS];
	struct used before;
	struct kfd k;
	int ret = kfd_open(&k);

	for (unsigned int i = 0; !ret && i < COPIES; i++)
		ret = kfd_queue_prepare(&k, &queues[i], 64, &args[i]);
	if (ret)
		return compare_failed("queues to measure", ret);
	/* The first queue includes one-time allocations. */
	before = now(k.drm);
	ret = kfd_queue_start(&queues[0], &args[0]);
	told("first_queue", before, now(k.drm), 1, 0);
	before = now(k.drm);
	for (unsigned int i = 1; !ret && i < COPIES; i++)
		ret = kfd_queue_start(&queues[i], &args[i]);
	told("further_queue", before, now(k.drm), COPIES - 1, 0);
	for (unsigned int i = 0; !ret && i < COPIES; i++)
		ret = kfd_queue_destroy(&queues[i]);
	if (ret)
		return compare_failed("queues to measure", ret);
	before = now(k.drm);
	for (unsigned int i = 0; !ret && i < BUFFERS; i++) {
		ret = kfd_bo_alloc(&k, KFD_PAGE, KFD_FLAGS_GTT, &bos[i]);
		if (!ret)
			ret = kfd_bo_map_gpu(&k, bos[i]);
	}
	told("buffer_of_4K_in_gtt", before, now(k.drm), BUFFERS, (long long)(BUFFERS * KFD_PAGE));
	for (unsigned int i = 0; !ret && i < BUFFERS; i++)
		ret = kfd_bo_free(&k, bos[i]);
	before = now(k.drm);
	for (unsigned int i = 0; !ret && i < BUFFERS; i++) {
		ret = kfd_bo_alloc(&k, KFD_PAGE, KFD_FLAGS_VRAM, &bos[i]);
		if (!ret)
			ret = kfd_bo_map_gpu(&k, bos[i]);
	}
	told("buffer_of_4K_in_vram", before, now(k.drm), BUFFERS, 0);
	for (unsigned int i = 0; !ret && i < BUFFERS; i++)
		ret = kfd_bo_free(&k, bos[i]);
	return ret ? compare_failed("buffers to measure", ret) : 0;
}

int compare_memory(void)
{
	long long bare, unused;
	struct kfd k = { 0 };
	int status = 0, ret = kfd_topology_find_gpu(&k.node);

	if (!ret)
		ret = kfd_open_render(&k);
	if (ret)
		return compare_failed("the GPU", ret);
	/* Warm up: one-time allocations of the first process stay. */
	ret = processes(k.drm, ACQUIRED, NULL, 0, &unused);
	if (!ret)
		ret = processes(k.drm, NOTHING, NULL, 0, &bare);
	if (!ret)
		ret = processes(k.drm, OPENED, "process_with_kfd_open", bare, &unused);
	if (!ret)
		ret = processes(k.drm, ACQUIRED, "process_with_gpu", bare, &unused);
	close(k.drm);
	if (ret)
		return ret;
	/* In a child, so that the marks start in a new process. */
	if (!fork()) {
		ret = queues_and_buffers();
		fflush(stdout);
		_exit(ret);
	}
	wait(&status);
	return status ? 1 : 0;
}
