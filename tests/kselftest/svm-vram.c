// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests more managed memory than VRAM: ranges leave VRAM for others, with their content. It is
 * twice the VRAM that the node has, or $SVM_VRAM_TIMES times that.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "listen.h"
#include "svm.h"

#define PIECE (8 * MIB)

/* Returns whether the GPU writes to a word: 64 of one page in each piece and round. */
static bool is_written(size_t i, uint32_t rounds)
{
	size_t within = i % (PIECE / 4), page = within / 1024;

	return page >= 1 && page <= rounds && within % 1024 < 64;
}

static void overcommit(bool xnack)
{
	const char *times = getenv("SVM_VRAM_TIMES");
	const uint32_t rounds = ktap_repeats(3, 2);
	uint64_t available = 0;
	unsigned int to_vram, evictions = 0;
	const char *text;
	struct fixture f;
	char wanted[96];
	uint32_t *words;
	size_t total;
	int fd;

	svm_launch_mode(&f, xnack);
	ASSERT_OK(kfd_available(&f.k, &available));
	if (available > 1ull << 30)
		SKIP("%llu MiB of VRAM", (unsigned long long)available >> 20);
	total = (available * (times ? strtoul(times, NULL, 0) : 2) / PIECE + 2) * PIECE;
	words = (uint32_t *)anonymous(total);
	for (size_t i = 0; i < total / 4; i++)
		words[i] = pattern_word(i, 0);
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_END));
	for (uint32_t round = 1; round <= rounds; round++) {
		to_vram = 0;
		for (size_t at = 0; at < total / 4; at += PIECE / 4) {
			ASSERT_OK(svm_to_vram(&f.k, words + at, PIECE));
			ASSERT_OK(fixture_fill(&f, &f.q, words + at + 1024 * round, 64, round));
		}
		text = listen_lines(fd, 100);
		snprintf(wanted, sizeof(wanted), " 0->%x %d 0\n", f.k.node.gpu_id,
			 KFD_MIGRATE_TRIGGER_PREFETCH);
		for (const char *line = text; (line = strstr(line, wanted)); line++)
			to_vram++;
		snprintf(wanted, sizeof(wanted), " %x->0 %d 0\n", f.k.node.gpu_id,
			 KFD_MIGRATE_TRIGGER_TTM_EVICTION);
		for (const char *line = text; (line = strstr(line, wanted)); line++)
			evictions++;
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
