// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests memory that two GPUs of a process use. Behind an IOMMU each GPU has bus addresses of its
 * own for it, and the addresses of the other one are those of other memory or of none.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cards.h"
#include "cs.h"
#include "device.h"
#include "knobs.h"
#include "svm.h"

/* Larger than a contiguous range of DMA addresses usually is. */
#define BYTES (6ul << 20)

/*
 * Allocates memory on both GPUs in turns, so that a bus address of one GPU is hardly ever that of
 * the same memory on the other.
 */
static struct kfd_bo *shifted(struct fixture f[2], size_t bytes)
{
	struct kfd_bo *bo, *other;

	for (int i = 1; i < 4; i++)
		ASSERT_OK(kfd_bo_create(&f[1].k, i * 5 * KFD_PAGE, KFD_FLAGS_GTT, &other));
	ASSERT_OK(kfd_bo_create(&f[0].k, bytes, KFD_FLAGS_GTT, &bo));
	ASSERT_OK(kfd_bo_create(&f[1].k, bytes, KFD_FLAGS_GTT, &other));
	memset(other->va, 0xee, bytes);
	return bo;
}

/* $IOMMU is the type of the domains that this boot has. */
TEST(domains_are_as_expected)
{
	const char *type = getenv("IOMMU");
	struct kfd_node nodes[4];
	int count = cards_find(nodes, 4);

	if (!type)
		SKIP("$IOMMU is not set");
	EXPECT(count >= 1);
	for (int i = 0; i < count; i++)
		EXPECT(!strcmp(cards_domain(&nodes[i]), type), "'%s'", cards_domain(&nodes[i]));
}

/* Queues of both GPUs, which signal events in one page. */
TEST(queues_of_both)
{
	struct fixture f[2];

	cards_launch(f);
	for (int round = 0; round < 4; round++) {
		EXPECT(fixture_works(&f[0]));
		EXPECT(fixture_works(&f[1]));
	}
}

/* GTT of one GPU, mapped on the other one only: kernels write, SDMA reads and writes. */
TEST(gtt_of_the_other)
{
	struct fixture f[2];
	struct kfd_bo *bo;
	char *to;

	cards_launch(f);
	bo = shifted(f, 2 * BYTES);
	to = (char *)bo->va + BYTES;
	ASSERT_OK(kfd_bo_unmap_gpu(&f[0].k, bo));
	ASSERT_OK(cards_map(&f[1].k, bo));
	pattern(bo->va, BYTES, 1);
	ASSERT_OK(cards_copy(&f[1], to, bo->va, BYTES));
	EXPECT(has_pattern((uint32_t *)to, BYTES, 1));
	for (size_t at = 0; at < BYTES; at += 4096 * 255) {
		uint32_t *words = (uint32_t *)((char *)bo->va + at);

		ASSERT_OK(fixture_fill(&f[1], &f[1].q, words, 64, 0x1000 + at));
		EXPECT_EQ(words[0], 0x1000 + at);
		EXPECT_EQ(words[63], 0x1000 + at);
	}
	/* Mapped again: the same memory. */
	ASSERT_OK(cards_unmap(&f[1].k, bo));
	ASSERT_OK(cards_map(&f[1].k, bo));
	pattern(bo->va, BYTES, 2);
	ASSERT_OK(cards_copy(&f[1], to, bo->va, BYTES));
	EXPECT(has_pattern((uint32_t *)to, BYTES, 2));
	ASSERT_OK(cards_unmap(&f[1].k, bo));
	EXPECT_OK(kfd_bo_free(&f[0].k, bo));
	EXPECT(fixture_works(&f[0]));
	EXPECT(fixture_works(&f[1]));
}

/* GTT on both GPUs at once: each copies the data of the other one. */
TEST(gtt_on_both)
{
	struct fixture f[2];
	struct kfd_bo *bo;
	char *to;

	cards_launch(f);
	bo = shifted(f, 2 * BYTES);
	to = (char *)bo->va + BYTES;
	ASSERT_OK(cards_map(&f[1].k, bo));
	for (uint32_t round = 0; round < 4; round++) {
		struct fixture *writer = &f[round % 2], *reader = &f[(round + 1) % 2];
		uint32_t *words = bo->va;

		pattern(bo->va, BYTES, round);
		ASSERT_OK(fixture_fill(writer, &writer->q, words, 4096, round));
		ASSERT_OK(cards_copy(reader, to, bo->va, BYTES));
		for (int i = 0; i < 4096; i++)
			ASSERT_EQ(((uint32_t *)to)[i], round);
		ASSERT_EQ(((uint32_t *)to)[4096], pattern_word(4096, round));
	}
	/* The owner's mapping does not depend on the other one's. */
	ASSERT_OK(cards_unmap(&f[1].k, bo));
	pattern(bo->va, BYTES, 9);
	ASSERT_OK(cards_copy(&f[0], to, bo->va, BYTES));
	EXPECT(has_pattern((uint32_t *)to, BYTES, 9));
}

/* User memory on both GPUs, through invalidations. */
TEST(userptr_on_both)
{
	struct fixture f[2];
	struct pages p;

	cards_launch(f);
	shifted(f, 4 * MIB);
	register_new(&f[0].k, 4 * MIB, &p);
	ASSERT_OK(cards_map(&f[1].k, &p.bo));
	for (uint32_t round = 0; round < 4; round++) {
		for (size_t at = 0; at < p.size; at += MIB + 3 * KFD_PAGE) {
			EXPECT(gpu_writes(&f[0], &p, at, 64, 100 + round));
			EXPECT(gpu_writes(&f[1], &p, at, 64, 200 + round));
			EXPECT(gpu_reads(&f[0], &p, at, 300 + round));
			EXPECT(gpu_reads(&f[1], &p, at, 400 + round));
		}
		/* The next accesses are to other pages. */
		ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
		memset(p.cpu, 0x55, p.size);
	}
	/* A child shares the pages until one of both writes: the GPUs get new ones. */
	ASSERT_OK(ktap_in_child(fixture_opens, NULL));
	EXPECT(gpu_writes(&f[1], &p, 0, 64, 7));
	EXPECT(gpu_writes(&f[0], &p, 0, 64, 8));
	ASSERT_OK(cards_unmap(&f[1].k, &p.bo));
	EXPECT_OK(unregister(&f[0].k, &p));
}

/* Mapped on the other GPU while it is invalid, and only there. */
TEST(userptr_of_the_other)
{
	struct fixture f[2];
	struct pages p;

	cards_launch(f);
	register_new(&f[0].k, 2 * MIB, &p);
	ASSERT_OK(kfd_bo_unmap_gpu(&f[0].k, &p.bo));
	ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
	ASSERT_OK(cards_map(&f[1].k, &p.bo));
	EXPECT(gpu_writes(&f[1], &p, MIB, 64, 3));
	ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
	EXPECT(gpu_writes(&f[1], &p, MIB, 64, 4));
	ASSERT_OK(cards_unmap(&f[1].k, &p.bo));
	EXPECT_OK(unregister(&f[0].k, &p));
}

/* Shared virtual memory on both GPUs, whose pages change. */
TEST_TIMEOUT(svm_on_both, 120)
{
	const size_t size = 4 * MIB;
	struct fixture f[2];
	struct pages p;

	cards_launch(f);
	svm_needed(&f[0].k);
	shifted(f, size);
	p = svm_pages(anonymous(size), size);
	ASSERT_OK(svm_set(&f[0].k, p.cpu, size,
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, f[0].k.node.gpu_id },
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, f[1].k.node.gpu_id }));
	for (uint32_t round = 0; round < 4; round++) {
		for (size_t at = 0; at < size; at += MIB + 3 * KFD_PAGE) {
			EXPECT(gpu_writes(&f[0], &p, at, 64, 100 + round));
			EXPECT(gpu_writes(&f[1], &p, at, 64, 200 + round));
			EXPECT(gpu_reads(&f[0], &p, at, 300 + round));
			EXPECT(gpu_reads(&f[1], &p, at, 400 + round));
		}
		/* Part of the pages is replaced. */
		ASSERT(madvise(p.cpu + round * KFD_PAGE, 3 * MIB, MADV_DONTNEED) == 0);
	}
	/* The first GPU loses access; the second one keeps it, also to new pages. */
	ASSERT_OK(svm_set(&f[0].k, p.cpu, size,
			  { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f[0].k.node.gpu_id }));
	EXPECT(gpu_writes(&f[1], &p, 2 * MIB, 64, 500));
	ASSERT(madvise(p.cpu, size, MADV_DONTNEED) == 0);
	EXPECT(gpu_writes(&f[1], &p, 2 * MIB, 64, 501));
	ASSERT(munmap(p.cpu, size) == 0);
	EXPECT(fixture_works(&f[0]));
	EXPECT(fixture_works(&f[1]));
}

/* With retry faults, access in place may precede ACQUIRE_VM of the GPU. */
TEST_TIMEOUT(access_before_the_vm_of_the_other, 120)
{
	struct kfd_node nodes[2];
	struct fixture f;
	char *p;

	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	fixture_use_node(nodes[0].index);
	fixture_load(&f);
	svm_mode_needed(&f.k, true);
	ASSERT_OK(svm_xnack(&f.k, 1));
	p = anonymous(4 * KFD_PAGE);
	EXPECT_OK(svm_set(&f.k, p, 4 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, nodes[1].gpu_id }));
	/* The C driver dereferences a null pointer (svm_range_reserve_bos). */
	if (!ktap_is_rkfd())
		return;
	ASSERT_OK(svm_xnack(&f.k, 0));
	EXPECT_RET(svm_set(&f.k, p, 4 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_ACCESS, nodes[1].gpu_id }),
		   -EINVAL);
}

/* Pages that one card has to map again stay invalid when the other one's part changes. */
TEST_TIMEOUT(svm_of_each_in_one_block, 120)
{
	const size_t half = 64 * KFD_PAGE;
	struct fixture f[2];
	struct pages second;
	char *p;

	cards_launch(f);
	svm_needed(&f[0].k);
	p = anonymous_huge();
	second = svm_pages(p + half, half);
	ASSERT_OK(svm_access(&f[0].k, p, half));
	ASSERT_OK(svm_access(&f[1].k, p + half, half));
	for (uint32_t i = 0; i < 20; i++) {
		ASSERT(gpu_writes(&f[1], &second, 0, 64, i));
		ASSERT(!madvise(p + half, half, MADV_DONTNEED));
		ASSERT_OK(svm_access(&f[0].k, p, half));
		ASSERT(gpu_reads(&f[1], &second, KFD_PAGE, i));
	}
}

/* Memory in the VRAM of each card stays there when both have to be mapped again. */
TEST_TIMEOUT(svm_in_vram_of_each_in_one_block, 120)
{
	const size_t half = 64 * KFD_PAGE;
	uint64_t before[2], now;
	struct fixture f[2];
	struct pages part[2];
	char *p;

	cards_launch(f);
	svm_needed(&f[0].k);
	p = anonymous_huge();
	memset(p, 1, 2 * half);
	for (int i = 0; i < 2; i++) {
		part[i] = svm_pages(p + i * half, half);
		before[i] = process_number(&f[i].k, "vram", NULL);
		ASSERT_OK(svm_to_vram(&f[i].k, part[i].cpu, half));
	}
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(process_number(&f[i].k, "vram", NULL), before[i] + half);
	/* Both within the delay of the worker, which maps what is left again together. */
	for (int i = 0; i < 2; i++)
		ASSERT(munmap(part[i].cpu, KFD_PAGE) == 0);
	for (int i = 0; i < 2; i++) {
		uint32_t *words = (uint32_t *)(part[i].cpu + KFD_PAGE);

		ASSERT_OK(fixture_fill(&f[i], &f[i].q, words, 64, 7));
		now = process_number(&f[i].k, "vram", NULL);
		EXPECT(now == before[i] + half, "card %d: %ld", i, (long)(now - before[i]));
	}
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(((uint32_t *)(part[i].cpu + KFD_PAGE))[63], 7);
}

/* A buffer of the other GPU in place of one of this GPU, with the same content. */
static struct kfd_bo *replace(struct fixture f[2], struct kfd_bo *bo)
{
	struct kfd_bo *new;

	ASSERT_OK(kfd_bo_create(&f[0].k, bo->size, KFD_FLAGS_GTT, &new));
	ASSERT_OK(cards_map(&f[1].k, new));
	memcpy(new->va, bo->va, bo->size);
	ASSERT_OK(kfd_bo_free(&f[1].k, bo));
	return new;
}

/* A queue whose ring, pointers and save area are GTT of the other GPU; waves are saved there. */
TEST(queue_in_memory_of_the_other)
{
	struct kfd_ioctl_update_queue_args update = { .queue_percentage = 100 };
	const uint32_t grid[3] = { 16 * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_ioctl_create_queue_args args;
	struct aql_dispatch packet;
	volatile uint32_t *words;
	struct kfd_kernel kernel;
	struct fixture f[2];
	struct kfd_queue q;
	uint64_t *kernarg;

	cards_launch(f);
	shifted(f, BYTES);
	ASSERT_OK(kfd_queue_prepare(&f[1].k, &q, 64, &args));
	if (!(q.cwsr->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC))
		SKIP("the CPU does not access VRAM");
	q.ring = replace(f, q.ring);
	q.descriptor = replace(f, q.descriptor);
	q.cwsr = replace(f, q.cwsr);
	q.q = q.descriptor->va;
	q.q->base_address = args.ring_base_address = kfd_va(q.ring->va);
	args.write_pointer_address = kfd_va((void *)&q.q->write_dispatch_id);
	args.read_pointer_address = kfd_va((void *)&q.q->read_dispatch_id);
	args.ctx_save_restore_address = kfd_va(q.cwsr->va);
	ASSERT_OK(kfd_queue_start(&q, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&q));
	for (int i = 0; i < 100; i++)
		ASSERT_OK(fixture_fill(&f[1], &q, f[1].data->va, 64, i));

	ASSERT_OK(fixture_kernel(&f[1], "endless", &kernel));
	words = f[1].data->va;
	words[0] = words[64] = 0;
	kernarg = f[1].kernarg->va;
	kernarg[0] = kfd_va((void *)&words[0]);
	kernarg[1] = kfd_va((void *)&words[64]);
	f[1].signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f[1].signal);
	kfd_queue_ring(&q, kfd_queue_write(&q, &packet));
	ASSERT(becomes(&words[0], 16, WAIT_MS), "%u of 16 waves started", words[0]);
	update.ring_base_address = kfd_va(q.ring->va);
	update.queue_id = q.id;
	update.ring_size = args.ring_size;
	update.queue_priority = 7;
	for (int i = 0; i < 20; i++)
		ASSERT_OK(kfd_ioctl(f[1].k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update));
	words[64] = 1;
	EXPECT_OK(kfd_signal_wait(&f[1].k, &f[1].signal, WAIT_MS));
	EXPECT_OK(kfd_queue_stop(&q));
	EXPECT(fixture_works(&f[0]));
}

/* Ends with a queue of the second GPU whose ring is in userptr memory of the first one. */
static void leave_queue(void *unused)
{
	struct kfd_ioctl_create_queue_args args;
	struct fixture f[2];
	struct kfd_queue q;
	struct pages p;

	(void)unused;
	cards_launch(f);
	ASSERT_OK(kfd_queue_prepare(&f[1].k, &q, 64, &args));
	register_new(&f[0].k, q.ring->size, &p);
	ASSERT_OK(cards_map(&f[1].k, &p.bo));
	args.ring_base_address = kfd_va(p.cpu);
	ASSERT_OK(kfd_queue_start(&q, &args));
}

/*
 * The queue keeps the mapping until it is removed. The pages are freed with the process: no PTE of
 * the other GPU may have them afterwards, as others may have its render node open.
 */
TEST(exit_with_a_ring_of_the_other)
{
	struct kfd_node nodes[2];
	int log;

	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	log = kmsg_open();
	ASSERT_OK(ktap_in_child(leave_queue, NULL));
	EXPECT_EQ(kmsg_lines_with(log, "were not unmapped"), 0);
	close(log);
}

/* The limit of BOs in system memory is a part of the machine's memory, not of each card. */
TEST_TIMEOUT(gtt_limit_of_both, 120)
{
	struct drm_amdgpu_memory_info info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_MEMORY };
	struct fixture f[2];
	uint32_t handle;
	uint64_t size;

	cards_launch(f);
	ASSERT_OK(kfd_ioctl(f[0].k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	size = info.gtt.usable_heap_size / 10 * 6 / KFD_PAGE * KFD_PAGE;
	ASSERT_OK(cs_bo_create(f[0].k.drm, size, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_RET(cs_bo_create(f[1].k.drm, size, AMDGPU_GEM_DOMAIN_GTT, 0, &handle), -ENOMEM);
}

/* VRAM, doorbells and registers of another GPU: without CONFIG_HSA_AMD_P2P there is no way. */
TEST(device_memory_of_the_other_is_einval)
{
	const uint32_t kinds[] = {
		KFD_FLAGS_VRAM,
		KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
		KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
	};
	const size_t sizes[] = { 65536, KFD_DOORBELL_SLICE, KFD_PAGE };
	struct fixture f[2];
	struct kfd_bo *bo;

	cards_launch(f);
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(kfd_bo_alloc(&f[0].k, sizes[i], kinds[i], &bo));
		EXPECT_RET(cards_map(&f[1].k, bo), -EINVAL);
		EXPECT_OK(kfd_bo_map_gpu(&f[0].k, bo));
		EXPECT_RET(cards_map(&f[1].k, bo), -EINVAL);
		EXPECT_OK(kfd_bo_free(&f[0].k, bo));
	}
	EXPECT(fixture_works(&f[1]));
}

/* The GPU flushes its own HDP by the page that the driver remaps to its process. */
TEST(gpu_writes_hdp_flush_page)
{
	const uint32_t flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP |
			       KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	struct kfd_bo *page;
	struct fixture f;

	if (!getenv("IOMMU") || !*getenv("IOMMU"))
		SKIP("no IOMMU");
	fixture_launch(&f);
	ASSERT_OK(kfd_bo_alloc(&f.k, KFD_PAGE, flags, &page));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, page));
	fixture_start(&f, "poke", kfd_va(page->va) + KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL, 1);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(kfd_bo_free(&f.k, page));
	EXPECT(fixture_works(&f));
}

/* Stores to an address without memory. Returns when the process gets the exception. */
static double fault(struct fixture *f)
{
	uint32_t id;

	/* The C driver up to 7.2 also sends SIGSEGV. */
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f->k, KFD_IOC_EVENT_MEMORY, false, &id));
	fixture_start(f, "poke", 0x7000deadb000ull, 1);
	ASSERT_EQ(event_result(&f->k, id, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
	return seconds_now();
}

/* The nodes of both cards, and when the exception of the first one's fault comes. */
struct faulting {
	struct kfd_node nodes[2];
	volatile uint32_t ready;
	double start, end;
};

/* Faults on the first card, whose queues cannot be evicted by then. */
static void fault_while_stuck(void *data)
{
	struct faulting *both = data;
	struct fixture f;

	fixture_use_node(both->nodes[0].index);
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	knob_set("hws.no_preempt", 2);
	both->start = seconds_now();
	both->ready = 1;
	both->end = fault(&f);
}

/* A fault is handled while the eviction after a fault of another process waits for another card. */
TEST_TIMEOUT(fault_while_the_other_is_stuck, 120)
{
	struct faulting *both = mmap(NULL, sizeof(*both), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture f;
	double end;
	pid_t child;
	int status;

	ASSERT(both != MAP_FAILED);
	if (cards_find(both->nodes, 2) < 2)
		SKIP("one GPU");
	knobs_open();
	child = fork_child();
	if (!child) {
		ktap_detach();
		fault_while_stuck(both);
		ktap_end();
	}
	fixture_use_node(both->nodes[1].index);
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT(becomes(&both->ready, 1, WAIT_MS));
	/* The eviction takes 4 s, the timeout of the firmware. */
	usleep(1000000);
	end = fault(&f);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	knob_set("hws.no_preempt", 0);
	EXPECT(knob_hits("hws.no_preempt") > 0);
	EXPECT(both->end - both->start > 3.5, "after %.1f s", both->end - both->start);
	EXPECT(end < both->end, "%.1f s later", end - both->end);
}

/* Many pieces, mapped and unmapped in turns on both. */
TEST(many_buffers)
{
	struct kfd_bo *bos[64];
	struct fixture f[2];

	cards_launch(f);
	for (int i = 0; i < 64; i++) {
		ASSERT_OK(kfd_bo_create(&f[i % 2].k, (1 + i % 7) * KFD_PAGE, KFD_FLAGS_GTT,
					&bos[i]));
		ASSERT_OK(cards_map(&f[(i + 1) % 2].k, bos[i]));
	}
	for (int i = 0; i < 64; i++) {
		volatile uint32_t *words = bos[i]->va;

		ASSERT_OK(fixture_fill(&f[(i + 1) % 2], &f[(i + 1) % 2].q, bos[i]->va, 64, i));
		EXPECT_EQ(words[0], i);
		ASSERT_OK(fixture_fill(&f[i % 2], &f[i % 2].q, bos[i]->va, 64, i + 100));
		EXPECT_EQ(words[0], i + 100);
		ASSERT_OK(cards_unmap(&f[(i + 1) % 2].k, bos[i]));
		EXPECT_OK(kfd_bo_free(&f[i % 2].k, bos[i]));
	}
}
