// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests oversubscription: more queues than HQDs, of more processes than VMIDs. All make progress,
 * and none waits long while others are served repeatedly.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

enum { PROCESSES = 10, EACH = 10, QUEUES = PROCESSES * EACH, ROUNDS = 20, JOBS = QUEUES * ROUNDS };
enum { WORDS = 256 };
/*
 * Limit of jobs that may end while one job waits and runs. Round robin gives one per queue; a
 * starved queue would see all others to their end.
 */
#define LONGEST (5 * QUEUES)
/* Enables dispatch timestamps. */
#define ENABLE_PROFILING (1u << 3)

/* Time of submission and end of a job by the GPU clock, independent of CPU load. */
struct job {
	uint64_t begin, end;
	uint32_t queue;
};

/* Shared by the processes. */
struct order {
	atomic_uint ready, go, next;
	struct job jobs[JOBS];
};

struct worker {
	struct fixture f;
	struct kfd_queue q[EACH];
	struct kfd_signal signal[EACH];
	uint64_t begin[EACH];
	uint32_t done[EACH];
};

static uint64_t gpu_clock(struct kfd *k)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = k->node.gpu_id };

	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args));
	return args.gpu_clock_counter;
}

static uint32_t value_of(unsigned int number, unsigned int i, uint32_t round)
{
	return number << 24 | i << 16 | (round + 1);
}

static uint32_t *words_of(struct worker *w, unsigned int i)
{
	return (uint32_t *)w->f.data->va + i * WORDS;
}

static void start_job(struct worker *w, unsigned int number, unsigned int i)
{
	w->begin[i] = gpu_clock(&w->f.k);
	fixture_fill_start(&w->f, &w->q[i], &w->signal[i], i, words_of(w, i), WORDS,
			   value_of(number, i, w->done[i]));
}

/* One process: one job at a time in each of its queues. */
static int work(struct order *order, unsigned int number)
{
	struct worker *w = calloc(1, sizeof(*w));
	unsigned int left = EACH * ROUNDS;

	ASSERT(w != NULL);
	fixture_launch(&w->f);
	w->q[0] = w->f.q;
	for (unsigned int i = 0; i < EACH; i++) {
		if (i)
			ASSERT_OK(kfd_queue_create(&w->f.k, &w->q[i], 64));
		ASSERT_OK(kfd_signal_create(&w->f.k, 0, &w->signal[i]));
		w->q[i].q->queue_properties |= ENABLE_PROFILING;
	}
	atomic_fetch_add(&order->ready, 1);
	while (!atomic_load(&order->go))
		usleep(1000);
	for (unsigned int i = 0; i < EACH; i++)
		start_job(w, number, i);
	for (unsigned int idle = 0; left; idle++) {
		for (unsigned int i = 0; i < EACH; i++) {
			if (w->done[i] == ROUNDS || w->signal[i].s->value)
				continue;
			order->jobs[atomic_fetch_add(&order->next, 1)] =
				(struct job){ w->begin[i], w->signal[i].s->end_ts,
					      number * EACH + i };
			for (unsigned int n = 0; n < WORDS; n++)
				ASSERT_EQ(words_of(w, i)[n], value_of(number, i, w->done[i]));
			idle = 0;
			left--;
			if (++w->done[i] < ROUNDS)
				start_job(w, number, i);
		}
		/* Nothing ended for half a minute. */
		ASSERT(idle < 60000, "process %u: %u jobs left", number, left);
		usleep(500);
	}
	for (unsigned int i = 0; i < EACH; i++)
		ASSERT_OK(kfd_queue_destroy(&w->q[i]));
	ktap_end();
}

static int by_end(const void *a, const void *b)
{
	const struct job *x = a, *y = b;

	return x->end < y->end ? -1 : x->end > y->end;
}

TEST_TIMEOUT(ten_processes_with_ten_queues, 400)
{
	unsigned int jobs[QUEUES] = { 0 }, longest = 0, who = 0;
	struct order *order = mmap(NULL, sizeof(*order), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t children[PROCESSES];
	struct kfd k;
	int status;

	fixture_open(&k);
	if (kfd_cwsr_bytes(&k.node) * QUEUES > vram_bytes(&k))
		SKIP("no VRAM for the save areas of %d queues", QUEUES);
	kfd_close(&k);
	ASSERT(order != MAP_FAILED);
	fflush(stdout);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		ASSERT(children[i] >= 0);
		if (!children[i])
			_exit(work(order, i));
	}
	for (int i = 0; i < 120000 && atomic_load(&order->ready) != PROCESSES; i++)
		usleep(1000);
	EXPECT_EQ(order->ready, PROCESSES);
	atomic_store(&order->go, 1);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "process %u: %#x", i, status);
	}
	ASSERT_EQ(order->next, JOBS);
	qsort(order->jobs, JOBS, sizeof(order->jobs[0]), by_end);
	for (unsigned int at = 0; at < JOBS; at++) {
		const struct job *job = &order->jobs[at];
		unsigned int before = at;

		EXPECT(job->end > job->begin, "queue %u: a job from %llu to %llu", job->queue,
		       (unsigned long long)job->begin, (unsigned long long)job->end);
		while (before && order->jobs[before - 1].end > job->begin)
			before--;
		if (at - before > longest) {
			longest = at - before;
			who = job->queue;
		}
		jobs[job->queue]++;
	}
	for (unsigned int i = 0; i < QUEUES; i++)
		EXPECT_EQ(jobs[i], ROUNDS);
	ktap_note("longest wait: queue %u, %u jobs ended meanwhile", who, longest);
	EXPECT(longest <= LONGEST, "queue %u waited while %u jobs ended", who, longest);
}

#define MOST_PLACES 32

/* Short jobs of another process while all HQDs are taken. */
static void short_jobs(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	for (int i = 0; i < 5; i++)
		ASSERT(fixture_works(&f), "job %d", i);
	ASSERT_OK(kfd_queue_destroy(&f.q));
}

/* Endless kernels share the HQDs with each other and with short ones. */
TEST_TIMEOUT(endless_kernels_are_preempted, 240)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	static struct kfd_queue q[MOST_PLACES + 3];
	static struct kfd_signal signals[MOST_PLACES + 3];
	volatile uint32_t *started;
	struct kfd_kernel kernel;
	struct fixture f;
	unsigned int count;

	fixture_launch(&f);
	count = f.k.node.num_cp_queues + 3;
	ASSERT(count <= MOST_PLACES + 3);
	ASSERT_OK(fixture_kernel(&f, "endless", &kernel));
	started = f.data->va;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t *kernarg = (uint64_t *)((char *)f.kernarg->va + i * 256);
		struct aql_dispatch packet;

		ASSERT_OK(kfd_queue_create(&f.k, &q[i], 64));
		ASSERT_OK(kfd_signal_create(&f.k, 1, &signals[i]));
		kernarg[0] = kfd_va((void *)&started[i]);
		kernarg[1] = kfd_va((void *)&started[128]);
		kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &signals[i]);
		kfd_queue_ring(&q[i], kfd_queue_write(&q[i], &packet));
	}
	/* Also those beyond the number of HQDs. */
	for (unsigned int i = 0; i < count; i++) {
		for (int ms = 0; ms < 60000 && !started[i]; ms++)
			usleep(1000);
		ASSERT(started[i], "kernel %u of %u did not start", i, count);
	}
	EXPECT_OK(ktap_in_child(short_jobs, NULL));
	started[128] = 1;
	for (unsigned int i = 0; i < count; i++) {
		ASSERT_OK(kfd_signal_wait(&f.k, &signals[i], 60000));
		ASSERT_OK(kfd_queue_destroy(&q[i]));
	}
	EXPECT(fixture_works(&f));
}
