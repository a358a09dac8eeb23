// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests shared virtual memory without retry faults: the GPU uses memory of the process that is
 * mapped when its attributes are set, while the process changes it.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "listen.h"
#include "svm.h"

TEST(anonymous_memory)
{
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous(64 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p, 64 * KFD_PAGE));
	EXPECT(svm_works(&f, p, 64 * KFD_PAGE, 0x1000));
	/* Touched by the CPU before; in place. */
	p = anonymous(16 * KFD_PAGE);
	memset(p, 0x5a, 16 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, p, 16 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, f.k.node.gpu_id }));
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x2000));
	EXPECT_EQ(p[0], 0x5a);
	EXPECT_EQ(p[2048], 0x5a);
}

/* Memory of malloc() and the stack, with other data on the same pages. */
TEST(heap_and_stack)
{
	static char here[4 * KFD_PAGE] __attribute__((aligned(4096)));
	char stack[2 * KFD_PAGE] __attribute__((aligned(4096)));
	struct fixture f;
	char *small = malloc(300000), *page;

	svm_launch(&f);
	ASSERT(small != NULL);
	page = (char *)((kfd_va(small) + KFD_PAGE - 1) & ~(KFD_PAGE - 1));
	ASSERT_OK(svm_access(&f.k, page, 64 * KFD_PAGE));
	EXPECT(svm_works(&f, page, 64 * KFD_PAGE, 0x3000));
	ASSERT_OK(svm_access(&f.k, here, sizeof(here)));
	EXPECT(svm_works(&f, here, sizeof(here), 0x4000));
	memset(stack, 1, sizeof(stack));
	ASSERT_OK(svm_access(&f.k, stack, sizeof(stack)));
	EXPECT(svm_works(&f, stack, sizeof(stack), 0x5000));
	free(small);
}

struct neighbour {
	struct fixture *f;
	char *p;
	bool stop;
};

/* Registers and unmaps a page again and again. */
static void *come_and_go(void *data)
{
	struct neighbour *n = data;

	while (!__atomic_load_n(&n->stop, __ATOMIC_RELAXED)) {
		ASSERT(mmap(n->p, KFD_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == n->p);
		ASSERT_OK(svm_access(&n->f->k, n->p, KFD_PAGE));
		ASSERT(munmap(n->p, KFD_PAGE) == 0);
	}
	return NULL;
}

TEST_TIMEOUT(attributes_while_a_neighbour_is_unmapped, 120)
{
	struct neighbour n = { 0 };
	pthread_t thread;
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous_huge();
	ASSERT_OK(svm_access(&f.k, p, 16 * KFD_PAGE));
	n.f = &f;
	n.p = p + 64 * KFD_PAGE;
	ASSERT(!pthread_create(&thread, NULL, come_and_go, &n));
	for (int i = 0; i < 1000; i++)
		ASSERT_OK(svm_set(&f.k, p, 16 * KFD_PAGE,
				  { i % 2 ? KFD_IOCTL_SVM_ATTR_SET_FLAGS :
					    KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
				    KFD_IOCTL_SVM_FLAG_GPU_EXEC }));
	__atomic_store_n(&n.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x100));
}

/* Huge pages, and a range that begins and ends within them. */
TEST_TIMEOUT(huge_pages, 120)
{
	struct fixture f;
	struct pages p;
	char *all;

	svm_launch(&f);
	all = anonymous(8 * MIB);
	ASSERT(madvise(all, 8 * MIB, MADV_HUGEPAGE) == 0);
	memset(all, 1, 8 * MIB);
	p = svm_pages(all + KFD_PAGE, 8 * MIB - 2 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	for (size_t at = 0; at < p.size; at += 37 * KFD_PAGE)
		ASSERT(gpu_writes(&f, &p, at, 64, (uint32_t)at + 1));
	ASSERT(gpu_reads(&f, &p, p.size - 256, 0x777));
	/* Split below the range. */
	ASSERT(madvise(all + 3 * MIB, KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(gpu_writes(&f, &p, 3 * MIB - KFD_PAGE, 64, 0x888));
	EXPECT(gpu_writes(&f, &p, 3 * MIB, 64, 0x999));
}

/* The GPU follows the process: new pages after MADV_DONTNEED, other pages after MAP_FIXED. */
TEST(pages_are_replaced)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(anonymous(16 * KFD_PAGE), 16 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	ASSERT(svm_works(&f, p.cpu, p.size, 0x100));
	for (uint32_t i = 0; i < 5; i++) {
		ASSERT(madvise(p.cpu + i * KFD_PAGE, 4 * KFD_PAGE, MADV_DONTNEED) == 0);
		EXPECT(gpu_writes(&f, &p, (i + 1) * KFD_PAGE, 64, 0x200 + i));
		EXPECT(gpu_reads(&f, &p, (i + 3) * KFD_PAGE, 0x300 + i));
		EXPECT_EQ(((uint32_t *)p.cpu)[64 + (i + 1) * 1024], 0);
	}
	/* Twice in a row, without a launch between. */
	ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
	memset(p.cpu, 9, KFD_PAGE);
	ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
	EXPECT(svm_works(&f, p.cpu, p.size, 0x400));
}

TEST(munmap_in_the_middle)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(anonymous(16 * KFD_PAGE), 16 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	ASSERT(svm_works(&f, p.cpu, p.size, 0x100));
	ASSERT(munmap(p.cpu + 6 * KFD_PAGE, 4 * KFD_PAGE) == 0);
	EXPECT(svm_works(&f, p.cpu, 6 * KFD_PAGE, 0x200));
	EXPECT(svm_works(&f, p.cpu + 10 * KFD_PAGE, 6 * KFD_PAGE, 0x300));
	/* Mapped again and registered again. */
	ASSERT(mmap(p.cpu + 6 * KFD_PAGE, 4 * KFD_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p.cpu + 6 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	EXPECT(svm_works(&f, p.cpu, p.size, 0x400));
	ASSERT(munmap(p.cpu, p.size) == 0);
	EXPECT(fixture_works(&f));
}

TEST(mprotect_and_back)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(anonymous(8 * KFD_PAGE), 8 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	ASSERT(svm_works(&f, p.cpu, p.size, 0x100));
	ASSERT(mprotect(p.cpu + 2 * KFD_PAGE, 2 * KFD_PAGE, PROT_READ) == 0);
	/* The rest of the range can still be written. */
	EXPECT(gpu_writes(&f, &p, 0, 64, 0x200));
	EXPECT(gpu_writes(&f, &p, 4 * KFD_PAGE, 64, 0x201));
	ASSERT(mprotect(p.cpu + 2 * KFD_PAGE, 2 * KFD_PAGE, PROT_READ | PROT_WRITE) == 0);
	EXPECT(svm_works(&f, p.cpu, p.size, 0x300));
	ASSERT(mprotect(p.cpu, p.size, PROT_NONE) == 0);
	EXPECT(fixture_works(&f));
	ASSERT(mprotect(p.cpu, p.size, PROT_READ | PROT_WRITE) == 0);
	EXPECT(svm_works(&f, p.cpu, p.size, 0x400));
}

/*
 * Memory that the process cannot read, at addresses without page tables: nothing is mapped, which
 * is no error, and no notifier reports that it can be read later. SET_ATTR maps it then.
 */
TEST(memory_that_cannot_be_read)
{
	static const int protections[] = { PROT_NONE, PROT_WRITE };
	const size_t size = 3ul << 30;
	struct fixture f;
	char *all, *p;

	svm_launch(&f);
	for (uint32_t i = 0; i < 2; i++) {
		all = mmap(NULL, size, protections[i],
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ASSERT(all != MAP_FAILED);
		p = (char *)((kfd_va(all) + (1ul << 30) - 1) & ~((1ul << 30) - 1));
		EXPECT_OK(svm_access(&f.k, p, 2 * MIB));
		EXPECT(fixture_works(&f));
		ASSERT(mprotect(p, 2 * MIB, PROT_READ | PROT_WRITE) == 0);
		EXPECT_OK(svm_access(&f.k, p, 2 * MIB));
		EXPECT(svm_works(&f, p, 2 * KFD_PAGE, 0x100 + i));
		ASSERT(munmap(all, size) == 0);
	}
}

TEST(mremap_moves_the_memory_away)
{
	struct pages p;
	struct fixture f;
	char *to;

	svm_launch(&f);
	p = svm_pages(anonymous(8 * KFD_PAGE), 8 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	ASSERT(svm_works(&f, p.cpu, p.size, 0x100));
	to = anonymous(8 * KFD_PAGE);
	ASSERT(mremap(p.cpu + 4 * KFD_PAGE, 4 * KFD_PAGE, 4 * KFD_PAGE,
		      MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	EXPECT_EQ(((uint32_t *)to)[64], 0x104);
	EXPECT(svm_works(&f, p.cpu, 4 * KFD_PAGE, 0x200));
	ASSERT_OK(svm_access(&f.k, to, 4 * KFD_PAGE));
	EXPECT(svm_works(&f, to, 4 * KFD_PAGE, 0x300));
}

/* After fork() the first write of the parent copies the page: the GPU writes the parent's. */
TEST(fork_copies_on_write)
{
	struct pages p;
	struct fixture f;
	int status, go[2], done[2];
	pid_t child;
	char byte;

	svm_launch(&f);
	p = svm_pages(anonymous(8 * KFD_PAGE), 8 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	ASSERT(gpu_writes(&f, &p, 0, 1024, 0x111));
	ASSERT(gpu_writes(&f, &p, KFD_PAGE, 1024, 0x222));
	ASSERT(pipe(go) == 0 && pipe(done) == 0);
	child = fork_child();
	if (!child) {
		EXPECT_EQ(((uint32_t *)p.cpu)[5], 0x111);
		((uint32_t *)p.cpu)[5] = 0x555;
		ASSERT(write(done[1], "", 1) == 1);
		ASSERT(read(go[0], &byte, 1) == 1);
		EXPECT_EQ(((uint32_t *)p.cpu)[0], 0x111);
		EXPECT_EQ(((uint32_t *)p.cpu)[5], 0x555);
		EXPECT_EQ(((uint32_t *)p.cpu)[1024], 0x222);
		ktap_end();
	}
	ASSERT(read(done[0], &byte, 1) == 1);
	EXPECT_EQ(((uint32_t *)p.cpu)[5], 0x111);
	EXPECT(gpu_writes(&f, &p, 0, 1024, 0x333));
	EXPECT(gpu_writes(&f, &p, KFD_PAGE, 1024, 0x444));
	ASSERT(write(go[1], "", 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	EXPECT(svm_works(&f, p.cpu, p.size, 0x500));
}

/* Makes memory of the process the save area of a queue that is not started. */
static char *new_save_area(struct fixture *f, struct kfd_queue *q,
			   struct kfd_ioctl_create_queue_args *args, size_t *size)
{
	char *p;

	svm_launch(f);
	*size = kfd_cwsr_bytes(&f->k.node);
	p = anonymous(*size);
	memset(p, 0, *size);
	ASSERT_OK(kfd_queue_prepare(&f->k, q, 64, args));
	args->ctx_save_restore_address = kfd_va(p);
	return p;
}

/* Registers a save area with the flags of the runtime. */
static int register_save_area(struct fixture *f, char *p, size_t size)
{
	return svm_set(&f->k, p, size, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
		       { KFD_IOCTL_SVM_ATTR_CLR_FLAGS, ~0x51u },
		       { KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0x51 },
		       { KFD_IOCTL_SVM_ATTR_ACCESS, f->k.node.gpu_id });
}

/* The context save area of a queue as shared virtual memory. */
TEST(context_save_area)
{
	struct kfd_ioctl_create_queue_args args;
	struct fixture f;
	struct kfd_queue q;
	size_t size;
	char *p;

	p = new_save_area(&f, &q, &args, &size);
	/* Not registered; mapped, but not always. */
	EXPECT_RET(kfd_queue_start(&q, &args), -EINVAL);
	ASSERT_OK(svm_access(&f.k, p, size));
	EXPECT_RET(kfd_queue_start(&q, &args), -EINVAL);
	ASSERT_OK(register_save_area(&f, p, size));
	ASSERT_OK(kfd_queue_start(&q, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&q));
	for (uint32_t i = 0; i < 20; i++) {
		ASSERT_OK(fixture_fill(&f, &q, f.data->va, 64, i + 1));
		ASSERT_EQ(((uint32_t *)f.data->va)[63], i + 1);
		/* New pages: the queue stops meanwhile. */
		ASSERT(madvise(p, KFD_PAGE, MADV_DONTNEED) == 0);
	}
	ASSERT_OK(kfd_queue_stop(&q));
}

/*
 * A queue stops for good when its context save area is unmapped, which is reported once: later
 * evictions are those of changes, which end.
 */
TEST(context_save_area_is_replaced_again)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q;
	struct fixture f;
	int events;
	size_t size;
	char *p;

	p = new_save_area(&f, &q, &args, &size);
	ASSERT_OK(register_save_area(&f, p, size));
	ASSERT_OK(kfd_queue_start(&q, &args));
	events = listen_to_svm(&f.k);
	for (int i = 0; i < 4; i++) {
		unsigned int evictions, restores;
		const char *lines;

		ASSERT(mmap(p, KFD_PAGE, PROT_READ | PROT_WRITE,
			    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p);
		lines = listen_lines(events, 100);
		evictions = listen_count(lines, KFD_SMI_EVENT_QUEUE_EVICTION);
		restores = listen_count(lines, KFD_SMI_EVENT_QUEUE_RESTORE);
		if (i)
			EXPECT_EQ(evictions, restores);
		else
			EXPECT(evictions > restores, "%u and %u", evictions, restores);
	}
	close(events);
}

static void waits_for(void *data)
{
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous(64 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p, 64 * KFD_PAGE));
	ASSERT(svm_works(&f, p, 4 * KFD_PAGE, 0x100));
	/* Ends with work in its queue, and by a signal. */
	for (uint32_t i = 0; i < 20; i++)
		fixture_fill_start(&f, &f.q, NULL, i, (uint32_t *)p, 64 * 1024, i);
	if (data)
		raise(SIGKILL);
}

/* Memory that the process has to provide itself (userfaultfd), and does not. */
static void wait_for_own_page(int ready)
{
	struct svm_state s;
	struct fixture f;
	char *p;

	svm_launch(&f);
	p = anonymous(16 * KFD_PAGE);
	memset(p, 1, 16 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p, 16 * KFD_PAGE));
	fixture_hold(p, 16 * KFD_PAGE, UFFDIO_REGISTER_MODE_MISSING);
	ASSERT(!madvise(p, 16 * KFD_PAGE, MADV_DONTNEED));
	usleep(300000);
	ASSERT(write(ready, "", 1) == 1);
	svm_get(&f.k, p, KFD_PAGE, &s);
	pause();
}

TEST(killed_with_missing_userfaultfd_pages)
{
	int ready[2], status = 0;
	pid_t child;
	struct kfd k;
	char byte;

	close(fixture_hold(anonymous(KFD_PAGE), KFD_PAGE, UFFDIO_REGISTER_MODE_MISSING));
	fixture_open(&k);
	svm_needed(&k);
	ASSERT(!pipe(ready));
	child = fork_child();
	if (!child) {
		wait_for_own_page(ready[1]);
		_exit(1);
	}
	ASSERT(read(ready[0], &byte, 1) == 1);
	usleep(200000);
	kill(child, SIGKILL);
	for (int i = 0; i < 2000 && !waitpid(child, &status, WNOHANG); i++)
		usleep(10000);
	EXPECT(WIFSIGNALED(status), "status %#x", status);
}

/* As svm_launch(), with 16 pages for the GPU. Returns a userfaultfd for those that are missing. */
static int launch_with_userfaultfd(struct fixture *f, struct pages *p, int flags)
{
	svm_launch(f);
	*p = svm_pages(anonymous(16 * KFD_PAGE), 16 * KFD_PAGE);
	memset(p->cpu, 1, p->size);
	ASSERT_OK(svm_access(&f->k, p->cpu, p->size));
	return fixture_hold_for(p->cpu, p->size, UFFDIO_REGISTER_MODE_MISSING, flags);
}

/* Pages that another thread provides later: the queues wait for them. */
TEST(pages_come_by_userfaultfd)
{
	struct uffdio_zeropage zero = { .range = { .len = 16 * KFD_PAGE } };
	struct fixture f;
	struct pages p;
	int file;

	file = launch_with_userfaultfd(&f, &p, 0);
	ASSERT(!madvise(p.cpu, p.size, MADV_DONTNEED));
	usleep(100000);
	zero.range.start = p.gpu;
	ASSERT(!ioctl(file, UFFDIO_ZEROPAGE, &zero));
	EXPECT(svm_works(&f, p.cpu, p.size, 0x700));
	close(file);
}

/* A userfaultfd that provides pages to user space only: the queues do not wait for them. */
TEST(pages_of_a_userfaultfd_for_user_space)
{
	struct fixture f;
	struct pages p;
	int file;

	file = launch_with_userfaultfd(&f, &p, UFFD_USER_MODE_ONLY);
	ASSERT(!madvise(p.cpu, p.size / 2, MADV_DONTNEED));
	usleep(100000);
	EXPECT(fixture_works(&f));
	EXPECT(svm_works(&f, p.cpu + p.size / 2, p.size / 2, 0x700));
	close(file);
}

/* A page in the page cache needs no userfaultfd, also if the process has not mapped it yet. */
TEST(cached_pages_below_a_userfaultfd)
{
	const size_t size = 8 * KFD_PAGE;
	int fd = memfd_create("svm", 0), file;
	struct fixture f;
	char *p;

	svm_launch(&f);
	ASSERT(ftruncate(fd, size) == 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(p != MAP_FAILED);
	ASSERT_OK(svm_access(&f.k, p, size));
	ASSERT(svm_works(&f, p, size, 0x100));
	file = fixture_hold(p, size, UFFDIO_REGISTER_MODE_MISSING);
	/* The page table of the process, not the pages. */
	ASSERT(madvise(p, size, MADV_DONTNEED) == 0);
	EXPECT(svm_works(&f, p, size, 0x200));
	close(file);
	close(fd);
}

/*
 * A buffer at an address with attributes, but without access, in the 2 MiB of other memory, which
 * the GPU can access all the same.
 */
TEST(buffer_beside_memory)
{
	struct pages u;
	struct fixture f;
	char *p, *q;

	svm_launch(&f);
	p = anonymous_huge();
	q = anonymous(4 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p, 4 * KFD_PAGE));
	ASSERT(svm_works(&f, p, 4 * KFD_PAGE, 0x100));
	ASSERT_OK(try_register(&f.k, q, kfd_va(p) + MIB, 4 * KFD_PAGE, FLAGS, &u));
	ASSERT_OK(svm_set(&f.k, p + MIB, KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 9 }));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &u.bo));
	ASSERT(gpu_writes(&f, &u, 0, 64, 0x200));
	EXPECT_OK(svm_access(&f.k, p + 8 * KFD_PAGE, 4 * KFD_PAGE));
	EXPECT_RET(svm_access(&f.k, p + MIB, KFD_PAGE), -EADDRINUSE);
	/* The worker maps the pages again. */
	ASSERT(madvise(p, 4 * KFD_PAGE, MADV_DONTNEED) == 0);
	usleep(100000);
	EXPECT(svm_works(&f, p, 4 * KFD_PAGE, 0x300));
	EXPECT(gpu_writes(&f, &u, 0, 64, 0x400));
	EXPECT_OK(unregister(&f.k, &u));
	EXPECT_OK(svm_access(&f.k, p + MIB, KFD_PAGE));
	EXPECT(svm_works(&f, p + MIB, KFD_PAGE, 0x500));
}

TEST(exit_with_ranges)
{
	struct fixture f;
	int status;
	pid_t child;

	svm_launch(&f);
	EXPECT_OK(ktap_in_child(waits_for, NULL));
	child = fork_child();
	if (!child)
		waits_for(&child);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x", status);
	EXPECT(fixture_works(&f));
}

/* Two queues and two threads of invalidations; each launch reads all values written before it. */
TEST_TIMEOUT(many_invalidations, 120)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(anonymous(32 * KFD_PAGE), 32 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	for (uint32_t i = 0; i < 60; i++) {
		size_t at = i % 32 * KFD_PAGE;

		ASSERT(madvise(p.cpu + at, KFD_PAGE, MADV_DONTNEED) == 0);
		ASSERT(gpu_writes(&f, &p, at, 64, i + 1));
	}
}

/* Each change of the memory evicts the queues, which are restored with the new mapping. */
TEST(eviction_events)
{
	char wanted[96], again;
	unsigned long long ns, ns2;
	const char *text, *restored;
	struct pages p;
	struct fixture f;
	unsigned int gpu;
	int fd, pid;

	svm_launch(&f);
	p = svm_pages(anonymous(4 * KFD_PAGE), 4 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
				     KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE));
	ASSERT(madvise(p.cpu, KFD_PAGE, MADV_DONTNEED) == 0);
	snprintf(wanted, sizeof(wanted), " -%d %x %d\n", getpid(), f.k.node.gpu_id,
		 KFD_QUEUE_EVICTION_TRIGGER_SVM);
	listen_for_line(fd, wanted, &text);
	ASSERT(sscanf(text, "9 %llu -%d %x", &ns, &pid, &gpu) == 3, "%s", text);
	restored = strstr(text, "\na ");
	if (!restored) {
		snprintf(wanted, sizeof(wanted), "a ");
		listen_for_line(fd, wanted, &text);
		restored = text - 1;
	}
	ASSERT(sscanf(restored + 1, "a %llu -%d %x %c\n", &ns2, &pid, &gpu, &again) == 4, "%s",
	       restored);
	EXPECT_EQ(pid, getpid());
	EXPECT_EQ(gpu, f.k.node.gpu_id);
	EXPECT(again == '0' || again == 'R');
	EXPECT(ns2 >= ns);
	EXPECT(svm_works(&f, p.cpu, p.size, 0x100));
	close(fd);
}

static void no_access(struct fixture *f, uint64_t va)
{
	struct kfd_event_data data = { 0 };
	uint32_t result = 99;

	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f->k, KFD_IOC_EVENT_MEMORY, false, &data.event_id));
	fixture_fill_start(f, &f->q, &f->signal, 0, (uint32_t *)va, 64, 1);
	ASSERT_OK(kfd_event_wait(&f->k, &data, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(data.memory_exception_data.gpu_id, f->k.node.gpu_id);
	EXPECT_EQ(data.memory_exception_data.va, va);
	EXPECT_EQ(f->signal.s->value, 1);
}

/* A fault ends the process's work: each case in a process. */
static void fault_case(void *data)
{
	struct pages p;
	struct fixture f;

	svm_launch(&f);
	p = svm_pages(anonymous(8 * KFD_PAGE), 8 * KFD_PAGE);
	switch (*(int *)data) {
	case 0: /* Not registered. */
		memset(p.cpu, 0, p.size);
		break;
	case 1: /* Without access. */
		ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
		ASSERT(gpu_writes(&f, &p, KFD_PAGE, 64, 1));
		ASSERT_OK(svm_set(&f.k, p.cpu, p.size,
				  { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f.k.node.gpu_id }));
		break;
	case 2: /* Unmapped by the process. */
		ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
		ASSERT(gpu_writes(&f, &p, KFD_PAGE, 64, 1));
		ASSERT(munmap(p.cpu, p.size) == 0);
		break;
	case 3: /* Read-only for the GPU. */
		ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
		ASSERT_OK(svm_set(&f.k, p.cpu, p.size,
				  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO }));
		ASSERT(gpu_reads(&f, &p, KFD_PAGE, 1));
		break;
	case 4: /* Read-only for the process. */
		ASSERT_OK(svm_access(&f.k, p.cpu, p.size));
		ASSERT(gpu_writes(&f, &p, KFD_PAGE, 64, 1));
		ASSERT(mprotect(p.cpu, p.size, PROT_READ) == 0);
		break;
	}
	no_access(&f, p.gpu);
}

TEST_TIMEOUT(faults_without_access, 180)
{
	struct fixture f;

	svm_launch(&f);
	for (int i = 0; i < 5; i++) {
		EXPECT(ktap_in_child(fault_case, &i) == 0, "case %d", i);
		EXPECT(fixture_works(&f));
	}
}

/* A prefetch moves the pages to VRAM, an access of the CPU moves them back. */
TEST_TIMEOUT(prefetch_to_vram_and_back, 120)
{
	struct pages p;
	struct fixture f;
	uint32_t gpu, *words;
	const char *text;
	char wanted[96];
	int fd;

	if (memory_fails())
		SKIP("what is not migrated stays where it is, without an error");
	svm_launch(&f);
	gpu = f.k.node.gpu_id;
	p = svm_pages(anonymous(2 * MIB), 2 * MIB);
	words = (uint32_t *)p.cpu;
	for (uint32_t i = 0; i < p.size / 4; i++)
		words[i] = i * 7 + 3;
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_START) |
				     KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_MIGRATE_END));
	ASSERT_OK(svm_set(&f.k, p.cpu, p.size, { KFD_IOCTL_SVM_ATTR_ACCESS, gpu },
			  { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu }));
	snprintf(wanted, sizeof(wanted), "@%lx(%lx) 0->%x %d 0\n", kfd_va(p.cpu) >> 12,
		 p.size >> 12, gpu, KFD_MIGRATE_TRIGGER_PREFETCH);
	listen_for_line(fd, wanted, &text);
	ktap_note("%s", text);
	/* The kernel adds to each word in VRAM. */
	ASSERT_OK(fixture_fill(&f, &f.q, words + 1024, 1024, 0xaaaa));
	/* By the CPU: all of the range comes back, as much as the granularity holds. */
	for (uint32_t i = 0; i < p.size / 4; i++) {
		uint32_t want = i >= 1024 && i < 2048 ? 0xaaaa : i * 7 + 3;

		if (!EXPECT(words[i] == want, "word %u: %#x, not %#x", i, words[i], want))
			break;
	}
	snprintf(wanted, sizeof(wanted), "%x->0 %d 0\n", gpu, KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU);
	listen_for_line(fd, wanted, &text);
	ktap_note("%s", text);
	EXPECT(gpu_writes(&f, &p, 0, 1024, 0xbbbb));
	/* And again, back by a prefetch to system memory. */
	ASSERT_OK(svm_set(&f.k, p.cpu, p.size, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu }));
	ASSERT_OK(fixture_fill(&f, &f.q, words, 512, 0xcccc));
	ASSERT_OK(svm_set(&f.k, p.cpu, p.size, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	snprintf(wanted, sizeof(wanted), "%x->0 %d 0\n", gpu, KFD_MIGRATE_TRIGGER_PREFETCH);
	listen_for_line(fd, wanted, &text);
	ktap_note("%s", text);
	EXPECT_EQ(words[0], 0xcccc);
	EXPECT_EQ(words[511], 0xcccc);
	EXPECT_EQ(words[512], 0xbbbb);
	EXPECT_EQ(words[5000], 5000 * 7 + 3);
	close(fd);
}
