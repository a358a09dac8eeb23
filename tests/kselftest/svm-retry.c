// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests shared virtual memory with retry faults (XNACK): the GPU accesses any memory of the
 * process, and retries an access until the driver has mapped the page.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "listen.h"
#include "svm.h"

/* Opens the GPU in XNACK mode, without a queue. */
static void load_retry(struct fixture *f)
{
	fixture_load(f);
	svm_mode_needed(&f->k, true);
	ASSERT_OK(svm_xnack(&f->k, 1));
}

static void update(struct fixture *f, uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = { .ring_base_address = kfd_va(f->q.ring->va),
						    .queue_id = f->q.id,
						    .ring_size = 64 * 64,
						    .queue_percentage = percentage,
						    .queue_priority = 7 };

	ASSERT_OK(kfd_ioctl(f->k.fd, AMDKFD_IOC_UPDATE_QUEUE, &args));
}

/* Memory of malloc() and mmap() without ioctl, touched by the CPU or not. */
TEST_TIMEOUT(plain_memory, 120)
{
	struct fixture f;
	char *small = malloc(200000), *page, *p;

	svm_launch_mode(&f, true);
	p = anonymous(16 * KFD_PAGE);
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x1000));
	p = anonymous(4 * MIB);
	memset(p, 0x77, 4 * MIB);
	EXPECT(svm_works(&f, p + 100 * KFD_PAGE, 16 * KFD_PAGE, 0x2000));
	EXPECT_EQ(p[0], 0x77);
	EXPECT_EQ(p[100 * KFD_PAGE + 3000], 0x77);
	ASSERT(small != NULL);
	memset(small, 0x33, 200000);
	page = (char *)((kfd_va(small) + KFD_PAGE - 1) & ~(KFD_PAGE - 1));
	EXPECT(svm_works(&f, page, 16 * KFD_PAGE, 0x3000));
	EXPECT_EQ(page[3000], 0x33);
	free(small);
	EXPECT(fixture_works(&f));
}

/* sysfs counts the faults: of memory that was never accessed, and none of a page that is mapped. */
TEST_TIMEOUT(faults_are_counted, 120)
{
	struct fixture f;
	uint64_t before;
	uint32_t *p;

	svm_launch_mode(&f, true);
	p = (uint32_t *)anonymous(2 * KFD_PAGE);
	before = svm_settled_faults(&f.k);
	ASSERT_OK(fixture_fill(&f, &f.q, p, 64, 1));
	EXPECT(svm_settled_faults(&f.k) > before);
	before = svm_settled_faults(&f.k);
	ASSERT_OK(fixture_fill(&f, &f.q, p, 64, 2));
	EXPECT_EQ(svm_settled_faults(&f.k), before);
	EXPECT_EQ(p[63], 2);
}

TEST_TIMEOUT(stack_and_static_data, 120)
{
	static char here[4 * KFD_PAGE] __attribute__((aligned(4096)));
	char stack[2 * KFD_PAGE] __attribute__((aligned(4096)));
	struct fixture f;

	svm_launch_mode(&f, true);
	memset(stack, 0x44, sizeof(stack));
	EXPECT(svm_works(&f, stack, sizeof(stack), 0x100));
	EXPECT(svm_works(&f, here, sizeof(here), 0x200));
	EXPECT_EQ(stack[3000], 0x44);
}

TEST_TIMEOUT(file_memory, 120)
{
	int fd = memfd_create("svm", 0);
	struct fixture f;
	char *p, *other;

	svm_launch_mode(&f, true);
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	p = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	other = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(p != MAP_FAILED && other != MAP_FAILED);
	EXPECT(svm_works(&f, p, 8 * KFD_PAGE, 0x100));
	EXPECT(!memcmp(p, other, 8 * KFD_PAGE));
	p = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT(p != MAP_FAILED);
	EXPECT(svm_works(&f, p, 8 * KFD_PAGE, 0x200));
	EXPECT_EQ(((uint32_t *)other)[64], 0x100);
	close(fd);
}

/* Pages of a file that is truncated are in the same 2 MiB as the page that is accessed. */
TEST_TIMEOUT(truncated_file_beside, 120)
{
	int fd = memfd_create("svm", 0);
	struct fixture f;
	char *p, *q;

	svm_launch_mode(&f, true);
	p = anonymous_huge();
	q = p + 64 * KFD_PAGE;
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	ASSERT(mmap(q, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == q);
	ASSERT(svm_works(&f, p, 16 * KFD_PAGE, 0x100));
	ASSERT(svm_works(&f, q, 8 * KFD_PAGE, 0x200));
	ASSERT(ftruncate(fd, 0) == 0);
	ASSERT(madvise(p + 3 * KFD_PAGE, KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(svm_works(&f, p, 16 * KFD_PAGE, 0x300));
	close(fd);
}

/* So are those of the same mapping that are left. */
TEST_TIMEOUT(rest_of_a_truncated_file, 120)
{
	int fd = memfd_create("svm", 0);
	struct fixture f;
	char *p;

	svm_launch_mode(&f, true);
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	p = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(p != MAP_FAILED);
	ASSERT(svm_works(&f, p, 8 * KFD_PAGE, 0x100));
	ASSERT(ftruncate(fd, 4 * KFD_PAGE) == 0);
	ASSERT(madvise(p, 8 * KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(svm_works(&f, p, 4 * KFD_PAGE, 0x200));
	close(fd);
}

/*
 * The lanes of a wave and the operands of a kernel on pages that fault one by one: each atomic
 * takes effect once.
 */
TEST_TIMEOUT(atomics_are_executed_once, 120)
{
	const uint32_t grid[3] = { 4096, 1, 1 };
	const uint16_t group[3] = { 256, 1, 1 };
	uint32_t *in, *bins, *ticket, *largest, *tally, *next, sum_bins = 0;
	static unsigned char seen[4096];
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint64_t args[7], *sum;
	struct fixture f;
	char *p;

	svm_launch_mode(&f, true);
	p = anonymous(64 * KFD_PAGE);
	/* Each page is a range of its own and faults alone. */
	ASSERT_OK(svm_set(&f.k, p, 64 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	in = (uint32_t *)p;
	for (uint32_t i = 0; i < 4096; i++)
		in[i] = i * 2654435761u;
	/* The 16 bins cross a page. */
	bins = (uint32_t *)(p + 17 * KFD_PAGE) - 8;
	largest = (uint32_t *)(p + 20 * KFD_PAGE);
	sum = (uint64_t *)(p + 22 * KFD_PAGE);
	tally = (uint32_t *)(p + 24 * KFD_PAGE);
	next = (uint32_t *)(p + 26 * KFD_PAGE);
	ticket = (uint32_t *)(p + 30 * KFD_PAGE);
	args[0] = kfd_va(in);
	args[1] = kfd_va(bins);
	args[2] = kfd_va(largest);
	args[3] = kfd_va(sum);
	args[4] = kfd_va(tally);
	args[5] = kfd_va(next);
	args[6] = kfd_va(ticket);
	/* So are the arguments. */
	memcpy(p + 50 * KFD_PAGE, args, sizeof(args));
	ASSERT_OK(fixture_kernel(&f, "atomics", &kernel));
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, p + 50 * KFD_PAGE, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	for (int i = 0; i < 16; i++)
		sum_bins += bins[i];
	EXPECT_EQ(sum_bins, 4096);
	EXPECT_EQ(*next, 4096);
	EXPECT_EQ(*tally, 4096 / 16 * 3);
	for (uint32_t i = 0; i < 4096; i++) {
		ASSERT(ticket[i] < 4096, "ticket %u", ticket[i]);
		ASSERT(!seen[ticket[i]], "item %u has two tickets", ticket[i]);
		seen[ticket[i]] = 1;
	}
}

/* The command processor waits, too: the completion signal is in plain memory. */
TEST_TIMEOUT(signal_in_plain_memory, 120)
{
	struct fixture f;
	struct kfd_signal plain;
	uint32_t *data;

	svm_launch_mode(&f, true);
	plain = f.signal;
	plain.s = (struct amd_signal *)anonymous(KFD_PAGE);
	data = (uint32_t *)anonymous(KFD_PAGE);
	*plain.s = *f.signal.s;
	for (uint32_t i = 1; i < 6; i++) {
		fixture_fill_start(&f, &f.q, &plain, i, data, 64, i);
		ASSERT_OK(kfd_signal_wait(&f.k, &plain, WAIT_MS));
		EXPECT_EQ(plain.s->value, 0);
		EXPECT_EQ(data[63], i);
		/* The page leaves the GPU with its content. */
		ASSERT(mprotect(plain.s, KFD_PAGE, PROT_READ) == 0);
		ASSERT(mprotect(plain.s, KFD_PAGE, PROT_READ | PROT_WRITE) == 0);
	}
}

/* An SDMA queue of the process copies plain memory. */
TEST_TIMEOUT(sdma_copies_plain_memory, 120)
{
	uint32_t packets[32] = { 0 }, *p = packets;
	volatile uint32_t *done;
	uint32_t *from, *to;
	struct sdma_queue q;
	struct fixture f;

	load_retry(&f);
	ASSERT_OK(sdma_queue_create(&f.k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 4096));
	from = (uint32_t *)anonymous(MIB);
	to = (uint32_t *)anonymous(MIB);
	done = f.data->va;
	*done = 0;
	for (uint32_t i = 0; i < MIB / 4; i++)
		from[i] = i ^ 0x5a5a;
	sdma_copy(&p, kfd_va(to), kfd_va(from), MIB);
	sdma_fence(&p, kfd_va((void *)done), 1);
	ASSERT_OK(sdma_queue_put(&q, packets, p));
	sdma_queue_ring(&q);
	ASSERT(becomes(done, 1, WAIT_MS));
	for (uint32_t i = 0; i < MIB / 4; i++)
		if (!EXPECT(to[i] == (i ^ 0x5a5a), "word %u: %#x", i, to[i]))
			break;
	ASSERT_OK(sdma_queue_destroy(&q));
}

/* Faults of pages in any order, one by one; then all are mapped, and none is lost or late. */
TEST_TIMEOUT(storm, 240)
{
	const uint32_t pages = 1024;
	struct fixture f;
	uint32_t *words;
	char *p;
	double start;

	svm_launch_mode(&f, true);
	p = anonymous(pages * KFD_PAGE);
	words = (uint32_t *)p;
	ASSERT_OK(svm_set(&f.k, p, pages * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	for (uint32_t round = 1; round < 3; round++) {
		start = seconds_now();
		fixture_fill_start(&f, &f.q, &f.signal, round, words, pages * 1024, round);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, 200000));
		ktap_note("%u pages in %.1f s", pages, seconds_now() - start);
		for (uint32_t i = 0; i < pages * 1024; i++)
			ASSERT(words[i] == round, "word %u: %#x", i, words[i]);
		/* All of it leaves the GPU. */
		ASSERT(madvise(p, pages * KFD_PAGE, MADV_DONTNEED) == 0);
	}
}

/* Returns whether a kernel that writes to all of some pages has got some of them, and not all. */
static bool waves_wait(struct fixture *f, void *memory, uint32_t pages)
{
	unsigned char present[512];
	uint32_t count = 0;

	ASSERT(pages <= sizeof(present) && !mincore(memory, pages * KFD_PAGE, present));
	for (uint32_t i = 0; i < pages; i++)
		count += present[i] & 1;
	return f->signal.s->value != 0 && count > 0 && count < pages;
}

/* Waves that wait for pages are preempted, saved and restored. */
TEST_TIMEOUT(waiting_waves_are_preempted, 240)
{
	const uint32_t pages = 512;
	unsigned int preempted = 0;
	struct fixture f;
	uint32_t *words;
	char *p;

	svm_launch_mode(&f, true);
	p = anonymous(pages * KFD_PAGE);
	words = (uint32_t *)p;
	ASSERT_OK(svm_set(&f.k, p, pages * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	/* Pages come one by one, which waves_wait() sees. */
	ASSERT(madvise(p, pages * KFD_PAGE, MADV_NOHUGEPAGE) == 0);
	fixture_fill_start(&f, &f.q, &f.signal, 1, words, pages * 1024, 0xabc);
	for (int i = 0; i < 10; i++) {
		for (int ms = 0; f.signal.s->value && !waves_wait(&f, words, pages); ms++)
			ASSERT(ms < (int)WAIT_MS && !usleep(1000));
		update(&f, 0);
		preempted += waves_wait(&f, words, pages);
		usleep(1000);
		update(&f, 100);
		usleep(2000);
	}
	ktap_note("%u of 10 preemptions while waves waited", preempted);
	EXPECT(preempted > 0);
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, 200000));
	for (uint32_t i = 0; i < pages * 1024; i++)
		ASSERT(words[i] == 0xabc, "word %u: %#x", i, words[i]);
}

/* Ends while its waves wait. */
static void ends(void *how)
{
	struct fixture f;
	uint32_t *words;

	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(256 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, words, 256 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	ASSERT(madvise(words, 256 * KFD_PAGE, MADV_NOHUGEPAGE) == 0);
	fixture_fill_start(&f, &f.q, &f.signal, 1, words, 256 * 1024, 1);
	for (int ms = 0; !waves_wait(&f, words, 256); ms++)
		ASSERT(f.signal.s->value != 0 && ms < (int)WAIT_MS && !usleep(1000));
	if (*(int *)how == 0)
		ASSERT_OK(kfd_queue_destroy(&f.q));
	else if (*(int *)how == 1)
		raise(SIGKILL);
}

TEST_TIMEOUT(processes_end_while_their_waves_wait, 240)
{
	struct fixture f;

	svm_launch_mode(&f, true);
	for (int how = 0; how < 3; how++) {
		pid_t child = fork_child();
		int status;

		if (!child) {
			ends(&how);
			ktap_end();
		}
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(how == 1 ? WIFSIGNALED(status) : status == 0, "case %d: %#x", how, status);
		EXPECT(svm_works(&f, anonymous(2 * KFD_PAGE), 2 * KFD_PAGE, 0x100));
	}
}

/* Memory without a location moves to VRAM by a fault of the GPU, and back by one of the CPU. */
TEST_TIMEOUT(migration_by_faults, 120)
{
	const char *text;
	struct fixture f;
	uint32_t *words, gpu;
	char wanted[96];
	int fd;

	svm_launch_mode(&f, true);
	gpu = f.k.node.gpu_id;
	words = anonymous_huge();
	for (uint32_t i = 0; i < 2 * MIB / 4; i++)
		words[i] = i * 3 + 1;
	fd = listen_to_svm(&f.k);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 5000, 64, 0xaaaa));
	text = listen_lines(fd, 1000);
	ktap_note("%s", text);
	snprintf(wanted, sizeof(wanted), "0->%x %d 0\n", gpu, KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	for (uint32_t i = 0; i < 2 * MIB / 4; i++) {
		uint32_t want = i >= 5000 && i < 5064 ? 0xaaaa : i * 3 + 1;

		ASSERT(words[i] == want, "word %u: %#x, not %#x", i, words[i], want);
	}
	text = listen_lines(fd, 1000);
	ktap_note("%s", text);
	snprintf(wanted, sizeof(wanted), "%x->0 %d 0\n", gpu, KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	/* There and back in turns. */
	for (uint32_t i = 1; i < 20; i++) {
		ASSERT_OK(fixture_fill(&f, &f.q, words + i * 1000, 64, i));
		ASSERT_EQ(words[i * 1000], i);
		words[i * 1000] = 7;
		ASSERT_OK(fixture_fill(&f, &f.q, words + i * 1000 + 1, 63, i));
		ASSERT_EQ(words[i * 1000], 7);
		ASSERT_EQ(words[i * 1000 + 1], i);
	}
	EXPECT_EQ(words[2 * MIB / 4 - 1], (2 * MIB / 4 - 1) * 3 + 1);
	close(fd);
}

/* An access beside the pages of a userptr BO takes those neither for its range nor to VRAM. */
TEST_TIMEOUT(beside_a_userptr, 120)
{
	struct pages user, other;
	uint64_t before;
	struct fixture f;
	char *p, *gpu;

	svm_launch_mode(&f, true);
	p = anonymous_huge();
	memset(p, 1, 2 * MIB);
	gpu = anonymous(8 * KFD_PAGE);
	register_at(&f.k, p + 8 * KFD_PAGE, kfd_va(gpu), 8 * KFD_PAGE, &user);
	ASSERT(gpu_writes(&f, &user, 0, 64, 0x10));
	before = process_number(&f.k, "counters", "page_in");
	other = svm_pages(p, 2 * KFD_PAGE);
	ASSERT_OK(fixture_fill(&f, &f.q, (uint32_t *)other.gpu, 64, 0x20));
	EXPECT_EQ(process_number(&f.k, "counters", "page_in"), before + 1);
	EXPECT_EQ(*(uint32_t *)p, 0x20);
	EXPECT(gpu_writes(&f, &user, KFD_PAGE, 64, 0x30));
	EXPECT_OK(unregister(&f.k, &user));
}

/* The placement of pages follows the attributes of their range. */
TEST_TIMEOUT(locations, 120)
{
	const char *text;
	struct fixture f;
	char wanted[96];
	uint32_t *words, gpu;
	int fd;

	svm_launch_mode(&f, true);
	gpu = f.k.node.gpu_id;
	fd = listen_to_svm(&f.k);
	/* In place: nothing moves. */
	words = (uint32_t *)((kfd_va(anonymous(128 * KFD_PAGE)) + 64 * KFD_PAGE - 1) &
			     ~(64 * KFD_PAGE - 1));
	memset(words, 1, 64 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, words, 64 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu }));
	ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 2));
	EXPECT_EQ(words[0], 2);
	EXPECT_EQ(listen_count(listen_lines(fd, 500), KFD_SMI_EVENT_MIGRATE_START), 0);
	/* Preferred in VRAM: a fault of the GPU migrates 2^granularity aligned pages. */
	ASSERT_OK(svm_set(&f.k, words, 64 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu },
			  { KFD_IOCTL_SVM_ATTR_ACCESS, gpu },
			  { KFD_IOCTL_SVM_ATTR_GRANULARITY, 2 }));
	ASSERT(madvise(words, KFD_PAGE, MADV_DONTNEED) == 0);
	words[5] = 5;
	listen_lines(fd, 500);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 64, 64, 3));
	text = listen_lines(fd, 500);
	snprintf(wanted, sizeof(wanted), "@%lx(4) 0->%x ffffffff:%x %d\n", kfd_va(words) >> 12, gpu,
		 gpu, KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	snprintf(wanted, sizeof(wanted), "-%d @%lx(%x) M\n", getpid(), kfd_va(words) >> 12, gpu);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	/* Back by a prefetch; the preferred location is unchanged. */
	ASSERT_OK(svm_set(&f.k, words, 64 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	text = listen_lines(fd, 500);
	snprintf(wanted, sizeof(wanted), "%x->0 0:%x %d\n", gpu, gpu,
		 KFD_MIGRATE_TRIGGER_PREFETCH);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	EXPECT_EQ(words[5], 5);
	EXPECT_EQ(words[64], 3);
	EXPECT_EQ(words[4096], 0x01010101);
	EXPECT_EQ(listen_count(listen_lines(fd, 500), KFD_SMI_EVENT_MIGRATE_START), 0);
	/* There by a prefetch, without a fault of the GPU afterwards. */
	ASSERT_OK(svm_set(&f.k, words, 64 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu }));
	ASSERT_OK(fixture_fill(&f, &f.q, words + 20000, 64, 4));
	text = listen_lines(fd, 500);
	snprintf(wanted, sizeof(wanted), "@%lx(40) 0->%x %d 0\n", kfd_va(words) >> 12, gpu,
		 KFD_MIGRATE_TRIGGER_PREFETCH);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_PAGE_FAULT_START), 0);
	EXPECT_EQ(words[20000], 4);
	EXPECT_EQ(words[64], 3);
	close(fd);
}

/*
 * A page that another thread provides later, by userfaultfd: the access waits for it. It is
 * repeated a thousand times a second at most, and reported when the page is there.
 */
TEST_TIMEOUT(page_comes_by_userfaultfd, 120)
{
	struct uffdio_zeropage zero = { .range = { .len = KFD_PAGE } };
	uint64_t before, after;
	struct fixture f;
	uint32_t *words;
	int held, smi;
	double start;

	svm_launch_mode(&f, true);
	words = anonymous_huge();
	memset(words, 1, 2 * MIB);
	held = fixture_hold(words, 2 * MIB, UFFDIO_REGISTER_MODE_MISSING);
	ASSERT(!madvise(words, KFD_PAGE, MADV_DONTNEED));
	smi = listen_to_svm(&f.k);
	before = svm_settled_faults(&f.k);
	start = seconds_now();
	fixture_fill_start(&f, &f.q, &f.signal, 0, words, 64, 0x100);
	sleep(1);
	after = process_number(&f.k, "counters", "faults");
	EXPECT(after - before < 1100 * (seconds_now() - start), "%llu faults in %.1f s",
	       (unsigned long long)(after - before), seconds_now() - start);
	EXPECT_EQ(listen_count(listen_lines(smi, 500), KFD_SMI_EVENT_PAGE_FAULT_START), 0);
	EXPECT_EQ(f.signal.s->value, 1);
	zero.range.start = kfd_va(words);
	ASSERT(!ioctl(held, UFFDIO_ZEROPAGE, &zero));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(words[63], 0x100);
	EXPECT_EQ(words[64], 0);
	EXPECT_EQ(words[1024], 0x01010101);
	close(held);
	close(smi);
}

/* Returns how many of the pages of some memory are present. */
static size_t present(void *p, size_t size)
{
	unsigned char *pages = malloc(size / KFD_PAGE);
	size_t count = 0;

	ASSERT(pages != NULL && mincore(p, size, pages) == 0);
	for (size_t i = 0; i < size / KFD_PAGE; i++)
		count += pages[i] & 1;
	free(pages);
	return count;
}

/* Access is a permission: it maps nothing, and no page is faulted in for it. */
TEST_TIMEOUT(access_maps_nothing, 120)
{
	static const uint32_t types[] = { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
					  KFD_IOCTL_SVM_ATTR_ACCESS,
					  KFD_IOCTL_SVM_ATTR_NO_ACCESS,
					  KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE };
	int fd = memfd_create("svm", 0);
	const size_t size = 64 * MIB;
	struct fixture f;
	char *p;

	svm_launch_mode(&f, true);
	p = anonymous(size);
	for (int i = 0; i < 4; i++) {
		ASSERT_OK(svm_set(&f.k, p, size, { types[i], f.k.node.gpu_id }));
		EXPECT_EQ(present(p, size), 0);
	}
	EXPECT(svm_works(&f, p + MIB, 2 * KFD_PAGE, 0x100));
	EXPECT(present(p, size) <= 2 * MIB / KFD_PAGE);
	/* Also memory without pages, behind the end of a file. */
	ASSERT(ftruncate(fd, KFD_PAGE) == 0);
	p = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(p != MAP_FAILED);
	EXPECT_OK(svm_set(&f.k, p, 8 * KFD_PAGE,
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, f.k.node.gpu_id }));
	close(fd);
}

/* A prefetch maps what it has moved on the GPUs with access in place, too. */
TEST_TIMEOUT(prefetch_maps_in_place, 120)
{
	const size_t size = 64 * KFD_PAGE;
	struct fixture f;
	uint32_t *words;
	uint64_t before;

	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(size);
	memset(words, 0x11, size);
	ASSERT_OK(svm_set(&f.k, words, size,
			  { KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, f.k.node.gpu_id }));
	for (int round = 0; round < 2; round++) {
		uint32_t to = round ? 0 : f.k.node.gpu_id;

		ASSERT_OK(svm_set(&f.k, words, size, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, to }));
		before = svm_settled_faults(&f.k);
		ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 0x200 + (uint32_t)round));
		EXPECT_EQ(svm_settled_faults(&f.k), before);
	}
	EXPECT_EQ(words[63], 0x201);
	EXPECT_EQ(words[64], 0x11111111);
}

/* The end of a fault that has moved memory back to system memory says so. */
TEST_TIMEOUT(fault_that_moves_back, 120)
{
	const size_t size = 4 * KFD_PAGE;
	const char *text;
	struct fixture f;
	char wanted[96];
	uint32_t *words;
	int fd;

	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(size);
	memset(words, 0x22, size);
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	ASSERT_OK(svm_set(&f.k, words, size, { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f.k.node.gpu_id }));
	ASSERT_OK(svm_set(&f.k, words, size, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
			  { KFD_IOCTL_SVM_ATTR_ACCESS, f.k.node.gpu_id }));
	fd = listen_to_svm(&f.k);
	ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 0x300));
	text = listen_lines(fd, 500);
	snprintf(wanted, sizeof(wanted), "%x->0 %d 0\n", f.k.node.gpu_id,
		 KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	snprintf(wanted, sizeof(wanted), "-%d @%lx(%x) M\n", getpid(), kfd_va(words) >> 12,
		 f.k.node.gpu_id);
	EXPECT(strstr(text, wanted) != NULL, "no '%s' in '%s'", wanted, text);
	EXPECT_EQ(words[63], 0x300);
	EXPECT_EQ(words[64], 0x22222222);
	close(fd);
}

/* 1 MiB of words that are their numbers; the GPU has written 0xf0 to those of the second page. */
static uint32_t *words_in_vram(struct fixture *f)
{
	uint32_t *words = (uint32_t *)anonymous(MIB);

	for (uint32_t i = 0; i < MIB / 4; i++)
		words[i] = i;
	ASSERT_OK(fixture_fill(f, &f->q, words + 1024, 1024, 0xf0));
	return words;
}

static void compare_words(const uint32_t *words)
{
	for (uint32_t i = 0; i < MIB / 4; i++) {
		uint32_t want = i >= 1024 && i < 2048 ? 0xf0 : i;

		if (!EXPECT(words[i] == want, "word %u: %#x, not %#x", i, words[i], want))
			break;
	}
}

/* fork() with pages in VRAM: both processes have their content. */
TEST_TIMEOUT(fork_with_pages_in_vram, 120)
{
	struct fixture f;
	uint32_t *words;
	int status;
	pid_t child;

	svm_launch_mode(&f, true);
	words = words_in_vram(&f);
	child = fork_child();
	if (!child) {
		compare_words(words);
		words[1] = words[1030] = 0xc4;
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	compare_words(words);
	ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 0xf2));
	EXPECT_EQ(words[63], 0xf2);
	EXPECT_EQ(words[64], 64);
	/* The child exits without touching them. */
	words = words_in_vram(&f);
	child = fork_child();
	if (!child)
		_exit(0);
	ASSERT(waitpid(child, &status, 0) == child);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xf3));
	EXPECT_EQ(words[1024], 0xf0);
	EXPECT_EQ(words[2048], 0xf3);
	EXPECT_EQ(words[MIB / 4 - 1], MIB / 4 - 1);
}

/* A page that fork() shares is copied before the GPU writes to it. */
TEST_TIMEOUT(gpu_write_after_fork_is_private, 120)
{
	struct fixture f;
	uint32_t *words;
	int status, go[2];
	pid_t child;
	char byte;

	svm_launch_mode(&f, true);
	words = words_in_vram(&f);
	ASSERT(pipe(go) == 0);
	child = fork_child();
	if (!child) {
		ASSERT(read(go[0], &byte, 1) == 1);
		compare_words(words);
		ktap_end();
	}
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xf1));
	ASSERT(write(go[1], "", 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(words[2048], 0xf1);
	EXPECT_EQ(words[1024], 0xf0);
}

/* A process with and one without retry faults at the same time. */
static void without(void *data)
{
	struct fixture f;
	char *p;

	(void)data;
	fixture_launch(&f);
	p = anonymous(8 * KFD_PAGE);
	ASSERT_OK(svm_access(&f.k, p, 8 * KFD_PAGE));
	for (uint32_t i = 0; i < 4; i++)
		ASSERT(svm_works(&f, p, 8 * KFD_PAGE, i * 100));
}

TEST_TIMEOUT(modes_are_per_process, 240)
{
	struct fixture f;
	int status;
	pid_t child[3];

	svm_launch_mode(&f, true);
	for (int i = 0; i < 3; i++) {
		child[i] = fork_child();
		if (!child[i]) {
			if (i == 2) {
				struct fixture mine;

				svm_launch_mode(&mine, true);
				EXPECT(svm_works(&mine, anonymous(8 * KFD_PAGE), 8 * KFD_PAGE, 1));
			} else {
				without(NULL);
			}
			ktap_end();
		}
	}
	for (uint32_t i = 0; i < 4; i++)
		EXPECT(svm_works(&f, anonymous(4 * KFD_PAGE), 4 * KFD_PAGE, i * 100));
	for (int i = 0; i < 3; i++) {
		ASSERT(waitpid(child[i], &status, 0) == child[i]);
		EXPECT_EQ(status, 0);
	}
}
