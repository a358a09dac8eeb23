// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests VRAM oversubscription, and that VRAM is cleared between owners. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/kfd.h"
#include "../workloads/random.h"
#include "drm.h"
#include "fixture.h"
#include "growth.h"

#define MIB (1ull << 20)
/* Pattern of one process that no other process may read. */
#define SECRET 0x5ec4e700u

static uint64_t vram_size(struct gpu *g)
{
	struct amdgpu_heap_info heap = { 0 };

	ASSERT_OK(amdgpu_query_heap_info(g->dev, VRAM, 0, &heap));
	return heap.heap_size;
}

/* VRAM including the driver's reservations, which count as used. */
static uint64_t all_vram(struct gpu *g)
{
	struct drm_amdgpu_memory_info memory = { 0 };

	ASSERT_OK(amdgpu_query_info(g->dev, AMDGPU_INFO_MEMORY, sizeof(memory), &memory));
	return memory.vram.total_heap_size;
}

static uint64_t random_state = 88172645463325252ull;

static uint32_t below(uint32_t limit)
{
	return random_below(&random_state, limit);
}

/*
 * Over-allocates VRAM threefold with BOs that prefer VRAM; SDMA copies and fills random blocks of
 * any two BOs. The expected contents are kept in `wanted`.
 */
#define BLOCK 65536u
#define OBJECT (8 * MIB)
#define BLOCKS (OBJECT / BLOCK)
#define MAX_OBJECTS 512u

static struct mem objects[MAX_OBJECTS];
static uint32_t wanted[MAX_OBJECTS][BLOCKS];

static void over_allocate(unsigned int rounds, unsigned int jobs)
{
	unsigned int count;
	const struct mem *mems[3];
	struct mem look;
	struct stream s;
	struct gpu g;
	uint64_t vram;
	uint32_t *p;

	drm_open(&g);
	vram = vram_size(&g);
	count = (unsigned int)(3 * vram / OBJECT);
	if (count > MAX_OBJECTS)
		SKIP("more than %llu MiB of VRAM",
		     (unsigned long long)(MAX_OBJECTS * OBJECT / 3 / MIB));
	stream_create(&g, &s, 0, NORMAL, 1, 4096);
	mem_create(&g, BLOCKS * 64, GTT, &look);
	for (unsigned int i = 0; i < count; i++) {
		ASSERT_OK(mem_try(&g, OBJECT, VRAM, 0, false, &objects[i]));
		mems[0] = &objects[i];
		stream_uses(&s, mems, 1);
		p = stream_begin(&s);
		for (uint32_t b = 0; b < BLOCKS; b++) {
			wanted[i][b] = i << 16 | b | 0x80000000u;
			sdma_fill(&p, objects[i].va + b * BLOCK, wanted[i][b], BLOCK);
		}
		stream_run(&s, p);
	}
	ktap_note("%u BOs of %llu MiB in %llu MiB; usage: VRAM %llu MiB, GTT %llu MiB", count,
		  OBJECT / MIB, (unsigned long long)(vram / MIB),
		  (unsigned long long)(drm_vram_usage(&g) / MIB),
		  (unsigned long long)(drm_gtt_usage(&g) / MIB));
	EXPECT(drm_vram_usage(&g) <= all_vram(&g));

	for (unsigned int round = 0; round < rounds; round++) {
		for (unsigned int n = 0; n < jobs; n++) {
			uint32_t from = below(count), to = below(count);

			mems[0] = &objects[from];
			mems[1] = &objects[to];
			stream_uses(&s, mems, 2);
			p = stream_begin(&s);
			for (int k = 0; k < 16; k++) {
				uint32_t a = below(BLOCKS), b = below(BLOCKS);

				if (below(8)) {
					sdma_copy(&p, objects[to].va + b * BLOCK,
						  objects[from].va + a * BLOCK, BLOCK);
					wanted[to][b] = wanted[from][a];
				} else {
					wanted[to][b] = n << 16 | below(65536);
					sdma_fill(&p, objects[to].va + b * BLOCK, wanted[to][b],
						  BLOCK);
				}
			}
			stream_run(&s, p);
		}
		/*
		 * Compare four dwords of each block, first and last included; at the end every
		 * byte.
		 */
		for (unsigned int i = 0; i < count; i++) {
			const uint32_t *words = look.cpu;

			mems[0] = &objects[i];
			mems[1] = &look;
			stream_uses(&s, mems, 2);
			p = stream_begin(&s);
			for (uint32_t b = 0; b < BLOCKS; b++) {
				uint64_t block = objects[i].va + b * BLOCK;

				sdma_copy(&p, look.va + b * 64, block, 16);
				sdma_copy(&p, look.va + b * 64 + 16,
					  block + 4 * below(BLOCK / 4 - 8), 32);
				sdma_copy(&p, look.va + b * 64 + 48, block + BLOCK - 16, 16);
			}
			ASSERT(p <= stream_begin(&s) + s.slot_dw, "%u words",
			       (unsigned int)(p - stream_begin(&s)));
			stream_run(&s, p);
			for (uint32_t w = 0; w < BLOCKS * 16; w++)
				ASSERT(words[w] == wanted[i][w / 16],
				       "BO %u, block %u: %#x, not %#x", i, w / 16, words[w],
				       wanted[i][w / 16]);
		}
	}
	mem_destroy(&look);
	mem_create(&g, OBJECT, GTT, &look);
	for (unsigned int i = 0; i < count; i++) {
		const uint32_t *words = look.cpu;

		mems[0] = &objects[i];
		mems[1] = &look;
		stream_uses(&s, mems, 2);
		stream_copy(&s, look.va, objects[i].va, OBJECT);
		for (uint32_t b = 0; b < BLOCKS; b++) {
			uint32_t wrong = 0;

			for (uint32_t w = 0; w < BLOCK / 4; w++)
				wrong |= words[b * (BLOCK / 4) + w] ^ wanted[i][b];
			ASSERT(wrong == 0, "BO %u, block %u: bits %#x are wrong", i, b, wrong);
		}
	}
	for (unsigned int i = 0; i < count; i++)
		mem_destroy(&objects[i]);
	mem_destroy(&look);
	stream_destroy(&s);
	EXPECT(drm_works(&g));
	/* Page tables of the file are freed with it. */
	drm_close(&g);
}

TEST_TIMEOUT(vram_oversubscribed_threefold, 240)
{
	struct gpu g;
	uint64_t vram, gtt;

	drm_open(&g);
	EXPECT(drm_works(&g));
	vram = drm_vram_usage(&g);
	gtt = drm_gtt_usage(&g);
	over_allocate(ktap_repeats(3, 1), ktap_repeats(100, 40));
	drm_expect_usage(&g, vram, gtt);
}

/* CPU mappings follow evicted BOs. */
TEST_TIMEOUT(cpu_mappings_follow_evictions, 120)
{
	struct mem mapped[8];
	const struct mem *mems[1];
	unsigned int count;
	struct stream s;
	struct gpu g;
	uint64_t vram;

	drm_open(&g);
	vram = vram_size(&g);
	if (vram > 1024 * MIB)
		SKIP("more than 1 GiB of VRAM");
	count = (unsigned int)(vram / OBJECT);
	stream_create(&g, &s, 0, NORMAL, 1, 256);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t *words;

		ASSERT_OK(mem_try(&g, MIB, VRAM, 0, true, &mapped[i]));
		words = mapped[i].cpu;
		for (uint32_t w = 0; w < MIB / 4; w++)
			words[w] = i << 20 | w;
	}
	/* Evict the BOs and bring them back by a job, whose result the CPU must see; twice. */
	for (uint32_t round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < count; i++) {
			ASSERT_OK(mem_try(&g, OBJECT, VRAM, 0, false, &objects[i]));
			mems[0] = &objects[i];
			stream_uses(&s, mems, 1);
			stream_fill(&s, objects[i].va, i, OBJECT);
			((volatile uint32_t *)mapped[i & 7].cpu)[i] += 0;
		}
		for (uint32_t i = 0; i < 8; i++) {
			const uint32_t *words = mapped[i].cpu;

			for (uint32_t w = 0; w < MIB / 4; w++)
				ASSERT(words[w] == (i << 20 | w), "BO %u, word %u: %#x", i, w,
				       words[w]);
		}
		for (unsigned int i = 0; i < count; i++)
			mem_destroy(&objects[i]);
		for (uint32_t i = 0; i < 8; i++) {
			volatile uint32_t *word = (uint32_t *)mapped[i].cpu + i;
			uint32_t *p = stream_begin(&s);

			mems[0] = &mapped[i];
			stream_uses(&s, mems, 1);
			sdma_atomic(&p, SDMA_ADD, mapped[i].va + 4 * i, 1, 0);
			stream_run(&s, p);
			EXPECT_EQ(*word, (i << 20 | i) + 1);
			*word = i << 20 | i;
		}
	}
}

/* Fills nearly all of VRAM with the pattern, by render node BOs or by KFD BOs. */
struct owner {
	bool by_kfd, killed;
};

/* Creates one BO; returns false without memory. */
static bool take(struct gpu *g, struct kfd *k, bool by_kfd, struct mem **m, struct kfd_bo **bo,
		 unsigned int at)
{
	if (by_kfd)
		return !kfd_bo_create(k, OBJECT, KFD_FLAGS_VRAM, bo);
	/* Stop before BOs are placed elsewhere. */
	if (drm_vram_usage(g) + 4 * OBJECT > all_vram(g) ||
	    mem_try(g, OBJECT, VRAM, 0, false, &objects[at]))
		return false;
	*m = &objects[at];
	return true;
}

static unsigned int take_all(struct gpu *g, struct kfd *k, bool by_kfd,
			     bool (*use)(struct gpu *, struct stream *, struct mem *,
					 struct kfd_bo *),
			     struct stream *s)
{
	unsigned int count = 0;

	for (; count < 60; count++) {
		struct kfd_bo *bo = NULL;
		struct mem *m = NULL;

		bool full = !take(g, k, by_kfd, &m, &bo, count);

		/* The memory of a process before is freed asynchronously. */
		for (int ms = 0; full && !count && ms < 10000; ms += 10) {
			usleep(10000);
			full = !take(g, k, by_kfd, &m, &bo, count);
		}
		if (full)
			break;
		if (!use(g, s, m, bo))
			break;
	}
	return count;
}

static bool write_secret(struct gpu *g, struct stream *s, struct mem *m, struct kfd_bo *bo)
{
	(void)g;
	if (m) {
		const struct mem *mems[1] = { m };

		stream_uses(s, mems, 1);
		stream_fill(s, m->va, SECRET, m->size);
	} else {
		uint32_t *words = bo->va;

		/* The ends of each half page are enough. */
		for (size_t i = 0; i < bo->size / 4; i += 512)
			words[i] = words[i + 511] = SECRET;
	}
	return true;
}

static void open_both(struct gpu *g, struct kfd *k, bool by_kfd)
{
	if (by_kfd)
		ASSERT_OK(kfd_open(k));
	else
		drm_open(g);
}

static void first_owner(void *data)
{
	const struct owner *o = data;
	static struct kfd k;
	struct stream s;
	struct gpu g;
	unsigned int count;

	open_both(&g, &k, o->by_kfd);
	if (!o->by_kfd)
		stream_create(&g, &s, 0, NORMAL, 1, 256);
	count = take_all(&g, &k, o->by_kfd, write_secret, &s);
	EXPECT(count >= 4, "only %u BOs", count);
	if (o->killed)
		raise(SIGKILL);
	if (!o->by_kfd && !(count & 1))
		for (unsigned int i = 0; i < count; i++)
			mem_destroy(&objects[i]);
}

static struct mem staging;

static bool read_secret(struct gpu *g, struct stream *s, struct mem *m, struct kfd_bo *bo)
{
	const uint64_t *words;
	uint64_t seen = 0;

	(void)g;
	if (m) {
		const struct mem *mems[2] = { m, &staging };

		stream_uses(s, mems, 2);
		stream_copy(s, staging.va, m->va, OBJECT);
		words = staging.cpu;
		for (size_t i = 0; i < OBJECT / 8; i++)
			seen |= words[i];
	} else {
		words = bo->va;
		for (size_t i = 0; i < bo->size / 8; i += 256)
			seen |= words[i] | words[i + 255];
	}
	return EXPECT(seen == 0, "contents of another process visible: bits %#llx",
		      (unsigned long long)seen);
}

static void second_owner(void *data)
{
	const struct owner *o = data;
	static struct kfd k;
	struct stream s;
	struct gpu g;
	unsigned int count;

	open_both(&g, &k, o->by_kfd);
	if (!o->by_kfd) {
		stream_create(&g, &s, 0, NORMAL, 1, 256);
		mem_create(&g, OBJECT, GTT, &staging);
	}
	count = take_all(&g, &k, o->by_kfd, read_secret, &s);
	EXPECT(count >= 4, "only %u BOs", count);
}

/* Runs the first owner until it exits or is killed; the second starts at once. */
static void owners(bool first_by_kfd, bool killed, bool second_by_kfd)
{
	struct owner first = { first_by_kfd, killed }, second = { second_by_kfd, false };
	int status = 0;
	pid_t child;

	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		first_owner(&first);
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0,
	       "status %#x", status);
	EXPECT_OK(ktap_in_child(second_owner, &second));
}

TEST_TIMEOUT(vram_is_cleared_after_exit, 120)
{
	struct gpu g;

	drm_open(&g);
	if (vram_size(&g) > 1024 * MIB)
		SKIP("more than 1 GiB of VRAM");
	owners(false, false, false);
	owners(false, false, true);
}

TEST_TIMEOUT(vram_is_cleared_after_kill, 120)
{
	struct gpu g;

	drm_open(&g);
	if (vram_size(&g) > 1024 * MIB)
		SKIP("more than 1 GiB of VRAM");
	owners(false, true, false);
	owners(true, true, false);
	owners(true, true, true);
	owners(false, true, true);
}

/* Frees and reallocates BOs within one process, repeatedly. */
TEST_TIMEOUT(new_bo_is_zeroed, 120)
{
	const struct mem *mems[1];
	uint64_t vram, seen = 0;
	struct stream s;
	struct gpu g;
	struct mem m;

	drm_open(&g);
	stream_create(&g, &s, 0, NORMAL, 1, 256);
	vram = drm_vram_usage(&g);
	for (uint32_t i = 0; i < 100; i++) {
		uint64_t size = (i % 7 + 1) * 12288;
		const uint64_t *words;

		ASSERT_OK(mem_try(&g, size, VRAM, 0, true, &m));
		words = m.cpu;
		for (uint64_t w = 0; w < size / 8; w++)
			seen |= words[w];
		ASSERT(seen == 0, "bits %#llx after %u BOs", (unsigned long long)seen, i);
		mems[0] = &m;
		stream_uses(&s, mems, 1);
		stream_fill(&s, m.va, SECRET + i, size);
		stream_uses(&s, NULL, 0);
		mem_destroy(&m);
	}
	for (int i = 0; i < 50 && drm_vram_usage(&g) > vram; i++)
		usleep(100000);
	EXPECT(drm_vram_usage(&g) <= vram);
}

/* Allocates more VRAM than there is and uses it for a while. */
static void press(void *data)
{
	unsigned int count;
	const struct mem *mems[1];
	struct stream s;
	struct gpu g;

	drm_open(&g);
	count = (unsigned int)(3 * vram_size(&g) / 2 / OBJECT);
	stream_create(&g, &s, 0, NORMAL, 1, 256);
	for (unsigned int i = 0; i < count; i++)
		ASSERT_OK(mem_try(&g, OBJECT, VRAM, 0, false, &objects[i]));
	for (unsigned int n = 0; n < *(unsigned int *)data; n++) {
		mems[0] = &objects[n % count];
		stream_uses(&s, mems, 1);
		stream_fill(&s, objects[n % count].va, n, OBJECT);
	}
}

/* Another process evicts a process with busy queues: they are restored, and no write is lost. */
TEST_TIMEOUT(queues_survive_vram_pressure, 180)
{
	enum { KEPT = 3 };
	struct kfd_bo *kept[KEPT], *used;
	unsigned int rounds = 60, launches = 0;
	struct fixture f;
	int status = 0;
	pid_t child;

	fixture_launch(&f);
	for (uint32_t i = 0; i < KEPT; i++) {
		ASSERT_OK(kfd_bo_create(&f.k, OBJECT, KFD_FLAGS_VRAM, &kept[i]));
		for (size_t w = 0; w < OBJECT / 4; w += 64)
			((uint32_t *)kept[i]->va)[w] = i << 24 | (uint32_t)w;
	}
	ASSERT_OK(kfd_bo_create(&f.k, MIB, KFD_FLAGS_VRAM, &used));
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		press(&rounds);
		ktap_end();
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		uint32_t *words = used->va;

		ASSERT_OK(fixture_fill(&f, &f.q, words, 65536, ++launches));
		ASSERT_EQ(words[0], launches);
		ASSERT_EQ(words[65535], launches);
	}
	EXPECT(status == 0, "status %#x", status);
	ktap_note("%u launches meanwhile", launches);
	EXPECT(launches > 0);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
	for (uint32_t i = 0; i < KEPT; i++)
		for (size_t w = 0; w < OBJECT / 4; w += 64)
			ASSERT(((uint32_t *)kept[i]->va)[w] == (i << 24 | (uint32_t)w),
			       "BO %u, word %zu", i, w);
}
