// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the coherence of the caches of the GPU: whether stores of kernels, SDMA and the host are
 * visible to each other depends on the flags of page-table entries and on flushes.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "cs.h"

#define WORDS 1024u

/* Fences of an AQL header. */
#define ACQUIRE (3u << 9)
#define RELEASE (3u << 11)

/* Writes a packet without the fences in `without`, and rings. */
static void submit(struct fixture *f, struct aql_dispatch packet, uint32_t without)
{
	packet.header &= (uint16_t)~without;
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
}

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
	submit(f, packet, release ? 0 : RELEASE);
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

/* Stores a word for a running kernel. */
typedef void store_word(struct kfd *k, volatile uint32_t *word, uint32_t value);

static void store_and_flush(struct kfd *k, volatile uint32_t *word, uint32_t value)
{
	*word = value;
	ASSERT_OK(kfd_hdp_flush(k));
}

/* As a debugger: the driver stores the word, and flushes the HDP. */
static void store_by_proc_mem(struct kfd *k, volatile uint32_t *word, uint32_t value)
{
	int mem = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
	ssize_t stored;

	(void)k;
	ASSERT(mem >= 0);
	stored = pwrite(mem, &value, sizeof(value), (off_t)(uintptr_t)word);
	close(mem);
	ASSERT(stored == sizeof(value), "%zd bytes stored", stored);
}

/* Exchanges two words with a running kernel, without release of its stores. */
static void talk_with(struct fixture *f, const char *kernel, store_word *store, void *at)
{
	volatile uint32_t *words = at;

	words[0] = 1;
	words[1] = 0;
	ASSERT_OK(kfd_hdp_flush(&f->k));
	start(f, kernel, 64, true, at, 0, 0);
	for (uint32_t n = 1; n <= 20; n++) {
		store(&f->k, &words[0], n);
		ASSERT(becomes(&words[1], n, WAIT_MS), "answer %u to %u", words[1], n);
	}
	store(&f->k, &words[0], 0);
	ASSERT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS));
}

/*
 * On gfx12 only uncached memory is coherent with the host for all accesses, other memory for
 * accesses of system scope.
 */
static void talk_by(store_word *store, uint32_t flags)
{
	const bool by_scope = gpu_is_gfx12() && !(flags & KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, flags, &bo));
	talk_with(&f, by_scope ? "echo_system" : "echo", store, bo->va);
}

static void talk(uint32_t flags)
{
	talk_by(store_and_flush, flags);
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

TEST_TIMEOUT(kernel_and_debugger_talk_in_uncached_vram, 90)
{
	talk_by(store_by_proc_mem, KFD_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
}

/*
 * On gfx12 a mapping of the render node may be uncached, also the part that is left of one. On
 * gfx942 system memory is coherent anyway.
 */
TEST_TIMEOUT(kernel_and_host_talk_in_uncached_mapping, 90)
{
	const uint32_t flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
			       AMDGPU_VM_MTYPE_UC;
	uint32_t handle;
	struct fixture f;
	char *p;

	fixture_launch(&f);
	ASSERT_OK(cs_bo_create(f.k.drm, 4 * KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT,
			       AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, &handle));
	p = cs_bo_map(f.k.drm, handle, 4 * KFD_PAGE);
	ASSERT_OK(cs_va(f.k.drm, handle, AMDGPU_VA_OP_MAP, flags, kfd_va(p), 0, 4 * KFD_PAGE));
	talk_with(&f, "echo", store_and_flush, p);
	ASSERT_OK(cs_va(f.k.drm, 0, AMDGPU_VA_OP_CLEAR, 0, kfd_va(p), 0, KFD_PAGE));
	talk_with(&f, "echo", store_and_flush, p + KFD_PAGE);
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

/* Bytes of a kernel descriptor, position of the offset of its code there, most bytes of code. */
#define DESCRIPTOR 64
#define ENTRY_OFFSET 16
#define CODE 256

/* Copies a kernel to memory: its descriptor, and its code at CODE. */
static void put_kernel(struct fixture *f, char *to, const char *name, struct kfd_kernel *kernel)
{
	const int64_t offset = CODE;
	const char *descriptor;
	int64_t entry;

	ASSERT_OK(fixture_kernel(f, name, kernel));
	descriptor = (const char *)(uintptr_t)kernel->descriptor;
	memcpy(&entry, descriptor + ENTRY_OFFSET, sizeof(entry));
	memcpy(to, descriptor, DESCRIPTOR);
	memcpy(to + ENTRY_OFFSET, &offset, sizeof(offset));
	memcpy(to + CODE, descriptor + entry, CODE);
	kernel->descriptor = kfd_va(to);
	ASSERT_OK(kfd_hdp_flush(&f->k));
}

/*
 * Replaces the code of a kernel between dispatches. The new code runs after an acquire fence;
 * without one the old or the new does.
 */
static void replace_code(uint32_t flags)
{
	const char *const names[] = { "constant_2", "constant_1" };
	const uint32_t values[] = { 0x2222, 0x1111 };
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *word;
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	word = f.data->va;
	*(uint64_t *)f.kernarg->va = kfd_va(f.data->va);
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, flags, &bo));
	for (int n = 0; n < 24; n++) {
		const bool acquires = n % 3 == 0;
		struct aql_dispatch packet;
		struct kfd_kernel kernel;

		put_kernel(&f, bo->va, names[n & 1], &kernel);
		*word = 0;
		f.signal.s->value = 1;
		kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
		submit(&f, packet, acquires ? 0 : ACQUIRE);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		EXPECT(*word == values[n & 1] || (!acquires && *word == values[~n & 1]),
		       "%#x, expected %#x", *word, values[n & 1]);
	}
}

TEST_TIMEOUT(replaced_code_runs_in_gtt, 90)
{
	replace_code(KFD_FLAGS_GTT);
}

TEST_TIMEOUT(replaced_code_runs_in_vram, 90)
{
	replace_code(KFD_FLAGS_VRAM);
}

/*
 * Rewrites kernel arguments between dispatches. The new ones are loaded after an acquire fence;
 * without one the old or the new are.
 */
static void rewrite_arguments(uint32_t flags)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *words;
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, flags, &bo));
	for (uint32_t n = 1; n <= 24; n++) {
		const bool acquires = n % 3 == 1;
		volatile uint64_t *kernarg = bo->va;
		struct aql_dispatch packet;
		struct kfd_kernel kernel;

		ASSERT_OK(fixture_kernel(&f, "fill", &kernel));
		kernarg[0] = kfd_va(f.data->va);
		kernarg[1] = n;
		ASSERT_OK(kfd_hdp_flush(&f.k));
		words[0] = words[63] = ~0u;
		f.signal.s->value = 1;
		kfd_fill_dispatch(&packet, &kernel, grid, group, bo->va, &f.signal);
		submit(&f, packet, acquires ? 0 : ACQUIRE);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		/* The last packet with an acquire fence has loaded n, n - 1 or n - 2. */
		for (int at = 0; at < 64; at += 63)
			EXPECT(words[at] <= n && words[at] + (n - 1) % 3 >= n, "%u, expected %u",
			       words[at], n);
	}
}

TEST_TIMEOUT(rewritten_arguments_are_loaded_from_gtt, 90)
{
	rewrite_arguments(KFD_FLAGS_GTT);
}

TEST_TIMEOUT(rewritten_arguments_are_loaded_from_vram, 90)
{
	rewrite_arguments(KFD_FLAGS_VRAM);
}

/* Workgroups, which run on different CUs, hand words over by acquire and release in the agent. */
static void hand_over(uint32_t flags)
{
	volatile uint32_t *words;
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 2 * KFD_PAGE, flags, &bo));
	words = bo->va;
	for (int round = 0; round < 3; round++) {
		memset(bo->va, 0, 2 * KFD_PAGE);
		ASSERT_OK(kfd_hdp_flush(&f.k));
		start(&f, "handover", 128, true, bo->va, kfd_va(bo->va) + KFD_PAGE, 20);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		EXPECT_EQ(words[KFD_PAGE / 4 + 128], 0);
		for (uint32_t at = 0; at < 64; at++)
			EXPECT_EQ(words[at], 20 * 1000 + at);
	}
}

TEST_TIMEOUT(workgroups_hand_over_in_gtt, 90)
{
	hand_over(KFD_FLAGS_GTT);
}

TEST_TIMEOUT(workgroups_hand_over_in_cached_gtt, 90)
{
	hand_over(KFD_IOC_ALLOC_MEM_FLAGS_GTT | PLAIN);
}

TEST_TIMEOUT(workgroups_hand_over_in_vram, 90)
{
	hand_over(KFD_FLAGS_VRAM);
}

/* A kernel copies memory that the host and SDMA have rewritten since its last copy. */
TEST_TIMEOUT(kernels_copy_what_was_rewritten, 90)
{
	struct kfd_bo *from, *to;
	struct sdma_queue q;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(sdma_queue_create(&f.k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 65536));
	ASSERT_OK(kfd_bo_create(&f.k, WORDS * 4, KFD_FLAGS_VRAM, &from));
	ASSERT_OK(kfd_bo_create(&f.k, WORDS * 4, KFD_FLAGS_VRAM, &to));
	for (uint32_t n = 1; n <= 8; n++) {
		const uint32_t *copied = to->va;
		uint32_t *words = from->va;

		if (n & 1) {
			fill(&f, &q, words, n);
		} else {
			for (uint32_t at = 0; at < WORDS; at++)
				words[at] = n;
			ASSERT_OK(kfd_hdp_flush(&f.k));
		}
		start(&f, "copy", WORDS, true, words, kfd_va(to->va), 0);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		EXPECT_EQ(copied[0], n);
		EXPECT_EQ(copied[WORDS - 1], n);
	}
}
