// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests oversubscription: more queues than HQDs, of more processes than VMIDs, with kernels that
 * end and that do not. All make progress, and none waits long while others are served repeatedly.
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
 * starved queue would run after all others.
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

/* Twice as many queues as HQDs. */
#define MOST_SHARING (2 * MOST_PLACES)
/* Waits of each queue, and the size of the log. */
#define WAITS 6
#define MOST_LOGGED 16384u
/* Ticks of the 100 MHz clock without the wave: a fifth of the quantum. */
#define GAP 200000u
/*
 * Limit of turns that each other queue begins, on average, while one queue waits. Round robin gives
 * one or two; while a queue starves, the others begin some hundred, until the log is full. On a
 * busy host a wave pauses more often than its queue is preempted.
 */
#define MOST_TURNS 40

/* A queue was not on the GPU, by the GPU clock. */
struct wait {
	uint64_t begin, end, queue;
};

/* Arguments of the kernel. */
struct turns {
	uint64_t stop, logged, log, out;
	uint32_t most, gap, queue;
};

/* Returns the number after `rounds` steps of the kernel's sequence. */
static uint32_t after_rounds(uint32_t value, uint32_t rounds)
{
	uint32_t factor = 1664525u, offset = 1013904223u, all = 1, sum = 0;

	for (; rounds; rounds >>= 1) {
		if (rounds & 1) {
			sum = sum * factor + offset;
			all *= factor;
		}
		offset *= factor + 1;
		factor *= factor;
	}
	return value * all + sum;
}

static unsigned int fewest_waits(const struct wait *log, uint32_t logged, unsigned int count)
{
	unsigned int waits[MOST_SHARING] = { 0 }, fewest = ~0u;

	for (uint32_t i = 0; i < logged; i++)
		if (log[i].queue < count)
			waits[log[i].queue]++;
	for (unsigned int i = 0; i < count; i++)
		if (waits[i] < fewest)
			fewest = waits[i];
	return fewest;
}

/* Returns the largest number of turns that other queues begin while one waits. */
static unsigned int most_turns(const struct wait *log, uint32_t logged)
{
	unsigned int most = 0;

	for (uint32_t i = 0; i < logged; i++) {
		unsigned int turns = 0;

		for (uint32_t n = 0; n < logged; n++)
			turns += log[n].queue != log[i].queue && log[n].end > log[i].begin &&
				 log[n].end < log[i].end;
		if (turns > most)
			most = turns;
	}
	return most;
}

/* Endless kernels in twice as many queues as HQDs take turns, and none loses its state. */
TEST_TIMEOUT(endless_kernels_take_turns, 300)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	static struct kfd_queue q[MOST_SHARING];
	static struct kfd_signal signals[MOST_SHARING];
	static uint64_t waited[MOST_SHARING];
	uint64_t first = ~0ull, last = 0, least = ~0ull, largest = 0;
	volatile uint32_t *stop, *logged;
	const struct wait *log;
	struct kfd_kernel kernel;
	struct kfd_bo *out;
	struct fixture f;
	unsigned int count, turns;
	uint32_t seen;

	fixture_load(&f);
	count = 2 * f.k.node.num_cp_queues;
	ASSERT(count <= MOST_SHARING);
	if (kfd_cwsr_bytes(&f.k.node) * count > vram_bytes(&f.k))
		SKIP("no VRAM for the save areas of %u queues", count);
	ASSERT_OK(fixture_kernel(&f, "turns", &kernel));
	ASSERT_OK(kfd_bo_create(&f.k, MOST_SHARING * 128 * 4, KFD_FLAGS_GTT, &out));
	stop = f.data->va;
	logged = stop + 64;
	log = (void *)(stop + 128);
	for (unsigned int i = 0; i < count; i++) {
		void *kernarg = (char *)f.kernarg->va + i * 256;
		struct turns args = { kfd_va((void *)stop),
				      kfd_va((void *)logged),
				      kfd_va(log),
				      kfd_va((uint32_t *)out->va + i * 128),
				      MOST_LOGGED,
				      GAP,
				      i };
		struct aql_dispatch packet;

		ASSERT_OK(kfd_queue_create(&f.k, &q[i], 64));
		ASSERT_OK(kfd_signal_create(&f.k, 1, &signals[i]));
		memcpy(kernarg, &args, sizeof(args));
		kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &signals[i]);
		kfd_queue_ring(&q[i], kfd_queue_write(&q[i], &packet));
	}
	/* Until the last has waited often enough. */
	for (int i = 0; i < 2000; i++) {
		seen = *logged;
		if (seen >= MOST_LOGGED || fewest_waits(log, seen, count) >= WAITS)
			break;
		usleep(100000);
	}
	*stop = 1;
	for (unsigned int i = 0; i < count; i++)
		ASSERT_OK(kfd_signal_wait(&f.k, &signals[i], 60000));
	seen = *logged < MOST_LOGGED ? *logged : MOST_LOGGED;
	EXPECT(fewest_waits(log, seen, count) >= WAITS, "a queue waited %u times",
	       fewest_waits(log, seen, count));
	for (unsigned int i = 0; i < count; i++) {
		const uint32_t *words = (uint32_t *)out->va + i * 128;

		for (uint32_t l = 0; l < 64; l++)
			ASSERT(words[l] == after_rounds(i * 64 + l, words[64 + l]),
			       "queue %u, work-item %u: %#x after %u rounds", i, l, words[l],
			       words[64 + l]);
		ASSERT_OK(kfd_queue_destroy(&q[i]));
	}
	for (uint32_t i = 0; i < seen; i++) {
		first = log[i].begin < first ? log[i].begin : first;
		last = log[i].end > last ? log[i].end : last;
		waited[log[i].queue] += log[i].end - log[i].begin;
	}
	for (unsigned int i = 0; i < count; i++) {
		least = waited[i] < least ? waited[i] : least;
		largest = waited[i] > largest ? waited[i] : largest;
	}
	turns = most_turns(log, seen);
	ktap_note("%u queues, %u waits in %llu ms: a queue ran %llu%% to %llu%% of the time", count,
		  seen, (unsigned long long)(last - first) / 100000,
		  (unsigned long long)(100 - largest * 100 / (last - first)),
		  (unsigned long long)(100 - least * 100 / (last - first)));
	ktap_note("at most %u turns of the others during a wait", turns);
	EXPECT(turns <= MOST_TURNS * (count - 1), "a queue waited while others had %u turns", turns);
}
