// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests shared virtual memory of files, without retry faults: pages that are clean, that are beyond
 * the end of the file, or that cannot be mapped beside others.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "svm.h"

/* Pages of a file, shared and private; read-only pages are read. */
TEST(file_and_read_only_memory)
{
	int fd = memfd_create("svm", 0);
	struct pages pages;
	struct fixture f;
	char *p, *q, *other;

	svm_launch(&f);
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	p = anonymous(8 * KFD_PAGE);
	ASSERT(mmap(p, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	other = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(other != MAP_FAILED);
	ASSERT_OK(svm_access(&f.k, p, 8 * KFD_PAGE));
	EXPECT(svm_works(&f, p, 8 * KFD_PAGE, 0x100));
	EXPECT(!memcmp(p, other, 8 * KFD_PAGE));
	q = anonymous(8 * KFD_PAGE);
	ASSERT(mmap(q, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == q);
	ASSERT_OK(svm_access(&f.k, q, 8 * KFD_PAGE));
	EXPECT(svm_works(&f, q, 8 * KFD_PAGE, 0x200));
	EXPECT_EQ(((uint32_t *)other)[64], 0x100);
	/* Read-only for the CPU; the other mapping of the pages writes. */
	p = anonymous(8 * KFD_PAGE);
	ASSERT(mmap(p, 8 * KFD_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	ASSERT_OK(svm_access(&f.k, p, 8 * KFD_PAGE));
	pages = (struct pages){ .cpu = other, .gpu = kfd_va(p), .size = 8 * KFD_PAGE };
	for (uint32_t i = 0; i < 8; i++)
		EXPECT(gpu_reads(&f, &pages, i * KFD_PAGE + 512, 0x300 + i));
	close(fd);
}

/* The kernel drops clean pages. Those that the GPU writes to are dirty, without the CPU. */
static void expect_kept_memory(char *(*clean_memory)(size_t size))
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(clean_memory(16 * KFD_PAGE), 16 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	expect_kept(&f, &p);
}

TEST(lazily_freed_memory)
{
	expect_kept_memory(lazily_freed);
}

TEST(file_that_is_read_before)
{
	expect_kept_memory(read_before);
}

/* Memory of a file without pages in the same 2 MiB, to which the GPU is to have access. */
static void empty_file_at(struct fixture *f, char *p)
{
	int fd = memfd_create("svm-empty", 0);

	ASSERT(mmap(p, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	EXPECT_RET(svm_access(&f->k, p, 8 * KFD_PAGE), -EFAULT);
	close(fd);
}

/* The memory around a range has pages that cannot be accessed. */
TEST(attributes_beside_an_empty_file)
{
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous_huge();
	ASSERT_OK(svm_access(&f.k, p, 16 * KFD_PAGE));
	ASSERT(svm_works(&f, p, 16 * KFD_PAGE, 0x100));
	empty_file_at(&f, p + 64 * KFD_PAGE);
	EXPECT_OK(svm_set(&f.k, p, 16 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC }));
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x200));
	/* A part of it, on both sides of which it stays mapped. */
	EXPECT_OK(svm_set(&f.k, p + 4 * KFD_PAGE, 3 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC }));
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x300));
}

/* One access ends in the middle of a page of the GPU that is larger than those of the CPU. */
TEST(access_ends_beside_an_empty_file)
{
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous_huge();
	ASSERT(madvise(p, 2 * MIB, MADV_HUGEPAGE) == 0);
	memset(p, 1, 2 * MIB);
	ASSERT_OK(svm_access(&f.k, p, MIB));
	ASSERT(svm_works(&f, p, 32 * KFD_PAGE, 0x100));
	empty_file_at(&f, p + 400 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, p + 16 * KFD_PAGE, 16 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f.k.node.gpu_id }));
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x200));
	EXPECT(svm_works(&f, p + 32 * KFD_PAGE, 32 * KFD_PAGE, 0x300));
	EXPECT(svm_works(&f, p + MIB - 8 * KFD_PAGE, 8 * KFD_PAGE, 0x400));
}

/* A file is truncated that has pages beside those that the queues need. */
TEST(truncated_beside_other_memory)
{
	int fd = memfd_create("svm", 0);
	struct fixture f;
	char *p, *q;

	svm_launch(&f);
	p = anonymous_huge();
	q = p + 64 * KFD_PAGE;
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	ASSERT(mmap(q, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == q);
	ASSERT_OK(svm_access(&f.k, p, 16 * KFD_PAGE));
	ASSERT_OK(svm_access(&f.k, q, 8 * KFD_PAGE));
	ASSERT(svm_works(&f, p, 16 * KFD_PAGE, 0x100));
	ASSERT(svm_works(&f, q, 8 * KFD_PAGE, 0x200));
	/* Both within the delay of the worker, which maps them again together. */
	ASSERT(ftruncate(fd, 4 * KFD_PAGE) == 0);
	ASSERT(madvise(p, 3 * KFD_PAGE, MADV_DONTNEED) == 0);
	ASSERT(madvise(q, 2 * KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x300));
	EXPECT(svm_works(&f, q, 4 * KFD_PAGE, 0x400));
	close(fd);
}

/*
 * 8 pages that the GPU has written to, of which the first `count` are of a file. Returns the file.
 */
static int launch_with_file(struct fixture *f, char **p, size_t count)
{
	const size_t size = count * KFD_PAGE;
	int fd = memfd_create("svm", 0);

	svm_launch(f);
	*p = anonymous(8 * KFD_PAGE);
	ASSERT(ftruncate(fd, (off_t)size) == 0);
	ASSERT(mmap(*p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == *p);
	ASSERT_OK(svm_access(&f->k, *p, 8 * KFD_PAGE));
	ASSERT(svm_works(f, *p, 8 * KFD_PAGE, 0x100));
	return fd;
}

/* Pages of a file that is truncated and extended again: no notifier reports the latter. */
TEST(file_that_is_extended_again)
{
	struct fixture f;
	char *p;
	int fd;

	fd = launch_with_file(&f, &p, 8);
	ASSERT(ftruncate(fd, 4 * KFD_PAGE) == 0);
	/* The worker looks for the pages after 8, 16, 32 ms and so on. */
	usleep((useconds_t)(100000 * ktap_time_factor()));
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	usleep((useconds_t)(1000000 * ktap_time_factor()));
	EXPECT(svm_works(&f, p, 8 * KFD_PAGE, 0x200));
	close(fd);
}

/* The worker that looks for pages once a second restores evicted queues at once. */
TEST(restored_beside_refused_pages)
{
	struct fixture f;
	double start;
	char *p;
	int fd;

	fd = launch_with_file(&f, &p, 4);
	ASSERT(ftruncate(fd, KFD_PAGE) == 0);
	sleep(2);
	start = seconds_now();
	for (uint32_t i = 0; i < 5; i++) {
		ASSERT(!madvise(p + 4 * KFD_PAGE, KFD_PAGE, MADV_DONTNEED));
		EXPECT(svm_works(&f, p + 4 * KFD_PAGE, 4 * KFD_PAGE, 0x200 + i));
	}
	EXPECT(seconds_now() - start < 2 * ktap_time_factor(), "%.1f s", seconds_now() - start);
	close(fd);
}
