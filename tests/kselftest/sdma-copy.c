// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user mode SDMA queues: copies, fills, synchronization packets, and that they bypass the
 * kernel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "../workloads/syscalls.h"
#include "fixture.h"

#define RING 4096u
#define MIB (1ul << 20)
#define TRACING "/sys/kernel/tracing"
#define INSTANCE TRACING "/instances/sdma-copy"

/* A queue, and a page for fences and results. */
struct stream {
	struct kfd k;
	struct sdma_queue q;
	struct kfd_bo *page;
	volatile uint32_t *words;
	struct kfd_signal signal;
	uint32_t packets[4096], *p;
};

static void stream_open_with(struct stream *s, uint32_t type, uint32_t engine, uint32_t ring)
{
	memset(s, 0, sizeof(*s));
	fixture_open(&s->k);
	ASSERT_OK(kfd_bo_create(&s->k, KFD_PAGE, KFD_FLAGS_GTT, &s->page));
	ASSERT_OK(kfd_signal_create(&s->k, 0, &s->signal));
	/* The first one maps the page. */
	ASSERT_OK(kfd_hdp_flush(&s->k));
	ASSERT_OK(sdma_queue_create(&s->k, &s->q, type, engine, ring));
	s->words = s->page->va;
	s->p = s->packets;
}

static void stream_open(struct stream *s)
{
	stream_open_with(s, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING);
}

/* Rings the doorbell for the packets up to s->p, with all that was stored to VRAM before. */
static void go(struct stream *s)
{
	time_t start = time(NULL);

	ASSERT_OK(kfd_hdp_flush(&s->k));
	while (sdma_queue_put(&s->q, s->packets, s->p))
		ASSERT(time(NULL) - start < 60, "ring stays full");
	sdma_queue_ring(&s->q);
	s->p = s->packets;
}

/* Same, and sleeps until the packets are done. */
static void go_and_wait(struct stream *s)
{
	s->signal.s->value = 1;
	sdma_signal(&s->p, &s->signal);
	go(s);
	ASSERT_OK(kfd_signal_wait(&s->k, &s->signal, WAIT_MS));
}

static void *memory(struct stream *s, size_t size, uint32_t flags)
{
	struct kfd_bo *bo;

	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !s->k.node.large_bar)
		SKIP("VRAM is not mapped by the BAR");
	ASSERT_OK(kfd_bo_create(&s->k, size, flags, &bo));
	return bo->va;
}

static const uint32_t places[] = { KFD_FLAGS_VRAM, KFD_FLAGS_GTT };
static const char *const names[] = { "VRAM", "GTT" };

/*
 * 4 B to 1 MiB, at every offset in a page, in all directions; bytes around the target are
 * unchanged.
 */
TEST_TIMEOUT(small_copies, 120)
{
	static const uint32_t sizes[] = { 4,	8,    12,    64,	100,	 4092,
					  4096, 4100, 65536, 65536 + 4, 1u << 20 };
	struct stream s;
	uint32_t seed = 1;
	char *mem[2];

	stream_open(&s);
	for (int i = 0; i < 2; i++)
		mem[i] = memory(&s, 4 * MIB, places[i]);
	for (int from = 0; from < 2; from++) {
		for (int to = 0; to < 2; to++) {
			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				uint32_t *a = (uint32_t *)(mem[from] + (i * 52 & 4095));
				uint32_t *b = (uint32_t *)(mem[to] + 2 * MIB + (i * 1348 & 4095));

				pattern(a, sizes[i], ++seed);
				b[-1] = b[sizes[i] / 4] = 0x600d600d;
				memset(b, 0x55, sizes[i]);
				sdma_copy(&s.p, kfd_va(b), kfd_va(a), sizes[i]);
				go_and_wait(&s);
				EXPECT(has_pattern(b, sizes[i], seed), "%u bytes from %s to %s",
				       sizes[i], names[from], names[to]);
				EXPECT(has_pattern(a, sizes[i], seed),
				       "the source of %u bytes changed", sizes[i]);
				EXPECT_EQ(b[-1], 0x600d600d);
				EXPECT_EQ(b[sizes[i] / 4], 0x600d600d);
			}
		}
	}
}

TEST_TIMEOUT(copies_of_64_mib, 240)
{
	struct stream s;
	uint32_t *mem[2][2];

	stream_open(&s);
	for (int i = 0; i < 4; i++)
		mem[i / 2][i % 2] = memory(&s, 64 * MIB, places[i / 2]);
	for (int from = 0; from < 2; from++) {
		for (int to = 0; to < 2; to++) {
			struct timespec a, b;
			double ms;

			pattern(mem[from][0], 64 * MIB, from * 2 + to);
			sdma_copy(&s.p, kfd_va(mem[to][1]), kfd_va(mem[from][0]), 64 * MIB);
			clock_gettime(CLOCK_MONOTONIC, &a);
			go_and_wait(&s);
			clock_gettime(CLOCK_MONOTONIC, &b);
			ms = (double)(b.tv_sec - a.tv_sec) * 1e3 +
			     (double)(b.tv_nsec - a.tv_nsec) / 1e6;
			ktap_note("64 MiB from %s to %s in %.1f ms", names[from], names[to], ms);
			EXPECT(has_pattern(mem[to][1], 64 * MIB, from * 2 + to), "from %s to %s",
			       names[from], names[to]);
		}
	}
}

TEST_TIMEOUT(fills, 120)
{
	static const uint32_t sizes[] = { 4, 8, 60, 4096, 4100, 1u << 20, 64u << 20 };
	struct stream s;

	stream_open(&s);
	for (int to = 0; to < 2; to++) {
		uint32_t *mem = memory(&s, 65 * MIB, places[to]);

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint32_t *at = mem + 1 + i * 24, value = 0xf111000u + (uint32_t)i,
				 n = sizes[i] / 4, wrong = 0;

			at[-1] = at[n] = 0x600d600d;
			sdma_fill(&s.p, kfd_va(at), value, sizes[i]);
			go_and_wait(&s);
			for (uint32_t w = 0; w < n; w++)
				wrong += at[w] != value;
			EXPECT(!wrong, "%u wrong words of %u in %s", wrong, n, names[to]);
			EXPECT_EQ(at[-1], 0x600d600d);
			EXPECT_EQ(at[n], 0x600d600d);
		}
	}
}

TEST(broadcast_rectangle_and_write)
{
	struct stream s;
	uint32_t *a, *b;

	stream_open(&s);
	a = memory(&s, MIB, KFD_FLAGS_GTT);
	b = memory(&s, MIB, KFD_FLAGS_VRAM);
	pattern(a, 4096, 7);
	sdma_broadcast(&s.p, kfd_va(b), kfd_va(a + 8192), kfd_va(a), 4096);
	go_and_wait(&s);
	EXPECT(has_pattern(b, 4096, 7) && has_pattern(a + 8192, 4096, 7));
	sdma_write(&s.p, kfd_va(b), 100, 1000);
	go_and_wait(&s);
	for (uint32_t i = 0; i < 100; i++)
		EXPECT_EQ(b[i], 1000 + i);
	/* 5 x 3 dwords from (2, 1) with a pitch of 10 to (1, 2) with a pitch of 20. */
	memset(b, 0, 4096);
	for (uint32_t i = 0; i < 100; i++)
		a[i] = i;
	sdma_rectangle(&s.p, is_gfx12(&s.k.node), kfd_va(b), 1, 2, 20, kfd_va(a), 2, 1, 10, 5, 3);
	go_and_wait(&s);
	for (uint32_t y = 0; y < 6; y++) {
		for (uint32_t x = 0; x < 20; x++) {
			bool in = x >= 1 && x < 6 && y >= 2 && y < 5;

			EXPECT_EQ(b[y * 20 + x], in ? (y - 1) * 10 + x + 1 : 0);
		}
	}
}

/* Packets of 7 and 4 dwords do not divide the ring size: they wrap at every dword. */
TEST_TIMEOUT(ring_wraps, 120)
{
	static const uint32_t rings[] = { 1024, 4096, 65536 };
	struct stream s;
	uint32_t *mem;

	stream_open(&s);
	mem = memory(&s, MIB, KFD_FLAGS_GTT);
	ASSERT_OK(sdma_queue_destroy(&s.q));
	for (int r = 0; r < 3; r++) {
		uint32_t rounds = rings[r] / 28 * 8;

		ASSERT_OK(sdma_queue_create(&s.k, &s.q, KFD_IOC_QUEUE_TYPE_SDMA, 0, rings[r]));
		for (uint32_t i = 1; i <= rounds; i++) {
			/* Each copy depends on the previous one. */
			sdma_copy(&s.p, kfd_va(mem + i % 1024 + 1), kfd_va(mem + i % 1024), 4);
			sdma_write(&s.p, kfd_va(mem + (i + 1) % 1024), 1, i + 1);
			if (i % 7 == 0)
				sdma_nop(&s.p, i % 5);
			sdma_fence(&s.p, kfd_va((void *)s.words), i);
			go(&s);
		}
		go_and_wait(&s);
		EXPECT_EQ(s.words[0], rounds);
		/* The engine reports the read pointer late. */
		for (int ms = 0; ms < 5000 && !sdma_queue_is_empty(&s.q); ms++)
			usleep(1000);
		EXPECT(s.q.written > 4ul * rings[r]);
		EXPECT_EQ(*s.q.rptr, s.q.written);
		EXPECT_EQ(mem[(rounds + 1) % 1024], rounds + 1);
		ASSERT_OK(sdma_queue_destroy(&s.q));
	}
}

/* FENCE and TRAP wake a process in WAIT_EVENTS, each time, and no other process. */
TEST(trap_signals_event)
{
	struct kfd_event_data data[2] = { 0 };
	struct kfd_signal other;
	struct stream s;
	uint32_t result;

	stream_open(&s);
	ASSERT_OK(kfd_signal_create(&s.k, 1, &other));
	for (uint32_t i = 1; i <= 200; i++) {
		sdma_fence(&s.p, kfd_va((void *)s.words), i);
		go_and_wait(&s);
		ASSERT_EQ(s.words[0], i);
	}
	data[0].event_id = other.event_id;
	EXPECT_OK(kfd_event_wait(&s.k, data, 1, true, 50, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_TIMEOUT);
	/* Both at once, from one queue. */
	sdma_signal(&s.p, &other);
	go_and_wait(&s);
	ASSERT_OK(kfd_signal_wait(&s.k, &other, WAIT_MS));
}

/* Two queues synchronize by POLL_REGMEM and ATOMIC. */
TEST_TIMEOUT(two_queues_synchronize, 120)
{
	static const uint32_t types[][2] = {
		{ KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA },
		{ KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_XGMI },
		/* On one engine, which has to switch between them. */
		{ KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID },
	};
	uint32_t packets[64] = { 0 };
	struct stream s;

	stream_open(&s);
	ASSERT_OK(sdma_queue_destroy(&s.q));
	for (int t = 0; t < 3; t++) {
		volatile uint32_t *turn = &s.words[16];
		volatile uint64_t *sum = (volatile uint64_t *)&s.words[32];
		struct sdma_queue q[2];

		if (t == 1 && !s.k.node.num_sdma_xgmi_engines)
			continue;
		*turn = 0;
		*sum = 0xfffffff0;
		for (int i = 0; i < 2; i++)
			ASSERT_OK(sdma_queue_create(&s.k, &q[i], types[t][i], 0, 65536));
		for (uint32_t i = 0; i < 200; i++) {
			uint32_t *p = packets;

			sdma_poll(&p, kfd_va((void *)turn), SDMA_EQUAL, i, ~0u);
			sdma_atomic(&p, SDMA_ADD | SDMA_64, kfd_va((void *)sum), 1ull << 32 | 3, 0);
			sdma_atomic(&p, SDMA_ADD, kfd_va((void *)turn), 1, 0);
			ASSERT_OK(sdma_queue_put(&q[i & 1], packets, p));
			sdma_queue_ring(&q[i & 1]);
		}
		for (int i = 0; i < 20000 && *turn != 200; i++)
			usleep(1000);
		EXPECT_EQ(*turn, 200);
		EXPECT_EQ(*sum, 0xfffffff0 + 200 * (1ull << 32 | 3));
		for (int i = 0; i < 2; i++)
			ASSERT_OK(sdma_queue_destroy(&q[i]));
	}
}

TEST(atomics)
{
	static const struct {
		uint32_t op;
		uint64_t before, source, compare, after;
	} cases[] = {
		{ SDMA_SWAP, 0x1111222233334444, 5, 0, 0x1111222200000005 },
		{ SDMA_SWAP | SDMA_64, 0x1111222233334444, 5, 0, 5 },
		{ SDMA_CMPSWAP, 0x9900000007, 8, 7, 0x9900000008 },
		{ SDMA_CMPSWAP, 0x9900000007, 8, 6, 0x9900000007 },
		{ SDMA_CMPSWAP | SDMA_64, 0x9900000007, 1ull << 63, 0x9900000007, 1ull << 63 },
		{ SDMA_ADD, 0xffffffff, 2, 0, 1 },
		{ SDMA_ADD | SDMA_64 | SDMA_NO_RETURN, 0xffffffff, 2, 0, 0x100000001 },
		{ SDMA_SUB | SDMA_64, 1, 1, 0, 0 },
		{ SDMA_AND, 0xff00ff00ff, 0xf0f0, 0, 0xff000000f0 },
		{ SDMA_OR | SDMA_64, 0xff, 0xff00000000, 0, 0xff000000ff },
		{ SDMA_XOR, 0xff, 0xf0, 0, 0x0f },
	};
	struct stream s;

	stream_open(&s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		volatile uint64_t *at = (volatile uint64_t *)&s.words[64];

		*at = cases[i].before;
		sdma_atomic(&s.p, cases[i].op, kfd_va((void *)at), cases[i].source,
			    cases[i].compare);
		go_and_wait(&s);
		EXPECT(*at == cases[i].after, "case %zu: %#llx", i, (unsigned long long)*at);
	}
}

/* TIMESTAMP and GET_CLOCK_COUNTERS read the same clock. */
TEST(timestamps)
{
	struct kfd_ioctl_get_clock_counters_args before = { 0 }, after = { 0 };
	volatile uint64_t *stamps;
	struct stream s;

	stream_open(&s);
	stamps = (volatile uint64_t *)&s.words[64];
	before.gpu_id = after.gpu_id = s.k.node.gpu_id;
	ASSERT_OK(kfd_ioctl(s.k.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &before));
	for (int i = 0; i < 4; i++)
		sdma_clock(&s.p, kfd_va((void *)&stamps[i]));
	go_and_wait(&s);
	ASSERT_OK(kfd_ioctl(s.k.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &after));
	EXPECT(stamps[0] >= before.gpu_clock_counter);
	for (int i = 1; i < 4; i++)
		EXPECT(stamps[i] >= stamps[i - 1]);
	EXPECT(stamps[3] <= after.gpu_clock_counter);
}

TEST(conditions)
{
	struct stream s;

	stream_open(&s);
	s.words[1] = 1;
	for (uint32_t run = 0; run < 2; run++) {
		s.words[2] = 0;
		sdma_cond_exe(&s.p, kfd_va((void *)&s.words[1]), run, 4);
		sdma_fence(&s.p, kfd_va((void *)&s.words[2]), 77);
		sdma_fence(&s.p, kfd_va((void *)&s.words[3]), 78);
		go_and_wait(&s);
		EXPECT_EQ(s.words[2], run ? 77 : 0);
		EXPECT_EQ(s.words[3], 78);
	}
}

/* --- bypassing the kernel --- */

/* Event lines of the trace. */
static unsigned int traced_events(void)
{
	unsigned int n = 0;
	char line[1024];
	FILE *f = fopen(INSTANCE "/trace", "re");

	ASSERT(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += line[0] != '#';
	fclose(f);
	return n;
}

#define COPIES 1000u

static int copy_by_doorbell(struct syscall_table *table)
{
	struct stream *s = calloc(1, sizeof(*s));
	uint32_t *a, *b, wrong = 0, others = 0;

	ASSERT(s != NULL);
	stream_open(s);
	a = memory(s, 4 * MIB, KFD_FLAGS_GTT);
	b = memory(s, 4 * MIB, KFD_FLAGS_GTT);
	/* The kernel's own jobs clear memory left by the previous tests. */
	for (unsigned int i = 0, quiet = 0; i < 100 && quiet < 5; i++, quiet++) {
		ASSERT_OK(write_file(INSTANCE "/trace", ""));
		usleep(100000);
		if (traced_events())
			quiet = 0;
	}
	ASSERT_OK(write_file(INSTANCE "/trace", ""));
	ASSERT_OK(syscalls_start());
	for (uint32_t i = 1; i <= COPIES; i++) {
		uint32_t at = i * 97 % 4096;

		a[at] = ~i;
		sdma_copy(&s->p, kfd_va(b), kfd_va(a), 65536);
		sdma_fence(&s->p, kfd_va((void *)s->words), i);
		if (sdma_queue_put(&s->q, s->packets, s->p)) {
			wrong++;
			break;
		}
		sdma_queue_ring(&s->q);
		s->p = s->packets;
		while (s->words[0] != i)
			;
		wrong += b[at] != ~i;
	}
	syscalls_stop();
	EXPECT(table->complete);
	EXPECT_EQ(wrong, 0);
	for (uint32_t i = 0; i < table->used; i++) {
		ktap_note("%llu of system call %llu (%#llx)",
			  (unsigned long long)table->entry[i].times,
			  (unsigned long long)table->entry[i].number,
			  (unsigned long long)table->entry[i].request);
		others += table->entry[i].times;
	}
	EXPECT_EQ(others, 0);
	EXPECT_EQ(traced_events(), 0);
	ktap_end();
}

/* A thousand copies make no system call and cause no gpu_scheduler job. */
TEST_TIMEOUT(copies_bypass_the_kernel, 120)
{
	bool sched = access(TRACING "/events/gpu_scheduler", F_OK) == 0;

	if (access(TRACING "/instances", F_OK))
		SKIP("no tracefs");
	rmdir(INSTANCE);
	ASSERT(mkdir(INSTANCE, 0700) == 0 || errno == EEXIST, "%s", strerror(errno));
	if (sched)
		ASSERT_OK(write_file(INSTANCE "/events/gpu_scheduler/enable", "1"));
	else
		ktap_note("gpu_scheduler is not loaded");
	EXPECT_EQ(syscalls_run(copy_by_doorbell), 0);
	rmdir(INSTANCE);
}

/* --- oversubscription --- */

#define WORKERS 16

/* 20 copies on two queues, the second one waiting for a fence of the first. */
static int worker(unsigned int number)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct sdma_queue second;
	uint32_t *mem;

	ASSERT(s != NULL);
	stream_open_with(s, number & 1 ? KFD_IOC_QUEUE_TYPE_SDMA_XGMI : KFD_IOC_QUEUE_TYPE_SDMA, 0,
			 RING);
	ASSERT_OK(sdma_queue_create(
		&s->k, &second, number & 1 ? KFD_IOC_QUEUE_TYPE_SDMA : KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
		0, RING));
	mem = memory(s, MIB, KFD_FLAGS_GTT);
	for (uint32_t i = 1; i <= 20; i++) {
		uint32_t packets[32] = { 0 }, *p = packets;

		pattern(mem, 4096, number * 1000 + i);
		sdma_copy(&s->p, kfd_va(mem + 4096), kfd_va(mem), 4096);
		sdma_fence(&s->p, kfd_va((void *)s->words), i);
		sdma_poll(&p, kfd_va((void *)s->words), SDMA_EQUAL, i, ~0u);
		sdma_copy(&p, kfd_va(mem + 16384), kfd_va(mem + 4096), 4096);
		s->signal.s->value = 1;
		sdma_signal(&p, &s->signal);
		ASSERT_OK(sdma_queue_put(&second, packets, p));
		sdma_queue_ring(&second);
		go(s);
		ASSERT_OK(kfd_signal_wait(&s->k, &s->signal, 60000));
		ASSERT(has_pattern(mem + 16384, 4096, number * 1000 + i));
	}
	ASSERT_OK(sdma_queue_destroy(&second));
	ASSERT_OK(sdma_queue_destroy(&s->q));
	ktap_end();
}

/* More processes than VMIDs, using every queue of the engines: each makes progress. */
TEST_TIMEOUT(more_processes_than_vmids, 240)
{
	pid_t children[WORKERS];
	struct kfd_node node;
	int status;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	if (node.num_sdma_engines + node.num_sdma_xgmi_engines < 4)
		SKIP("fewer than four engines");
	fflush(stdout);
	for (unsigned int i = 0; i < WORKERS; i++) {
		children[i] = fork();
		ASSERT(children[i] >= 0);
		if (!children[i])
			_exit(worker(i));
	}
	for (unsigned int i = 0; i < WORKERS; i++) {
		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "worker %u: %#x", i, status);
	}
}

/* More compute queues than HQDs: SDMA queues work while those take turns. */
TEST_TIMEOUT(with_compute_oversubscription, 240)
{
	enum { COMPUTE = 30 };
	static struct kfd_queue compute[COMPUTE];
	struct fixture f;
	struct sdma_queue q;
	volatile uint32_t *words;
	struct kfd_bo *page;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_FLAGS_GTT, &page));
	words = page->va;
	ASSERT_OK(sdma_queue_create(&f.k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
	for (int i = 0; i < COMPUTE; i++)
		ASSERT_OK(kfd_queue_create(&f.k, &compute[i], 64));
	for (uint32_t i = 1; i <= 100; i++) {
		uint32_t packets[16] = { 0 }, *p = packets;

		sdma_copy(&p, kfd_va((void *)&words[512]), kfd_va((void *)words), 1024);
		sdma_fence(&p, kfd_va((void *)words), i);
		ASSERT_OK(sdma_queue_put(&q, packets, p));
		sdma_queue_ring(&q);
		for (int ms = 0; ms < 10000 && words[0] != i; ms++)
			usleep(1000);
		ASSERT_EQ(words[0], i);
		if (i % 25 == 0)
			ASSERT(fixture_works(&f));
	}
	for (int i = 0; i < COMPUTE; i++)
		ASSERT_OK(kfd_queue_destroy(&compute[i]));
	EXPECT_OK(sdma_queue_destroy(&q));
}

/* Queues are created and destroyed while another one copies: it is preempted and loses nothing. */
TEST_TIMEOUT(copies_survive_preemption, 120)
{
	struct sdma_queue other;
	struct stream s;
	uint32_t *a, *b;

	stream_open(&s);
	a = memory(&s, 16 * MIB, KFD_FLAGS_GTT);
	b = memory(&s, 16 * MIB, KFD_FLAGS_GTT);
	for (uint32_t round = 1; round <= 5; round++) {
		pattern(a, 16 * MIB, round);
		for (int i = 0; i < 8; i++)
			sdma_copy(&s.p, kfd_va(b) + i * 2 * MIB, kfd_va(a) + i * 2 * MIB, 2 * MIB);
		s.signal.s->value = 1;
		sdma_signal(&s.p, &s.signal);
		go(&s);
		for (int i = 0; i < 3; i++) {
			ASSERT_OK(
				sdma_queue_create(&s.k, &other, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
			ASSERT_OK(sdma_queue_destroy(&other));
		}
		ASSERT_OK(kfd_signal_wait(&s.k, &s.signal, WAIT_MS));
		ASSERT(has_pattern(b, 16 * MIB, round));
	}
}

static void copy_until_killed(int ready)
{
	struct stream *s = calloc(1, sizeof(*s));
	uint32_t *a;

	ASSERT(s != NULL);
	stream_open(s);
	a = memory(s, 64 * MIB, KFD_FLAGS_GTT);
	for (int i = 0; i < 100; i++)
		sdma_copy(&s->p, kfd_va(a) + 32 * MIB, kfd_va(a), 32 * MIB);
	sdma_fence(&s->p, kfd_va((void *)s->words), 1);
	go(s);
	if (write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

TEST_TIMEOUT(kill_during_copy, 180)
{
	struct stream s;
	uint32_t *a;

	stream_open(&s);
	a = memory(&s, MIB, KFD_FLAGS_GTT);
	for (uint32_t i = 0; i < ktap_repeats(8, 3); i++) {
		int ready[2], status;
		pid_t child;
		char c;

		ASSERT(pipe(ready) == 0);
		child = fork_child();
		if (!child)
			copy_until_killed(ready[1]);
		close(ready[1]);
		ASSERT(read(ready[0], &c, 1) == 1, "child failed before its copy");
		close(ready[0]);
		usleep(i * 2000);
		kill(child, SIGKILL);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFSIGNALED(status));
		pattern(a, 4096, i);
		sdma_copy(&s.p, kfd_va(a + 65536), kfd_va(a), 4096);
		go_and_wait(&s);
		ASSERT(has_pattern(a + 65536, 4096, i));
	}
}
