// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests more managed memory than VRAM: ranges leave VRAM for others, with their content. It is
 * twice the VRAM that the node has, or $SVM_VRAM_MIB.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "listen.h"
#include "svm.h"

#define PIECE (8 * MIB)

/* Returns how many lines of SMI events contain `part`. */
static unsigned int count_lines(const char *text, const char *part)
{
	unsigned int count = 0;

	for (; (text = strstr(text, part)); text++)
		count++;
	return count;
}

/* Returns how many migrations to VRAM, and evictions from there, are among SMI events. */
static unsigned int count_moves(const struct fixture *f, const char *text, unsigned int *evictions)
{
	char part[96];

	snprintf(part, sizeof(part), " %x->0 %d 0\n", f->k.node.gpu_id,
		 KFD_MIGRATE_TRIGGER_TTM_EVICTION);
	*evictions += count_lines(text, part);
	snprintf(part, sizeof(part), " 0->%x %d 0\n", f->k.node.gpu_id,
		 KFD_MIGRATE_TRIGGER_PREFETCH);
	return count_lines(text, part);
}

/* Returns the available VRAM; skips the test if the VRAM is large. */
static uint64_t little_vram(struct kfd *k)
{
	uint64_t available = 0;

	ASSERT_OK(kfd_available(k, &available));
	if (available > 1ull << 30)
		SKIP("%llu MiB of VRAM", (unsigned long long)available >> 20);
	return available;
}

/* Returns whether the GPU writes to a word: 64 of one page in each piece and round. */
static bool is_written(size_t i, uint32_t rounds)
{
	size_t within = i % (PIECE / 4), page = within / 1024;

	return page >= 1 && page <= rounds && within % 1024 < 64;
}

static void overcommit(bool xnack)
{
	const char *mib = getenv("SVM_VRAM_MIB");
	const uint32_t rounds = ktap_repeats(3, 2);
	unsigned int to_vram, evictions = 0;
	uint64_t available;
	struct fixture f;
	uint32_t *words;
	size_t total;
	int fd;

	svm_launch_mode(&f, xnack);
	available = little_vram(&f.k);
	total = mib ? strtoul(mib, NULL, 0) * MIB : available * 2;
	total = (total / PIECE + 2) * PIECE;
	words = (uint32_t *)anonymous(total);
	for (size_t i = 0; i < total / 4; i++)
		words[i] = pattern_word(i, 0);
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_END));
	for (uint32_t round = 1; round <= rounds; round++) {
		for (size_t at = 0; at < total / 4; at += PIECE / 4) {
			ASSERT_OK(svm_to_vram(&f.k, words + at, PIECE));
			ASSERT_OK(fixture_fill(&f, &f.q, words + at + 1024 * round, 64, round));
		}
		to_vram = count_moves(&f, listen_lines(fd, 100), &evictions);
		ktap_note("%zu MiB, %llu MiB available: %u pieces to VRAM, %u evictions so far",
			  total >> 20, (unsigned long long)available >> 20, to_vram, evictions);
	}
	EXPECT(evictions > 0);
	for (size_t i = 0; i < total / 4; i++) {
		uint32_t want = is_written(i, rounds) ? (uint32_t)(i % (PIECE / 4) / 1024) :
							pattern_word(i, 0);

		ASSERT(words[i] == want, "word %zu: %#x, not %#x", i, words[i], want);
	}
	close(fd);
}

TEST_TIMEOUT(twice_the_vram, 300)
{
	overcommit(false);
}

TEST_TIMEOUT(twice_the_vram_with_retry_faults, 300)
{
	overcommit(true);
}

/* The VRAM of a block with a single page in it is freed by an eviction. */
TEST_TIMEOUT(blocks_with_single_pages, 300)
{
	unsigned int evictions = 0;
	struct fixture f;
	char *few, *others;
	size_t size;
	int fd;

	svm_launch(&f);
	size = little_vram(&f.k) * 3 / 4 / PIECE * PIECE;
	few = anonymous(size + 2 * MIB);
	few += -kfd_va(few) % (2 * MIB);
	others = anonymous(size);
	for (size_t at = 0; at < size; at += 2 * MIB)
		*(uint32_t *)(few + at + 2 * MIB - KFD_PAGE) = pattern_word(at, 0);
	for (size_t at = 0; at < size; at += PIECE)
		ASSERT_OK(svm_to_vram(&f.k, few + at, PIECE));
	for (size_t at = 0; at < size; at += 2 * MIB)
		ASSERT_OK(svm_set(&f.k, few + at, 2 * MIB - KFD_PAGE,
				  { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_END));
	for (size_t at = 0; at < size; at += PIECE)
		ASSERT_OK(svm_to_vram(&f.k, others + at, PIECE));
	EXPECT(count_moves(&f, listen_lines(fd, 100), &evictions) >= size / PIECE);
	ktap_note("%zu MiB, %u evictions", size >> 20, evictions);
	EXPECT(evictions > 0);
	for (size_t at = 0; at < size; at += 2 * MIB)
		ASSERT_EQ(*(uint32_t *)(few + at + 2 * MIB - KFD_PAGE), pattern_word(at, 0));
	close(fd);
}
