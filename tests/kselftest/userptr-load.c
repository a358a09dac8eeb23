// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests changes of userptr memory under GPU load. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "userptr.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* A thread with its own queue that fills pages repeatedly and checks them by the CPU. */
struct load {
	struct fixture f;
	struct pages pages;
	pthread_t thread;
	volatile bool stop;
	volatile uint32_t rounds;
};

static void *work(void *data)
{
	struct load *l = data;

	for (uint32_t n = 1; !l->stop; n++) {
		size_t at = n % (l->pages.size / KFD_PAGE) * KFD_PAGE;

		if (!gpu_writes(&l->f, &l->pages, at, 64, n) ||
		    !gpu_reads(&l->f, &l->pages, at + 512, n * 3))
			break;
		l->rounds++;
	}
	return NULL;
}

static void load_start(struct load *l, size_t size)
{
	memset(l, 0, sizeof(*l));
	fixture_launch(&l->f);
	register_new(&l->f.k, size, &l->pages);
	ASSERT(pthread_create(&l->thread, NULL, work, l) == 0);
}

/* Waits for a few more rounds of the GPU. */
static bool load_goes_on(struct load *l)
{
	uint32_t from = l->rounds;

	for (int i = 0; i < 20000 && l->rounds < from + 3; i++)
		usleep(1000);
	return EXPECT(l->rounds >= from + 3, "stopped after round %u", from);
}

static void load_stop(struct load *l)
{
	load_goes_on(l);
	l->stop = true;
	ASSERT(pthread_join(l->thread, NULL) == 0);
	EXPECT_OK(unregister(&l->f.k, &l->pages));
}

/* The child keeps the old contents, the GPU continues on the pages of the parent. */
TEST(fork_keeps_parent_pages)
{
	struct fixture f;
	struct pages p;
	int pipes[2];

	fixture_launch(&f);
	register_new(&f.k, 8 * KFD_PAGE, &p);
	for (uint32_t round = 0; round < 10; round++) {
		int status;
		pid_t child;
		char c;

		ASSERT(pipe(pipes) == 0);
		ASSERT(gpu_writes(&f, &p, 0, 64, 100 + round) &&
		       gpu_writes(&f, &p, 5 * KFD_PAGE, 64, 200 + round));
		child = fork();
		ASSERT(child >= 0);
		if (!child) {
			volatile uint32_t *first = (void *)p.cpu,
					  *sixth = (void *)(p.cpu + 5 * KFD_PAGE);

			close(pipes[1]);
			if (read(pipes[0], &c, 1) != 1 || *first != 100 + round ||
			    *sixth != 200 + round)
				_exit(1);
			*first = 7;
			_exit(0);
		}
		close(pipes[0]);
		/* First write by the GPU in one page, by the CPU in the other. */
		EXPECT(gpu_writes(&f, &p, 0, 64, 300 + round));
		*(volatile uint32_t *)(p.cpu + 5 * KFD_PAGE) = 1;
		EXPECT(gpu_writes(&f, &p, 5 * KFD_PAGE, 64, 400 + round));
		ASSERT(write(pipes[1], "", 1) == 1);
		close(pipes[1]);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(status == 0, "status %#x", status);
		EXPECT_EQ(*(uint32_t *)p.cpu, 300 + round);
		EXPECT(gpu_writes(&f, &p, 64, 64, 500 + round));
	}
	EXPECT_OK(unregister(&f.k, &p));
}

TEST_TIMEOUT(fork_under_load, 120)
{
	static struct load l;

	load_start(&l, 32 * KFD_PAGE);
	for (int i = 0; i < 30; i++) {
		pid_t child = fork();
		int status;

		ASSERT(child >= 0);
		if (!child) {
			memset(l.pages.cpu, i, l.pages.size);
			_exit(0);
		}
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(status == 0, "status %#x", status);
		if (!load_goes_on(&l))
			break;
	}
	load_stop(&l);
	EXPECT(fixture_works(&l.f));
}

/* A running wave is saved and restored, and reads later CPU writes. */
TEST(running_kernel_survives)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	volatile uint32_t *flags;
	struct fixture f;
	struct pages p;
	uint64_t args[2];

	fixture_launch(&f);
	register_new(&f.k, 4 * KFD_PAGE, &p);
	flags = (void *)p.cpu;
	ASSERT_OK(fixture_kernel(&f, "endless", &kernel));
	for (uint32_t round = 0; round < 5; round++) {
		flags[0] = flags[1024] = 0;
		args[0] = kfd_va((void *)&flags[0]);
		args[1] = kfd_va((void *)&flags[1024]);
		memcpy(f.kernarg->va, args, sizeof(args));
		f.signal.s->value = 1;
		kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
		kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
		for (int i = 0; i < 10000 && !flags[0]; i++)
			usleep(1000);
		ASSERT(flags[0] != 0, "kernel did not start");
		for (int i = 0; i < 5; i++) {
			pid_t child = fork();

			ASSERT(child >= 0);
			if (!child)
				_exit(0);
			ASSERT(waitpid(child, NULL, 0) == child);
		}
		EXPECT(f.signal.s->value == 1);
		flags[1024] = 1;
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	}
	EXPECT_OK(unregister(&f.k, &p));
}

/* MADV_DONTNEED, huge pages, mremap() and mprotect(). */
TEST_TIMEOUT(pages_change_under_load, 120)
{
	static struct load l;
	struct fixture *f = &l.f;
	struct pages p;

	load_start(&l, 16 * KFD_PAGE);
	register_new(&f->k, 4 * MIB, &p);
	for (uint32_t i = 0; i < 20; i++) {
		memset(p.cpu, 1, p.size);
		switch (i % 4) {
		case 0:
			ASSERT(madvise(p.cpu, p.size, MADV_DONTNEED) == 0);
			EXPECT(p.cpu[0] == 0 && p.cpu[p.size - 1] == 0);
			break;
		case 1:
			ASSERT(madvise(p.cpu, p.size, MADV_HUGEPAGE) == 0);
			/* May fail without a free huge page. */
			madvise(p.cpu, p.size, MADV_COLLAPSE);
			break;
		case 2:
			ASSERT(mprotect(p.cpu, p.size, PROT_READ) == 0);
			usleep(20000);
			ASSERT(mprotect(p.cpu, p.size, PROT_READ | PROT_WRITE) == 0);
			break;
		case 3:
			ASSERT(madvise(l.pages.cpu, l.pages.size, MADV_PAGEOUT) == 0 ||
			       errno == EINVAL);
			ASSERT(madvise(p.cpu, p.size, MADV_NOHUGEPAGE) == 0);
			break;
		}
		if (!load_goes_on(&l))
			break;
	}
	load_stop(&l);
	for (size_t at = 0; at < p.size; at += 64 * KFD_PAGE)
		EXPECT(gpu_writes(f, &p, at, 64, (uint32_t)at + 1));
	EXPECT_OK(unregister(&f->k, &p));
}

/* A BO whose pages are temporarily read-only is retried. */
TEST(temporarily_read_only)
{
	struct fixture f;
	struct pages p;

	fixture_launch(&f);
	register_new(&f.k, 16 * KFD_PAGE, &p);
	ASSERT(gpu_writes(&f, &p, 0, 64, 1));
	for (uint32_t i = 0; i < 5; i++) {
		ASSERT(mprotect(p.cpu, p.size, PROT_READ) == 0);
		fixture_fill_start(&f, &f.q, &f.signal, 0, (uint32_t *)p.gpu, 64, 10 + i);
		usleep(100000);
		EXPECT(f.signal.s->value == 1);
		EXPECT(*(volatile uint32_t *)p.cpu == (i ? 9 + i : 1), "%u", *(uint32_t *)p.cpu);
		ASSERT(mprotect(p.cpu, p.size, PROT_READ | PROT_WRITE) == 0);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		EXPECT(*(volatile uint32_t *)p.cpu == 10 + i);
	}
	EXPECT(evicted_ms(&f.k) >= 400, "%llu ms", (unsigned long long)evicted_ms(&f.k));
	EXPECT_OK(unregister(&f.k, &p));
}

/* Memory is unmapped before the BO is freed: no error; mapped again, it is visible again. */
TEST_TIMEOUT(munmap_before_free, 120)
{
	static struct load l;
	struct pages p[4];
	char *moved;

	load_start(&l, 8 * KFD_PAGE);
	for (uint32_t round = 0; round < 5; round++) {
		for (int i = 0; i < 4; i++)
			register_new(&l.f.k, (64 + i) * KFD_PAGE, &p[i]);
		ASSERT(munmap(p[0].cpu, p[0].size) == 0);
		ASSERT(munmap(p[1].cpu + 8 * KFD_PAGE, 16 * KFD_PAGE) == 0);
		moved = mremap(p[2].cpu, p[2].size, p[2].size, MREMAP_MAYMOVE | MREMAP_FIXED,
			       anonymous(p[2].size));
		ASSERT(moved != MAP_FAILED);
		ASSERT(mremap(p[3].cpu, p[3].size, 32 * KFD_PAGE, 0) == p[3].cpu);
		if (!load_goes_on(&l))
			break;
		/*
		 * New memory at the old address of one BO; the next MMU notifier of any BO makes it
		 * visible.
		 */
		ASSERT(mmap(p[0].cpu, p[0].size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p[0].cpu);
		memset(p[0].cpu, 0, p[0].size);
		ASSERT(madvise(l.pages.cpu + l.pages.size - KFD_PAGE, KFD_PAGE, MADV_NOHUGEPAGE) ==
		       0);
		ASSERT(mprotect(p[0].cpu, p[0].size, PROT_READ) == 0);
		ASSERT(mprotect(p[0].cpu, p[0].size, PROT_READ | PROT_WRITE) == 0);
		if (!load_goes_on(&l))
			break;
		l.stop = true;
		ASSERT(pthread_join(l.thread, NULL) == 0);
		EXPECT(gpu_writes(&l.f, &p[0], 63 * KFD_PAGE, 64, round));
		l.stop = false;
		ASSERT(pthread_create(&l.thread, NULL, work, &l) == 0);
		for (int i = 0; i < 4; i++)
			EXPECT_OK(unregister(&l.f.k, &p[i]));
		EXPECT(munmap(moved, p[2].size) == 0);
	}
	load_stop(&l);
	EXPECT(fixture_works(&l.f));
}

/* Context save areas of eight queues, and a child with a copy: all pages have to be copied. */
TEST_TIMEOUT(fork_with_large_areas, 120)
{
	struct pages p[8];
	struct fixture f;

	fixture_launch(&f);
	for (int huge = 0; huge < 2; huge++) {
		for (int i = 0; i < 8; i++) {
			char *cpu = anonymous(22 * MIB);

			ASSERT(madvise(cpu, 22 * MIB, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
			memset(cpu, 1, 22 * MIB);
			register_at(&f.k, cpu, kfd_va(cpu), 22 * MIB, &p[i]);
		}
		for (uint32_t round = 0; round < ktap_repeats(3, 1); round++) {
			struct timespec start, end;
			pid_t child;

			child = fork_child();
			if (!child)
				for (;;)
					pause();
			clock_gettime(CLOCK_MONOTONIC, &start);
			ASSERT(gpu_writes(&f, &p[round], 5 * MIB, 64, round));
			clock_gettime(CLOCK_MONOTONIC, &end);
			ktap_note("%s pages: %ld ms", huge ? "large" : "small",
				  (long)((end.tv_sec - start.tv_sec) * 1000 +
					 (end.tv_nsec - start.tv_nsec) / 1000000));
			ASSERT(kill(child, SIGKILL) == 0);
			ASSERT(waitpid(child, NULL, 0) == child);
		}
		for (int i = 0; i < 8; i++) {
			EXPECT_OK(unregister(&f.k, &p[i]));
			ASSERT(munmap(p[i].cpu, p[i].size) == 0);
		}
	}
}

static void *churn(void *data)
{
	struct load *l = data;

	while (!l->stop) {
		size_t size = (1 + (size_t)rand() % 200) * KFD_PAGE;
		struct pages p;
		char *cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		int ret;

		if (!EXPECT(cpu != MAP_FAILED))
			break;
		ret = try_register(&l->f.k, cpu, kfd_va(cpu), size, FLAGS, &p);
		if (ret == -EAGAIN)
			continue;
		if (!EXPECT_OK(ret) || !EXPECT_OK(kfd_bo_map_gpu(&l->f.k, &p.bo)))
			break;
		/* It is unmapped, but the address is not reused. */
		if (rand() & 1 &&
		    !EXPECT(mmap(cpu, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
				 0) == cpu))
			break;
		if (!EXPECT_OK(unregister(&l->f.k, &p)))
			break;
		munmap(cpu, size);
	}
	return NULL;
}

/* Four threads allocate and free, one forks, the GPU works. */
TEST_TIMEOUT(all_at_once, 120)
{
	static struct load l;
	pthread_t threads[4];

	load_start(&l, 64 * KFD_PAGE);
	for (int i = 0; i < 4; i++)
		ASSERT(pthread_create(&threads[i], NULL, churn, &l) == 0);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		ASSERT(child >= 0);
		if (!child)
			_exit(0);
		ASSERT(waitpid(child, NULL, 0) == child);
		usleep(50000);
	}
	load_goes_on(&l);
	l.stop = true;
	for (int i = 0; i < 4; i++)
		ASSERT(pthread_join(threads[i], NULL) == 0);
	ASSERT(pthread_join(l.thread, NULL) == 0);
	ktap_note("%u rounds", l.rounds);
	EXPECT(fixture_works(&l.f));
}

static void die(int how)
{
	static struct load l;
	pthread_t thread;

	load_start(&l, 64 * KFD_PAGE);
	ASSERT(pthread_create(&thread, NULL, churn, &l) == 0);
	for (;;) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
		if (how && l.rounds > 5) {
			if (how == 1)
				_exit(0);
			execl("/bin/true", "true", NULL);
			execl("/bin/busybox", "true", NULL);
			_exit(1);
		}
	}
}

/*
 * Processes end during that: SIGKILL, exit(), execve(). Memory that others get next is not written.
 */
TEST_TIMEOUT(exit_under_load, 200)
{
	size_t size = 32 * MIB;
	struct fixture f;

	fixture_launch(&f);
	for (unsigned int i = 0; i < ktap_repeats(12, 3); i++) {
		pid_t child;
		int status;
		char *p;

		child = fork_child();
		if (!child) {
			die(i % 3);
			_exit(0);
		}
		if (i % 3 == 0) {
			usleep(300000 + i * 37000);
			EXPECT(kill(child, SIGKILL) == 0);
		}
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(i % 3 == 0 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL :
				    status == 0,
		       "end %u: status %#x", i, status);
		p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		ASSERT(p != MAP_FAILED);
		memset(p, 0x5a, size);
		usleep(10000);
		for (size_t at = 0; at < size; at++)
			if (!EXPECT(p[at] == 0x5a, "byte %zu: %#x", at, (unsigned char)p[at]))
				break;
		ASSERT(munmap(p, size) == 0);
		ASSERT(fixture_works(&f));
	}
}
