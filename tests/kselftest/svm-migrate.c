// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests migration of shared virtual memory to VRAM and back, without retry faults. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "listen.h"
#include "svm.h"

static uint32_t word_of(size_t i)
{
	return (uint32_t)i * 2654435761u + 17;
}

/* Returns memory of words with known values, migrated to VRAM; expects the event of that. */
static uint32_t *words_in_vram(struct fixture *f, size_t size)
{
	uint32_t *words = (uint32_t *)anonymous(size);
	char wanted[96];
	const char *text;
	int fd;

	for (size_t i = 0; i < size / 4; i++)
		words[i] = word_of(i);
	fd = listen_to(&f->k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_END));
	ASSERT_OK(svm_to_vram(&f->k, words, size));
	text = listen_lines(fd, 100);
	snprintf(wanted, sizeof(wanted), " 0->%x %d 0\n", f->k.node.gpu_id,
		 KFD_MIGRATE_TRIGGER_PREFETCH);
	ASSERT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	close(fd);
	return words;
}

static void compare(const uint32_t *words, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		ASSERT(words[i - first] == word_of(i), "word %zu: %#x, not %#x", i,
		       words[i - first], word_of(i));
}

/* CPU and GPU write to neighbouring words in turns; every byte is compared. */
TEST_TIMEOUT(in_turns, 240)
{
	const size_t count = 3 * MIB / 4;
	uint32_t *words, *want;
	unsigned int seed = 1;
	struct fixture f;

	svm_launch(&f);
	words = (uint32_t *)anonymous(count * 4);
	want = calloc(count, 4);
	ASSERT(want != NULL);
	ASSERT_OK(svm_to_vram(&f.k, words, count * 4));
	for (uint32_t round = 1; round <= 60; round++) {
		size_t at = rand_r(&seed) % (count - 2048) & ~63ul;

		ASSERT_OK(fixture_fill(&f, &f.q, words + at, 1024, round));
		for (size_t i = 0; i < 1024; i++)
			want[at + i] = round;
		at = rand_r(&seed) % (count - 2048);
		for (size_t i = 0; i < 1500; i++)
			words[at + i] = want[at + i] = round << 16 | (uint32_t)i;
		if (round % 3 == 0)
			ASSERT_OK(svm_to_vram(&f.k, words, count * 4));
		if (round % 10 == 0)
			ASSERT(memcmp(words, want, count * 4) == 0, "round %u", round);
	}
	ASSERT(memcmp(words, want, count * 4) == 0);
	free(want);
}

/* sysfs counts the pages that are migrated, including those by page faults of the CPU. */
TEST_TIMEOUT(pages_are_counted, 120)
{
	const size_t size = 3 * MIB, pages = size / KFD_PAGE;
	uint32_t *words;
	struct fixture f;

	svm_launch(&f);
	EXPECT_EQ(process_number(&f.k, "counters", "page_in"), 0);
	words = words_in_vram(&f, size);
	EXPECT_EQ(process_number(&f.k, "counters", "page_in"), pages);
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), 0);
	compare(words, 0, size / 4);
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), pages);
	/*
	 * The C driver releases the VRAM of a range in a work item; a range that is split meanwhile
	 * refers to the released BO (svm_range_clone, svm_range_bo_release_async).
	 */
	if (!ktap_is_rkfd())
		usleep(100000);
	ASSERT_OK(svm_to_vram(&f.k, words, size / 2));
	ASSERT_OK(svm_set(&f.k, words, size, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	EXPECT_EQ(process_number(&f.k, "counters", "page_in"), pages * 3 / 2);
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), pages * 3 / 2);
	EXPECT_EQ(process_number(&f.k, "counters", "faults"), 0);
}

/* The C driver frees the VRAM of a range in a work item. */
static void expect_vram(struct fixture *f, uint64_t bytes)
{
	for (int i = 0; i < 100 && process_number(&f->k, "vram", NULL) != bytes; i++)
		usleep(20000);
	EXPECT_EQ(process_number(&f->k, "vram", NULL), bytes);
}

/* sysfs counts the VRAM of migrated memory, until it is free. */
TEST_TIMEOUT(vram_is_counted, 120)
{
	const size_t size = 3 * MIB;
	uint32_t *words;
	struct fixture f;
	uint64_t before;

	svm_launch(&f);
	before = process_number(&f.k, "vram", NULL);
	words = words_in_vram(&f, size);
	EXPECT_EQ(process_number(&f.k, "vram", NULL), before + size);
	compare(words, 0, size / 4);
	expect_vram(&f, before);
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	EXPECT_EQ(process_number(&f.k, "vram", NULL), before + size);
	ASSERT(munmap(words, size) == 0);
	expect_vram(&f, before);
}

/* Parts of memory in VRAM are unmapped, dropped and made read-only; the rest keeps its content. */
TEST_TIMEOUT(parts_change, 120)
{
	const size_t size = 4 * MIB, part = 64 * KFD_PAGE;
	struct fixture f;
	uint32_t *words;
	char *base;

	svm_launch(&f);
	words = words_in_vram(&f, size);
	base = (char *)words;
	ASSERT(munmap(base + MIB, part) == 0);
	ASSERT(mprotect(base + 3 * MIB, part, PROT_READ) == 0);
	compare(words, 0, MIB / 4);
	compare((uint32_t *)(base + MIB + part), (MIB + part) / 4, size / 4);
	ASSERT(madvise(base, part, MADV_DONTNEED) == 0);
	EXPECT_EQ(words[0], 0);
	EXPECT(fixture_works(&f));
}

/* Memory in VRAM that moves to another address keeps its content, there and around the gap. */
TEST_TIMEOUT(moved_part, 120)
{
	const size_t size = 2 * MIB, part = 64 * KFD_PAGE, at = MIB;
	struct fixture f;
	uint32_t *words;
	char *to;

	svm_launch(&f);
	words = words_in_vram(&f, size);
	to = anonymous(part);
	ASSERT(mremap((char *)words + at, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	compare((uint32_t *)to, at / 4, (at + part) / 4);
	compare(words, 0, at / 4);
	compare(words + (at + part) / 4, (at + part) / 4, size / 4);
	EXPECT(fixture_works(&f));
}

/* Memory without pages gets zeroed ones in VRAM, also where there was other memory before. */
TEST_TIMEOUT(untouched_memory, 120)
{
	struct fixture f;
	uint32_t *words;

	svm_launch(&f);
	for (int i = 0; i < 4; i++)
		ASSERT(munmap(words_in_vram(&f, 2 * MIB), 2 * MIB) == 0);
	words = (uint32_t *)anonymous(2 * MIB);
	ASSERT_OK(svm_to_vram(&f.k, words, 2 * MIB));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 4096, 64, 9));
	for (size_t i = 0; i < 2 * MIB / 4; i++)
		ASSERT_EQ(words[i], i >= 4096 && i < 4160 ? 9 : 0);
}

/* The CPU takes one page after the other, each of which goes back: to as much VRAM as it needs. */
TEST_TIMEOUT(single_pages, 240)
{
	const size_t size = 2 * MIB;
	struct fixture f;
	uint64_t before;
	char *p;

	svm_launch(&f);
	p = anonymous_huge();
	memset(p, 1, size);
	ASSERT_OK(svm_set(&f.k, p, size, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 }));
	ASSERT_OK(svm_to_vram(&f.k, p, size));
	before = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (size_t at = 0; at < size; at += 16 * KFD_PAGE) {
		p[at] = 2;
		/* Two pages with a gap. */
		p[at + 4 * KFD_PAGE] = 3;
		ASSERT_OK(svm_to_vram(&f.k, p, size));
	}
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 2 * MIB);
	EXPECT(svm_works(&f, p, 32 * KFD_PAGE, 0x100));
	for (size_t at = 0; at < size; at += 16 * KFD_PAGE) {
		ASSERT_EQ(p[at], 2);
		ASSERT_EQ(p[at + KFD_PAGE], 1);
		ASSERT_EQ(p[at + 4 * KFD_PAGE], 3);
		ASSERT_EQ(p[at + 15 * KFD_PAGE], 1);
	}
}

/* Memory of a file stays in the page cache: the file has what the GPU and the CPU write. */
TEST_TIMEOUT(file_memory, 120)
{
	const size_t size = MIB;
	int fd = memfd_create("svm-migrate", 0);
	uint32_t *words, *other;
	struct fixture f;

	svm_launch(&f);
	ASSERT(ftruncate(fd, (off_t)size) == 0);
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	other = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT(words != MAP_FAILED && other != MAP_FAILED);
	for (size_t i = 0; i < size / 4; i++)
		words[i] = word_of(i);
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 4096, 64, 9));
	compare(other, 0, 4096);
	compare(other + 4160, 4160, size / 4);
	for (size_t i = 4096; i < 4160; i++)
		ASSERT_EQ(other[i], 9);
	words[0] = 5;
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	ASSERT_EQ(other[0], 5);
	/* Private: pages that were written to are anonymous, the others are the file's. */
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT(words != MAP_FAILED);
	words[0] = 6;
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 8192, 64, 10));
	ASSERT_EQ(words[0], 6);
	ASSERT_EQ(words[8192 + 63], 10);
	ASSERT_EQ(words[4096], 9);
	ASSERT_EQ(other[0], 5);
	compare(other + 8192, 8192, size / 4);
	close(fd);
}

/* Children read memory in VRAM, write to it, or just exit, while the parent migrates it. */
TEST_TIMEOUT(forks, 240)
{
	const size_t size = 2 * MIB;
	struct fixture f;
	uint32_t *words;
	int status;

	svm_launch(&f);
	words = words_in_vram(&f, size);
	for (int round = 0; round < 6; round++) {
		pid_t child = fork_child();

		if (!child) {
			if (round % 3 == 0)
				_exit(0);
			compare(words, 0, size / 4);
			if (round % 3 == 1)
				memset(words, round, size);
			ktap_end();
		}
		if (round % 2)
			ASSERT_OK(svm_to_vram(&f.k, words, size));
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT_EQ(status, 0);
		compare(words, 0, size / 4);
		ASSERT_OK(svm_to_vram(&f.k, words, size));
	}
}

/* The GPU writes to memory in VRAM that fork() shares: the child's copy is unchanged. */
TEST_TIMEOUT(gpu_write_after_fork_is_private, 120)
{
	const size_t size = 2 * MIB;
	int status, go[2];
	struct fixture f;
	uint32_t *words;
	pid_t child;
	char byte;

	svm_launch(&f);
	words = words_in_vram(&f, size);
	ASSERT(pipe(go) == 0);
	child = fork_child();
	if (!child) {
		ASSERT(read(go[0], &byte, 1) == 1);
		compare(words, 0, size / 4);
		ktap_end();
	}
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xf1));
	ASSERT(write(go[1], "", 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	for (size_t i = 2048; i < 3072; i++)
		ASSERT_EQ(words[i], 0xf1);
	compare(words, 0, 2048);
	compare(words + 3072, 3072, size / 4);
}

/* Memory whose protection has changed is not shared: the GPU writes to it in VRAM. */
TEST_TIMEOUT(protection_changes_in_vram, 120)
{
	const size_t size = 2 * MIB;
	struct fixture f;
	uint32_t *words;

	svm_launch(&f);
	words = words_in_vram(&f, size);
	ASSERT(mprotect(words, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xe1));
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), 0);
	ASSERT(mprotect(words, size, PROT_READ) == 0);
	ASSERT(mprotect(words, size, PROT_READ | PROT_WRITE) == 0);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 3072, 1024, 0xe2));
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), 0);
	for (size_t i = 2048; i < 4096; i++)
		ASSERT_EQ(words[i], i < 3072 ? 0xe1 : 0xe2);
	compare(words, 0, 2048);
	compare(words + 4096, 4096, size / 4);
}

/* Nor is memory that a fork() has shared, once the child has ended. */
TEST_TIMEOUT(shared_before_the_move, 120)
{
	const size_t size = 2 * MIB;
	uint32_t *words = (uint32_t *)anonymous(size);
	struct fixture f;
	int status;
	pid_t child;

	svm_launch(&f);
	for (size_t i = 0; i < size / 4; i++)
		words[i] = word_of(i);
	child = fork_child();
	if (!child)
		_exit(0);
	ASSERT(waitpid(child, &status, 0) == child);
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xe3));
	EXPECT_EQ(process_number(&f.k, "counters", "page_in"), size / KFD_PAGE);
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), 0);
	for (size_t i = 2048; i < 3072; i++)
		ASSERT_EQ(words[i], 0xe3);
	compare(words, 0, 2048);
	compare(words + 3072, 3072, size / 4);
}

/* Threads of the CPU touch pages while they are moved to VRAM. */
struct toucher {
	uint32_t *words;
	size_t count;
	bool stop;
	unsigned int errors;
};

static void *touch(void *data)
{
	struct toucher *t = data;
	unsigned int seed = 7;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		size_t i = rand_r(&seed) % t->count;

		if (__atomic_load_n(t->words + i, __ATOMIC_RELAXED) != word_of(i))
			t->errors++;
	}
	return NULL;
}

TEST_TIMEOUT(touched_meanwhile, 240)
{
	const size_t size = 2 * MIB;
	struct toucher t = { .count = size / 4 };
	pthread_t threads[2];
	struct fixture f;

	svm_launch(&f);
	t.words = words_in_vram(&f, size);
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_create(threads + i, NULL, touch, &t) == 0);
	for (unsigned int i = 0; i < ktap_repeats(100, 15); i++)
		ASSERT_OK(svm_to_vram(&f.k, t.words, size));
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_join(threads[i], NULL) == 0);
	EXPECT_EQ(t.errors, 0);
	compare(t.words, 0, size / 4);
}

/* Pages that the GPU writes to in VRAM are not dropped as clean after the migration back. */
TEST(lazily_freed_memory)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(lazily_freed(16 * KFD_PAGE), 16 * KFD_PAGE);
	ASSERT_OK(svm_to_vram(&f.k, p.cpu, p.size));
	for (size_t at = 0; at < p.size; at += KFD_PAGE)
		ASSERT_OK(fixture_fill(&f, &f.q, (uint32_t *)(p.gpu + at), 64, 0x77));
	/* Not mapped on the GPU on the way back. */
	ASSERT_OK(svm_set(&f.k, p.cpu, p.size, { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f.k.node.gpu_id },
			  { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	ASSERT(madvise(p.cpu, p.size, MADV_PAGEOUT) == 0);
	for (size_t at = 0; at < p.size; at += KFD_PAGE)
		EXPECT_EQ(*(uint32_t *)(p.cpu + at), 0x77);
}

/* The process exits with memory in VRAM, which is free afterwards. */
static void exits(void *unused)
{
	struct fixture f;

	(void)unused;
	svm_launch(&f);
	words_in_vram(&f, 8 * MIB);
	ktap_end();
}

TEST_TIMEOUT(exit_frees_vram, 120)
{
	struct fixture f;
	uint64_t before;

	svm_launch(&f);
	before = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (int i = 0; i < 4; i++)
		ASSERT_OK(ktap_in_child(exits, NULL));
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + MIB);
}
