// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests that changes of the process's memory unmap it from the GPU, with retry faults: no queue is
 * evicted, and no access finds the former pages.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "listen.h"
#include "svm.h"

/* Changes of the process's memory only unmap it: no queue is evicted. */
TEST_TIMEOUT(invalidations_unmap, 120)
{
	const char *text;
	struct pages p;
	struct fixture f;
	char wanted[96];
	int fd;

	svm_launch_mode(&f, true);
	p = svm_pages(anonymous(8 * KFD_PAGE), 8 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, p.cpu, p.size, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	fd = listen_to_svm(&f.k);
	ASSERT(svm_works(&f, p.cpu, p.size, 0x100));
	text = listen_lines(fd, 500);
	ktap_note("%s", text);
	EXPECT(listen_count(text, KFD_SMI_EVENT_PAGE_FAULT_START) >= 1);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_PAGE_FAULT_START),
		  listen_count(text, KFD_SMI_EVENT_PAGE_FAULT_END));
	snprintf(wanted, sizeof(wanted), "-%d @%lx(%x) W\n", getpid(), kfd_va(p.cpu) >> 12,
		 f.k.node.gpu_id);
	EXPECT(strstr(text, wanted) != NULL, "no '%s'", wanted);
	snprintf(wanted, sizeof(wanted), "-%d @%lx(%x) U\n", getpid(), kfd_va(p.cpu) >> 12,
		 f.k.node.gpu_id);
	EXPECT(strstr(text, wanted) != NULL, "no '%s'", wanted);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_QUEUE_EVICTION), 0);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_MIGRATE_START), 0);
	ASSERT(madvise(p.cpu + KFD_PAGE, 2 * KFD_PAGE, MADV_DONTNEED) == 0);
	text = listen_lines(fd, 500);
	ktap_note("%s", text);
	snprintf(wanted, sizeof(wanted), "-%d @%lx(2) %x %d\n", getpid(),
		 (kfd_va(p.cpu) >> 12) + 1, f.k.node.gpu_id, KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_QUEUE_EVICTION), 0);
	EXPECT(gpu_writes(&f, &p, KFD_PAGE, 64, 0x200));
	EXPECT(gpu_writes(&f, &p, 2 * KFD_PAGE, 64, 0x201));
	listen_lines(fd, 500);
	ASSERT(munmap(p.cpu + 4 * KFD_PAGE, KFD_PAGE) == 0);
	text = listen_lines(fd, 500);
	ktap_note("%s", text);
	snprintf(wanted, sizeof(wanted), "-%d @%lx(1) %x %d\n", getpid(),
		 (kfd_va(p.cpu) >> 12) + 4, f.k.node.gpu_id,
		 KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	EXPECT(svm_works(&f, p.cpu, 4 * KFD_PAGE, 0x300));
	EXPECT(svm_works(&f, p.cpu + 5 * KFD_PAGE, 3 * KFD_PAGE, 0x400));
	ASSERT(mprotect(p.cpu, 4 * KFD_PAGE, PROT_READ) == 0);
	ASSERT(mprotect(p.cpu, 4 * KFD_PAGE, PROT_READ | PROT_WRITE) == 0);
	EXPECT(svm_works(&f, p.cpu, 4 * KFD_PAGE, 0x500));
	EXPECT_EQ(listen_count(listen_lines(fd, 500), KFD_SMI_EVENT_QUEUE_EVICTION), 0);
	close(fd);
}

struct changes {
	char *start;
	size_t pages;
	bool stop;
	unsigned int count;
};

/* Replaces and protects pages at random until it is stopped. */
static void *change_pages(void *data)
{
	struct changes *c = data;
	unsigned int seed = 1;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		char *p = c->start + (size_t)rand_r(&seed) % (c->pages - 4) * KFD_PAGE;
		int prot = PROT_READ | PROT_WRITE | (seed & 1 ? PROT_EXEC : 0);

		if (__atomic_fetch_add(&c->count, 1, __ATOMIC_RELAXED) % 3)
			EXPECT(madvise(p, 4 * KFD_PAGE, MADV_DONTNEED) == 0);
		else
			EXPECT(mprotect(p, 4 * KFD_PAGE, prot) == 0);
		usleep(100);
	}
	return NULL;
}

/* The GPU writes while pages are taken away all the time: no queue is evicted, none hangs. */
TEST_TIMEOUT(invalidation_storm, 240)
{
	struct changes c = { .pages = 256 };
	unsigned int launches = 0;
	pthread_t threads[2];
	struct fixture f;
	double end;
	int fd;

	svm_launch_mode(&f, true);
	c.start = anonymous(c.pages * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, c.start, c.pages * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
			  { KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 }));
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION));
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_create(&threads[i], NULL, change_pages, &c) == 0);
	end = seconds_now() + 4;
	while (seconds_now() < end) {
		launches++;
		ASSERT_OK(fixture_fill(&f, &f.q, (uint32_t *)c.start, (uint32_t)c.pages * 1024,
				       launches));
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_join(threads[i], NULL) == 0);
	ktap_note("%u launches, %u changes", launches, c.count);
	EXPECT(launches > 0 && c.count > 0);
	ASSERT_OK(fixture_fill(&f, &f.q, (uint32_t *)c.start, (uint32_t)c.pages * 1024, 0x600d));
	for (size_t i = 0; i < c.pages * 1024; i++)
		ASSERT(((uint32_t *)c.start)[i] == 0x600d, "word %zu", i);
	EXPECT(!strcmp(listen_lines(fd, 100), ""));
	close(fd);
}

/*
 * A fragment of 256 pages of which the first is replaced: the L1 TLB may cache the others by it,
 * and it by the others, unless the driver maps all of them again.
 */
TEST_TIMEOUT(rest_of_a_fragment, 120)
{
	struct fixture f;
	struct pages p;
	char *all;

	svm_launch_mode(&f, true);
	all = anonymous_huge();
	p = svm_pages(all, MIB);
	ASSERT(madvise(all, 2 * MIB, MADV_HUGEPAGE) == 0);
	memset(all, 1, 2 * MIB);
	/* Without a PMD, whose split would invalidate everything. The pages stay contiguous. */
	ASSERT(madvise(all + 2 * MIB - KFD_PAGE, KFD_PAGE, MADV_DONTNEED) == 0);
	ASSERT_OK(svm_set(&f.k, p.cpu, MIB, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
			  { KFD_IOCTL_SVM_ATTR_GRANULARITY, 8 }));
	EXPECT(gpu_writes(&f, &p, 100 * KFD_PAGE, 64, 1));
	ASSERT_OK(svm_set(&f.k, p.cpu, MIB, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 }));
	ASSERT(madvise(p.cpu, KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(gpu_reads(&f, &p, 100 * KFD_PAGE + 1024, 0x55));
	EXPECT(gpu_writes(&f, &p, 0, 64, 2));
	/* The model reports a PTE that is the same 200 ms later. */
	for (uint32_t i = 0; i < 6; i++) {
		EXPECT(gpu_writes(&f, &p, (101 + i) * KFD_PAGE, 64, 3));
		usleep(60 * 1000);
	}
	EXPECT(gpu_writes(&f, &p, 100 * KFD_PAGE, 64, 4));
}
