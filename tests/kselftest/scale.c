// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Many objects of one process: the time of a call does not depend on their number, and SIGKILL
 * frees all of them. $SCALE is the number, 20,000 by default; of userptr BOs there is a tenth.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/samples.h"
#include "cs.h"
#include "fixture.h"

#define SECOND 1000000000ull
#define PARTS 10u
#define DEFAULT_COUNT 20000u
/* Promised bound on the time until the VRAM of up to so many BOs is free, in seconds. */
#define FREE_SECONDS (5.0 * ktap_time_factor())
#define FREE_COUNT 100000u
/* Memory that the driver allocates as it needs it, and keeps. */
#define KEPT_BYTES (2u << 20)
/* Size of a userptr BO and the pages that all of them share. */
#define USER_BYTES (16 * KFD_PAGE)

static uint32_t count_of_objects(void)
{
	const char *text = getenv("SCALE");

	return text ? (uint32_t)strtoul(text, NULL, 10) : DEFAULT_COUNT / ktap_time_factor();
}

/* Shared with the child that is killed. */
struct progress {
	uint64_t part[PARTS];
	bool failed;
};

static uint64_t vram_used(struct kfd *k)
{
	return amdgpu_info(k, AMDGPU_INFO_VRAM_USAGE);
}

/* Same, before the objects are created. Opens the GPU. */
static uint64_t vram_at_rest(struct kfd *k)
{
	/* The first process of a driver causes allocations that stay. */
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	fixture_open_only(k);
	return vram_used(k);
}

/*
 * Expects that the use of VRAM falls from `during` to `before` bytes in time after a SIGKILL, if
 * the objects are in VRAM.
 */
static void expect_freed(struct kfd *k, uint32_t count, uint64_t before, uint64_t during,
			 uint64_t start)
{
	double freed;

	if (during <= before)
		return;
	while (vram_used(k) > before && cs_now() - start < 120 * SECOND * ktap_time_factor())
		usleep(20000);
	freed = (double)(cs_now() - start) / SECOND;
	ktap_note("%llu KiB of VRAM in use, %llu KiB before; free %.2f s after SIGKILL",
		  (unsigned long long)during >> 10, (unsigned long long)before >> 10, freed);
	EXPECT(vram_used(k) <= before);
	if (count <= FREE_COUNT)
		EXPECT(freed < FREE_SECONDS, "after %.2f s", freed);
}

/*
 * Creates `count` objects in a child, by `begin`, and by `create` for each, and kills it. In a
 * driver that is quadratic the median tenth takes 11 times as long as the first.
 */
static void many(uint32_t count, void *(*begin)(uint32_t count), int (*create)(void *, uint32_t))
{
	struct progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t sorted[PARTS], start, took, before = 0, during = 0;
	int status, pipes[2];
	char byte = 0;
	struct kfd k;
	pid_t child;

	ASSERT(p != MAP_FAILED);
	if (ktap_is_rkfd())
		before = vram_at_rest(&k) + KEPT_BYTES;
	ASSERT(pipe(pipes) == 0);
	child = fork_child();
	if (!child) {
		void *data = begin(count);

		for (uint32_t part = 0; part < PARTS && !p->failed; part++) {
			start = cs_now();
			for (uint32_t i = 0; i < count / PARTS && !p->failed; i++)
				p->failed = !EXPECT_OK(create(data, part * (count / PARTS) + i));
			p->part[part] = cs_now() - start;
		}
		(void)!write(pipes[1], &byte, 1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	ASSERT(read(pipes[0], &byte, 1) == 1);
	if (ktap_is_rkfd())
		during = vram_used(&k);
	start = cs_now();
	kill(child, SIGKILL);
	ASSERT(waitpid(child, &status, 0) == child);
	took = cs_now() - start;
	ASSERT(!p->failed);
	if (ktap_is_rkfd())
		expect_freed(&k, count, before, during, start);
	memcpy(sorted, p->part, sizeof(sorted));
	samples_sort(sorted, PARTS);
	ktap_note("%u: %lu ns each in the first tenth, %lu in the last, %lu in the median; %lu after SIGKILL",
		  count, (unsigned long)(p->part[0] * PARTS / count),
		  (unsigned long)(p->part[PARTS - 1] * PARTS / count),
		  (unsigned long)(sorted[PARTS / 2] * PARTS / count), (unsigned long)(took / count));
	EXPECT(sorted[PARTS / 2] < 5 * sorted[0] + SECOND / 10 * ktap_time_factor());
	EXPECT(took < 120 * SECOND * ktap_time_factor());
}

static void *render_file(uint32_t count)
{
	static int fd;

	(void)count;
	fd = cs_open_file();
	return &fd;
}

static int context(void *fd, uint32_t n)
{
	uint32_t id;
	int ret = cs_ctx_alloc(*(int *)fd, &id);

	if (!ret)
		EXPECT_EQ(id, n + 1);
	return ret;
}

TEST_TIMEOUT(contexts, 1200)
{
	many(count_of_objects(), render_file, context);
}

static int render_bo(void *fd, uint32_t n)
{
	uint32_t handle;

	(void)n;
	return cs_bo_create(*(int *)fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle);
}

TEST_TIMEOUT(buffers_of_a_render_node, 1200)
{
	many(count_of_objects(), render_file, render_bo);
}

struct memory {
	struct kfd k;
	char *va, *pages;
};

static void *process(uint32_t count)
{
	static struct memory m;
	size_t reserved;
	void *start;

	fixture_open(&m.k);
	m.va = kfd_reserve((size_t)count * USER_BYTES, &reserved, &start);
	ASSERT(m.va);
	m.pages = mmap(NULL, USER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	ASSERT(m.pages != MAP_FAILED);
	memset(m.pages, 1, USER_BYTES);
	return &m;
}

static int map_bo(struct memory *m, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	struct kfd_ioctl_map_memory_to_gpu_args map = {
		.device_ids_array_ptr = kfd_va(&m->k.node.gpu_id), .n_devices = 1
	};
	int ret;

	args->gpu_id = m->k.node.gpu_id;
	ret = kfd_ioctl(m->k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, args);
	map.handle = args->handle;
	return ret ? ret : kfd_ioctl(m->k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map);
}

static int kfd_bo(void *data, uint32_t n)
{
	struct memory *m = data;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = kfd_va(m->va) + n * KFD_PAGE,
		.size = KFD_PAGE,
		.flags = KFD_FLAGS_VRAM,
	};

	return map_bo(m, &args);
}

TEST_TIMEOUT(mapped_buffers_of_a_process, 2400)
{
	many(count_of_objects(), process, kfd_bo);
}

static int userptr_bo(void *data, uint32_t n)
{
	struct memory *m = data;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = kfd_va(m->va) + n * USER_BYTES,
		.size = KFD_PAGE,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE,
		.mmap_offset = kfd_va(m->pages) + n % (USER_BYTES / KFD_PAGE) * KFD_PAGE,
	};

	return map_bo(m, &args);
}

TEST_TIMEOUT(userptr_buffers, 1200)
{
	many(count_of_objects() / 10, process, userptr_bo);
}

static int syncobj(void *fd, uint32_t n)
{
	struct drm_syncobj_create args = { 0 };

	(void)n;
	return kfd_ioctl(*(int *)fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);
}

TEST_TIMEOUT(syncobjs, 1200)
{
	many(count_of_objects(), render_file, syncobj);
}

static int bo_list(void *fd, uint32_t n)
{
	union drm_amdgpu_bo_list args = { 0 };

	(void)n;
	args.in.operation = AMDGPU_BO_LIST_OP_CREATE;
	args.in.bo_info_size = sizeof(struct drm_amdgpu_bo_list_entry);
	return kfd_ioctl(*(int *)fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);
}

TEST_TIMEOUT(bo_lists, 1200)
{
	many(count_of_objects(), render_file, bo_list);
}
