// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests ranges in VRAM across the end of the device: contents survive a suspend and the removal of
 * the device; a read of pages that a reset has lost ends in SIGBUS. And changes of memory while a
 * device does not respond.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "hanglib.h"
#include "listen.h"
#include "svm.h"

#define COUNT (6 * MIB / 4)
/* The words that the GPU writes. */
#define FIRST 8192
#define END 9216

static uint32_t word_of(size_t i)
{
	return i >= FIRST && i < END ? 0x5a5a : (uint32_t)i * 5 + 1;
}

/* Memory in VRAM, some of which the GPU has written. */
static uint32_t *words_in_vram(struct fixture *f)
{
	uint32_t *words = (uint32_t *)anonymous(COUNT * 4);

	for (size_t i = 0; i < COUNT; i++)
		words[i] = (uint32_t)i * 5 + 1;
	ASSERT_OK(svm_to_vram(&f->k, words, COUNT * 4));
	ASSERT_OK(fixture_fill(f, &f->q, words + FIRST, END - FIRST, 0x5a5a));
	return words;
}

static void compare(const uint32_t *words)
{
	for (size_t i = 0; i < COUNT; i++)
		ASSERT(words[i] == word_of(i), "word %zu: %#x, not %#x", i, words[i], word_of(i));
}

static sigjmp_buf after_fault;

static void faulted(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* Returns whether an access gets SIGBUS. */
static bool is_lost(const volatile uint32_t *word)
{
	if (sigsetjmp(after_fault, 1))
		return true;
	(void)*word;
	return false;
}

/* All of the memory is lost; other memory is not. */
static void expect_lost(struct fixture *f, uint32_t *words, const uint32_t *other)
{
	ASSERT(signal(SIGBUS, faulted) != SIG_ERR);
	/* What is in VRAM is not their contents. */
	EXPECT_RET(svm_set(&f->k, words, COUNT * 4, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }), -EIO);
	for (size_t i = 0; i < COUNT; i += 1024)
		ASSERT(is_lost(words + i), "word %zu: %#x", i, words[i]);
	for (uint32_t i = 0; i < 1024; i++)
		ASSERT_EQ(other[i], i);
	ASSERT(munmap(words, COUNT * 4) == 0);
	kfd_queue_destroy(&f->q);
}

static uint32_t *words_in_system(void)
{
	uint32_t *words = (uint32_t *)anonymous(KFD_PAGE);

	for (uint32_t i = 0; i < 1024; i++)
		words[i] = i;
	return words;
}

TEST_TIMEOUT(suspend, 180)
{
	struct fixture f;
	uint32_t *words;

	fixture_launch(&f);
	svm_needed(&f.k);
	words = words_in_vram(&f);
	ASSERT_OK(try_to_sleep("devices"));
	/* First the GPU. */
	ASSERT_OK(fixture_fill(&f, &f.q, words + FIRST, END - FIRST, 0x5a5a));
	compare(words);
	EXPECT(svm_works(&f, words, 4 * KFD_PAGE, 0x100));
}

TEST_TIMEOUT(removal, 180)
{
	struct fixture f;
	uint32_t *words;

	device_find();
	fixture_launch(&f);
	svm_needed(&f.k);
	words = words_in_vram(&f);
	ASSERT_OK(device_remove());
	compare(words);
	ASSERT_OK(device_rescan());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	compare(words);
}

/* Resets the card; the process gets an event of it. */
static void reset_with_event(struct kfd *k)
{
	uint32_t event;

	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	device_reset();
	EXPECT_EQ(expect_hang_event(k, event, WAIT_MS), 1);
}

TEST_TIMEOUT(reset_of_the_function, 180)
{
	uint32_t *words, *other;
	struct fixture f;

	device_need_reset();
	fixture_launch(&f);
	svm_needed(&f.k);
	words = words_in_vram(&f);
	other = words_in_system();
	reset_with_event(&f.k);
	expect_lost(&f, words, other);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* New memory in VRAM beside some that was there before a reset, within the same 2 MiB. */
TEST_TIMEOUT(lost_beside_other_memory, 180)
{
	uint32_t *words, *other;
	struct fixture f;

	device_need_reset();
	fixture_launch(&f);
	svm_needed(&f.k);
	words = anonymous_huge();
	other = words + MIB / 4;
	memset(words, 0x3c, 2 * MIB);
	ASSERT_OK(svm_to_vram(&f.k, words, MIB));
	reset_with_event(&f.k);
	ASSERT(signal(SIGBUS, faulted) != SIG_ERR);
	ASSERT_OK(svm_to_vram(&f.k, other, MIB));
	/* An access of the CPU takes back what is around. */
	EXPECT_EQ(other[0], 0x3c3c3c3c);
	for (size_t i = 0; i < MIB / 4; i += 1024) {
		ASSERT(is_lost(words + i), "word %zu: %#x", i, words[i]);
		ASSERT_EQ(other[i], 0x3c3c3c3c);
	}
	kfd_queue_destroy(&f.q);
}

/* Allocates all VRAM that is available, for ktap_in_child. */
static void takes_vram(void *unused)
{
	uint64_t available = 0;
	struct kfd_bo *bo;
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &available));
	ktap_note("%llu MiB available", (unsigned long long)available >> 20);
	for (uint64_t left = available / (2 * MIB); left; left -= left > 4 ? 4 : left)
		ASSERT_OK(kfd_bo_create(&k, (left > 4 ? 4 : left) * 2 * MIB, KFD_FLAGS_VRAM, &bo));
	ktap_end();
}

/* VRAM whose contents a reset has lost is available to others, and no GPU accesses it. */
TEST_TIMEOUT(lost_memory_is_free, 240)
{
	struct kfd_event_data event = { 0 };
	uint64_t available = 0;
	uint32_t *words, *last;
	struct fixture f;
	size_t size;
	int rc;

	device_need_reset();
	fixture_launch(&f);
	svm_needed(&f.k);
	ASSERT_OK(kfd_available(&f.k, &available));
	if (available > 1ull << 30)
		SKIP("%llu MiB of VRAM", (unsigned long long)available >> 20);
	/* More than fits: all VRAM is in use. */
	size = available * 3 / (2 * MIB) * 2 * MIB;
	last = words = (uint32_t *)anonymous(size);
	for (size_t at = 0; at < size; at += 2 * MIB) {
		last = words + at / 4;
		ASSERT_OK(svm_to_vram(&f.k, last, 2 * MIB));
	}
	ASSERT_OK(kfd_queue_destroy(&f.q));
	reset_with_event(&f.k);
	/* No fork() before: the memory is not shared. */
	do {
		usleep(10000);
		rc = kfd_queue_create(&f.k, &f.q, 64);
	} while (rc == -EIO);
	ASSERT_OK(rc);
	/* The code may have been in VRAM. */
	kfd_code_unload(&f.k, &f.code);
	ASSERT_OK(kfd_kernels(&f.k, &f.code));
	EXPECT_RET(svm_to_vram(&f.k, last, 2 * MIB), -EIO);
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, true, &event.event_id));
	fixture_fill_start(&f, &f.q, &f.signal, 0, last, 64, 1);
	EXPECT_EQ(event_result(&f.k, event.event_id, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(f.signal.s->value, 1);
	EXPECT_EQ(ktap_in_child(takes_vram, NULL), 0);
	ASSERT(signal(SIGBUS, faulted) != SIG_ERR);
	EXPECT(is_lost(last));
	ASSERT(munmap(words, size) == 0);
	kfd_queue_destroy(&f.q);
}

/* The GPU does not preempt queues (model knob hws.no_preempt) and is reset. */
TEST_TIMEOUT(reset_after_a_hang, 180)
{
	uint32_t *words, *other, event;
	struct fixture f;

	hangs_needed();
	fixture_launch(&f);
	svm_needed(&f.k);
	words = words_in_vram(&f);
	other = words_in_system();
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ktap_in_child(hang_gpu, NULL);
	EXPECT_EQ(expect_hang_event(&f.k, event, 60000), 1);
	expect_lost(&f, words, other);
}

static void *truncate_file(void *file)
{
	ASSERT(ftruncate(*(int *)file, KFD_PAGE) == 0);
	return NULL;
}

/*
 * Memory gets attributes, and is unmapped, while an invalidation of other memory waits for the
 * preemption of the queue, without the mmap lock. The kernel calls no new notifier until that ends.
 */
TEST_TIMEOUT(munmap_during_an_invalidation, 180)
{
	const size_t size = 8 * KFD_PAGE, window = 64 * MIB;
	int fd = memfd_create("svm", 0);
	struct svm_state state;
	pthread_t thread;
	struct fixture f;
	char *p, *other;

	hangs_needed();
	fixture_launch(&f);
	svm_needed(&f.k);
	ASSERT(ftruncate(fd, (off_t)size) == 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(p != MAP_FAILED);
	other = (char *)((kfd_va(anonymous(2 * window)) + window - 1) & ~(window - 1));
	ASSERT_OK(svm_access(&f.k, p, size));
	ASSERT(svm_works(&f, p, size, 0x100));
	ASSERT(!pthread_create(&thread, NULL, truncate_file, &fd));
	usleep(500000);
	ASSERT_OK(svm_set(&f.k, other, KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 3 }));
	ASSERT(munmap(other, KFD_PAGE) == 0);
	ASSERT(mmap(other, KFD_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == other);
	ASSERT(!pthread_join(thread, NULL));
	ASSERT_OK(svm_get(&f.k, other, KFD_PAGE, &state));
	EXPECT_EQ(state.granularity, SVM_DEFAULT_GRANULARITY);
	close(fd);
}
