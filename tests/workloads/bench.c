// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Measures queue ioctls with 1, 10, ... live queues, up to the number in the argument (default
 * 100), memory ioctls with 1, 100 and 10,000 BOs and of user memory, then dispatch, preemption and
 * SDMA copy with one queue; with -i the ioctls only. Prints the median of a few rounds in units of
 * CLOCK_MONOTONIC: guest instructions under an instruction-counting clock. Lines with "ns" are in
 * nanoseconds of the GPU clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "journal.h"
#include "kfd.h"
#include "samples.h"
#include "sdma-queue.h"

#define ROUNDS 31u
#define MAX_LIVE 100u
#define MAX_BOS 10000u
#define HUGE_PAGE (2ul << 20)
/* For workers of the last call. */
#define SETTLE_US 20000u

static int failed(const char *what, int err)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(-err));
	return 1;
}

static void report(const char *what, unsigned int live, uint64_t *samples)
{
	samples_sort(samples, ROUNDS);
	printf("bench: %-24s live=%-4u median=%-10llu min=%-10llu max=%llu\n", what, live,
	       (unsigned long long)samples[ROUNDS / 2], (unsigned long long)samples[0],
	       (unsigned long long)samples[ROUNDS - 1]);
}

/* Creates, updates and destroys one more queue besides `live - 1` others. */
static int measure_queue(struct kfd *k, unsigned int live)
{
	uint64_t create[ROUNDS], update[ROUNDS], destroy[ROUNDS], start;
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q;
	int ret = kfd_queue_prepare(k, &q, 64, &args);

	if (ret)
		return failed("queue memory", ret);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd_ioctl_update_queue_args change = {
			.ring_base_address = args.ring_base_address,
			.ring_size = args.ring_size,
			.queue_percentage = 100,
			.queue_priority = 15,
		};

		usleep(SETTLE_US);
		start = journal_now();
		ret = kfd_queue_start(&q, &args);
		create[i] = journal_now() - start;
		if (ret)
			return failed("CREATE_QUEUE", ret);
		change.queue_id = q.id;
		start = journal_now();
		ret = kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &change);
		update[i] = journal_now() - start;
		if (ret)
			return failed("UPDATE_QUEUE", ret);
		start = journal_now();
		ret = kfd_queue_stop(&q);
		destroy[i] = journal_now() - start;
		if (ret)
			return failed("DESTROY_QUEUE", ret);
	}
	report("CREATE_QUEUE", live, create);
	report("UPDATE_QUEUE", live, update);
	report("DESTROY_QUEUE", live, destroy);
	return kfd_queue_free_memory(&q);
}

/* From writing the packet to the return of the wait, for a kernel of one workgroup. */
static int measure_launch(struct kfd *k, struct kfd_queue *q)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	uint64_t launch[ROUNDS], store[ROUNDS], start;
	struct kfd_bo *memory, *kernarg;
	struct aql_dispatch packet;
	struct kfd_signal signal;
	struct kfd_kernel kernel;
	struct kfd_code code;
	int ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &memory);

	if (!ret)
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &kernarg);
	if (!ret)
		ret = kfd_kernels(k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "vecadd", &kernel);
	if (!ret)
		ret = kfd_signal_create(k, 1, &signal);
	if (ret)
		return failed("preparing a launch", ret);
	for (unsigned int i = 0; i < 3; i++)
		((uint64_t *)kernarg->va)[i] = kfd_va(memory->va) + i * 1024;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg->va, &signal);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		signal.s->value = 1;
		start = journal_now();
		kfd_queue_ring(q, kfd_queue_write(q, &packet));
		store[i] = journal_now() - start;
		ret = kfd_signal_wait(k, &signal, 60000);
		launch[i] = journal_now() - start;
		if (ret)
			return failed("waiting for a launch", ret);
	}
	report("packet and doorbell", 1, store);
	report("launch to wake-up", 1, launch);
	return 0;
}

static int gpu_clock(struct kfd *k, uint64_t *ticks)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = k->node.gpu_id };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args);

	*ticks = args.gpu_clock_counter;
	return ret;
}

/*
 * Unmaps a queue by UPDATE_QUEUE, which saves its waves, those of an endless kernel, and maps it
 * again, which does not wait until they are restored.
 */
static int measure_preemption(struct kfd *k, struct kfd_queue *q, uint32_t waves)
{
	uint64_t preempt[ROUNDS], ticks[ROUNDS], restore[ROUNDS], start, begin, end = 0;
	const uint32_t grid[3] = { waves * k->node.wave_front_size, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	const uint32_t groups = (grid[0] + 63) / 64;
	struct kfd_ioctl_update_queue_args change = {
		.ring_base_address = kfd_va(q->ring->va),
		.queue_id = q->id,
		.ring_size = q->packets * 64,
		.queue_priority = 7,
	};
	struct kfd_bo *memory, *kernarg;
	struct aql_dispatch packet;
	volatile uint32_t *words;
	struct kfd_signal signal;
	struct kfd_kernel kernel;
	struct kfd_code code;
	char what[32];
	int ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &memory);

	if (!ret)
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &kernarg);
	if (!ret)
		ret = kfd_kernels(k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "endless", &kernel);
	if (!ret)
		ret = kfd_signal_create(k, 1, &signal);
	if (ret)
		return failed("preparing waves", ret);
	words = memory->va;
	((uint64_t *)kernarg->va)[0] = kfd_va((void *)&words[0]);
	((uint64_t *)kernarg->va)[1] = kfd_va((void *)&words[64]);
	if (waves) {
		kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg->va, &signal);
		kfd_queue_ring(q, kfd_queue_write(q, &packet));
	}
	for (int i = 0; i < 60000 && words[0] != groups; i++)
		usleep(1000);
	if (words[0] != groups)
		return failed("starting waves", -ETIME);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		change.queue_percentage = 0;
		ret = gpu_clock(k, &begin);
		start = journal_now();
		if (!ret)
			ret = kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &change);
		preempt[i] = journal_now() - start;
		if (!ret)
			ret = gpu_clock(k, &end);
		/* 100 MHz */
		ticks[i] = (end - begin) * 10;
		change.queue_percentage = 100;
		start = journal_now();
		if (!ret)
			ret = kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &change);
		restore[i] = journal_now() - start;
		if (ret)
			return failed("UPDATE_QUEUE", ret);
		/* All waves are restored. */
		usleep(50000);
	}
	words[64] = 1;
	if (waves)
		ret = kfd_signal_wait(k, &signal, 60000);
	if (ret)
		return failed("waiting for the waves", ret);
	snprintf(what, sizeof(what), "preempt %u waves", waves);
	report(what, 1, preempt);
	snprintf(what, sizeof(what), "preempt %u waves, ns", waves);
	report(what, 1, ticks);
	snprintf(what, sizeof(what), "map %u waves", waves);
	report(what, 1, restore);
	return 0;
}

/*
 * A copy of a page by an SDMA queue: writing its packets, and from there to the return of the wait.
 */
static int measure_copy(struct kfd *k)
{
	uint64_t copy[ROUNDS], store[ROUNDS], start;
	struct kfd_signal signal;
	struct sdma_queue q;
	struct kfd_bo *memory;
	int ret = kfd_bo_create(k, 2 * KFD_PAGE, KFD_FLAGS_GTT, &memory);

	if (!ret)
		ret = kfd_signal_create(k, 1, &signal);
	if (!ret)
		ret = sdma_queue_create(k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, KFD_PAGE);
	if (ret)
		return failed("preparing a copy", ret);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		volatile uint32_t *fence = memory->va;
		uint32_t packets[32] = { 0 }, *p = packets;

		/* With a fence only, no interrupt is raised. */
		start = journal_now();
		sdma_copy(&p, kfd_va(memory->va) + KFD_PAGE, kfd_va(memory->va), KFD_PAGE);
		sdma_fence(&p, kfd_va((void *)fence), i + 1);
		ret = sdma_queue_put(&q, packets, p);
		sdma_queue_ring(&q);
		store[i] = journal_now() - start;
		while (*fence != i + 1)
			usleep(1000);
		p = packets;
		signal.s->value = 1;
		start = journal_now();
		sdma_copy(&p, kfd_va(memory->va) + KFD_PAGE, kfd_va(memory->va), KFD_PAGE);
		sdma_signal(&p, &signal);
		if (!ret)
			ret = sdma_queue_put(&q, packets, p);
		sdma_queue_ring(&q);
		if (!ret)
			ret = kfd_signal_wait(k, &signal, 60000);
		copy[i] = journal_now() - start;
		if (ret)
			return failed("waiting for a copy", ret);
	}
	report("SDMA packets, doorbell", 1, store);
	report("SDMA copy to wake-up", 1, copy);
	return sdma_queue_destroy(&q);
}

/* Allocates, maps, unmaps and frees a BO at `args->va_addr` and reports it as one of `live`. */
static int measure_memory(struct kfd *k, const struct kfd_ioctl_alloc_memory_of_gpu_args *args,
			  unsigned int live, const char *const names[4])
{
	static const unsigned long calls[] = {
		AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, AMDKFD_IOC_MAP_MEMORY_TO_GPU,
		AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, AMDKFD_IOC_FREE_MEMORY_OF_GPU
	};
	uint64_t samples[4][ROUNDS];

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd_ioctl_alloc_memory_of_gpu_args alloc = *args;
		struct kfd_ioctl_map_memory_to_gpu_args map = {
			.device_ids_array_ptr = kfd_va(&k->node.gpu_id), .n_devices = 1
		};
		struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
			.device_ids_array_ptr = map.device_ids_array_ptr, .n_devices = 1
		};
		struct kfd_ioctl_free_memory_of_gpu_args gone;
		void *const with[] = { &alloc, &map, &unmap, &gone };

		usleep(SETTLE_US);
		for (unsigned int n = 0; n < 4; n++) {
			uint64_t start = journal_now();
			int ret = kfd_ioctl(k->fd, calls[n], with[n]);

			samples[n][i] = journal_now() - start;
			if (ret)
				return failed(names[n], ret);
			map.handle = unmap.handle = gone.handle = alloc.handle;
		}
	}
	for (unsigned int n = 0; n < 4; n++)
		report(names[n], live, samples[n]);
	return 0;
}

/* Ioctls of a BO of one page of VRAM, with 1, 100 and 10,000 mapped ones. */
static int measure_bos(struct kfd *k)
{
	static const char *const names[] = { "ALLOC_MEMORY_OF_GPU", "MAP_MEMORY_TO_GPU",
					     "UNMAP_MEMORY_FROM_GPU", "FREE_MEMORY_OF_GPU" };
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = KFD_PAGE, .gpu_id = k->node.gpu_id, .flags = KFD_FLAGS_VRAM
	};
	static struct kfd_bo *bos[MAX_BOS];
	unsigned int live = 0;
	size_t reserved;
	void *start, *va = kfd_reserve(KFD_PAGE, &reserved, &start);
	int ret = 0;

	if (!va)
		return failed("address space", -ENOMEM);
	args.va_addr = kfd_va(va);
	for (unsigned int target = 1; target <= MAX_BOS; target *= 100) {
		for (; !ret && live + 1 < target; live++) {
			ret = kfd_bo_alloc(k, KFD_PAGE, KFD_FLAGS_VRAM, &bos[live]);
			if (!ret)
				ret = kfd_bo_map_gpu(k, bos[live]);
		}
		if (ret)
			return failed("filling up with BOs", ret);
		if (measure_memory(k, &args, target, names))
			return 1;
	}
	while (!ret && live)
		ret = kfd_bo_free(k, bos[--live]);
	munmap(start, reserved);
	return ret ? failed("removing BOs", ret) : 0;
}

/* Ioctls of 2 MiB of user memory: 512 pages that are not contiguous, and one huge page. */
static int measure_userptr(struct kfd *k)
{
	static const char *const names[2][4] = {
		{ "ALLOC userptr, 512 pages", "MAP userptr, 512 pages", "UNMAP userptr, 512 pages",
		  "FREE userptr, 512 pages" },
		{ "ALLOC userptr, huge page", "MAP userptr, huge page", "UNMAP userptr, huge page",
		  "FREE userptr, huge page" },
	};
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = HUGE_PAGE,
		.gpu_id = k->node.gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE,
	};
	int ret = 0;

	for (unsigned int n = 0; !ret && n < 2; n++) {
		char *area = mmap(NULL, 3 * HUGE_PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char *at = (char *)(((uintptr_t)area + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));

		if (area == MAP_FAILED)
			return failed("user memory", -errno);
		if (madvise(area, 3 * HUGE_PAGE, n ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
			return failed("madvise", -errno);
		/* In turns with other pages, which get those in between. */
		for (size_t page = 0; page < HUGE_PAGE; page += KFD_PAGE)
			at[page] = at[page + HUGE_PAGE] = 1;
		args.va_addr = args.mmap_offset = kfd_va(at);
		ret = measure_memory(k, &args, 1, names[n]);
		munmap(area, 3 * HUGE_PAGE);
	}
	return ret;
}

int main(int argc, char **argv)
{
	static struct kfd_queue queues[MAX_LIVE];
	const bool ioctls_only = argc > 1 && !strcmp(argv[1], "-i");
	const char *limit = argc > 1 + ioctls_only ? argv[1 + ioctls_only] : NULL;
	unsigned long max_live = limit ? strtoul(limit, NULL, 10) : MAX_LIVE;
	static struct kfd k;
	static const uint32_t waves[] = { 0, 1, 304 };
	unsigned int live = 0;
	int ret;

	if (argc > 2 + ioctls_only || !max_live || max_live > MAX_LIVE) {
		fprintf(stderr,
			"usage: bench [-i] [LIVE]\n\n  -i    measure ioctls only\n  LIVE  1 to %u live queues\n",
			MAX_LIVE);
		return 2;
	}
	ret = kfd_open(&k);
	if (ret)
		return failed("opening the device", ret);
	for (unsigned int target = 1; target <= max_live; target *= 10) {
		for (; live + 1 < target; live++) {
			ret = kfd_queue_create(&k, &queues[live], 64);
			if (ret)
				return failed("filling up with queues", ret);
		}
		if (measure_queue(&k, target))
			return 1;
	}
	while (live > 1) {
		ret = kfd_queue_destroy(&queues[--live]);
		if (ret)
			return failed("removing queues", ret);
	}
	if (measure_bos(&k) || measure_userptr(&k))
		return 1;
	if (ioctls_only)
		return 0;
	if (measure_launch(&k, &queues[0]))
		return 1;
	for (unsigned int i = 0; i < sizeof(waves) / sizeof(*waves); i++)
		if (measure_preemption(&k, &queues[0], waves[i]))
			return 1;
	return measure_copy(&k);
}
