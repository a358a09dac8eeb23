// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Coherence of the caches of the GPU: what kernels, SDMA and the host see of each other's stores
 * depends on the flags of page-table entries and on flushes.
 */

#include <stdlib.h>
#include <string.h>

#include "../workloads/sdma-queue.h"
#include "fixture.h"

#define WORDS 1024u

/* Release fence of an AQL header. */
#define RELEASE (3u << 11)

/* Starts a kernel of `items` work-items and up to three arguments. */
static void start(struct fixture *f, const char *name, uint32_t items, bool release, const void *a,
		  uint64_t b, uint64_t c)
{
	const uint32_t grid[3] = { items, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	uint64_t *kernarg = f->kernarg->va;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, name, &kernel));
	kernarg[0] = kfd_va(a);
	kernarg[1] = b;
	kernarg[2] = c;
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f->signal);
	if (!release)
		packet.header &= ~RELEASE;
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
}

/* Returns the sum of the words of a buffer, as a kernel reads them. */
static uint32_t total(struct fixture *f, const void *words)
{
	volatile uint32_t *sum = f->data->va;

	*sum = 0;
	start(f, "total", 64, true, words, kfd_va(f->data->va), WORDS);
	ASSERT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS));
	return *sum;
}

/*
 * Talks to a running kernel by two words of memory, whose stores are not released. On gfx12 only
 * uncached memory is coherent with the host by itself, other memory by accesses of system scope.
 */
static void talk(uint32_t flags)
{
	const bool by_scope = gpu_is_gfx12() && !(flags & KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
	volatile uint32_t *words;
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, flags, &bo));
	words = bo->va;
	words[0] = 1;
	words[1] = 0;
	ASSERT_OK(kfd_hdp_flush(&f.k));
	start(&f, by_scope ? "echo_system" : "echo", 64, true, bo->va, 0, 0);
	for (uint32_t n = 1; n <= 20; n++) {
		words[0] = n;
		ASSERT_OK(kfd_hdp_flush(&f.k));
		ASSERT(becomes(&words[1], n, WAIT_MS), "answer %u to %u", words[1], n);
	}
	words[0] = 0;
	ASSERT_OK(kfd_hdp_flush(&f.k));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

#define PLAIN (KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)

TEST_TIMEOUT(kernel_and_host_talk_in_gtt, 90)
{
	talk(KFD_IOC_ALLOC_MEM_FLAGS_GTT | PLAIN);
}

TEST_TIMEOUT(kernel_and_host_talk_in_uncached_gtt, 90)
{
	talk(KFD_FLAGS_GTT);
}

TEST_TIMEOUT(kernel_and_host_talk_in_ext_coherent_gtt, 90)
{
	talk(KFD_IOC_ALLOC_MEM_FLAGS_GTT | PLAIN | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT);
}

TEST_TIMEOUT(kernel_and_host_talk_in_uncached_vram, 90)
{
	talk(KFD_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
}

TEST_TIMEOUT(kernel_and_host_talk_in_ext_coherent_vram, 90)
{
	talk(KFD_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT);
}

/* Fills a buffer by a user's SDMA queue; waits. */
static void fill(struct fixture *f, struct sdma_queue *q, void *to, uint32_t value)
{
	uint32_t packets[64], *p = packets;

	f->signal.s->value = 1;
	sdma_fill(&p, kfd_va(to), value, WORDS * 4);
	sdma_signal(&p, &f->signal);
	ASSERT_OK(sdma_queue_put(q, packets, p));
	sdma_queue_ring(q);
	ASSERT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS));
}

TEST_TIMEOUT(kernels_see_what_sdma_has_written, 90)
{
	struct sdma_queue q;
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(sdma_queue_create(&f.k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 65536));
	ASSERT_OK(kfd_bo_create(&f.k, WORDS * 4, KFD_FLAGS_VRAM, &bo));
	for (uint32_t n = 1; n <= 8; n++) {
		fill(&f, &q, bo->va, n);
		EXPECT_EQ(total(&f, bo->va), n * WORDS);
	}
}

/* New memory is zero for kernels, too, after others had the same pages. */
static void new_vram_is_zero(bool release)
{
	struct fixture f;

	fixture_launch(&f);
	for (int n = 0; n < 8; n++) {
		struct kfd_bo *bo;

		ASSERT_OK(kfd_bo_create(&f.k, WORDS * 4, KFD_FLAGS_VRAM, &bo));
		EXPECT_EQ(total(&f, bo->va), 0);
		start(&f, "fill", WORDS, release, bo->va, 7, 0);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		if (release)
			EXPECT_EQ(total(&f, bo->va), 7 * WORDS);
		ASSERT_OK(kfd_bo_free(&f.k, bo));
	}
}

TEST_TIMEOUT(new_vram_is_zero_for_kernels, 90)
{
	new_vram_is_zero(true);
}

TEST_TIMEOUT(new_vram_is_zero_after_unreleased_stores, 90)
{
	new_vram_is_zero(false);
}
