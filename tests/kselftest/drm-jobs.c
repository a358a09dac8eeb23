// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests many small jobs: 8 processes with 4 entities each submit 10,000. Each job advances a
 * counter by compare-and-swap, so that the final value proves that every job ran once and in order;
 * trace events of the scheduler prove it for fences. Also tests priorities when engines are
 * oversubscribed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drm.h"
#include "growth.h"

#define PROCESSES 8u
#define ENTITIES 4u
/* Pending jobs per entity. */
#define AHEAD 24u

/* Jobs per entity: $JOBS, by default 10,000 (320,000 in all). */
static unsigned int jobs_each;

static unsigned int many(void)
{
	const char *jobs = getenv("JOBS");

	return jobs ? (unsigned int)strtoul(jobs, NULL, 0) : 10000;
}

/* Two contexts, two rings of each. */
static void submit_all(void *data)
{
	struct stream s[ENTITIES];
	const struct mem *mems[1];
	volatile uint32_t *words;
	struct gpu g;
	struct mem m;

	(void)data;
	drm_open(&g);
	mem_create(&g, 4096, GTT, &m);
	words = m.cpu;
	mems[0] = &m;
	for (uint32_t e = 0; e < ENTITIES; e++) {
		stream_create(&g, &s[e], e & 1, NORMAL, AHEAD, 8);
		stream_uses(&s[e], mems, 1);
	}
	for (uint32_t i = 0; i < jobs_each; i++) {
		for (uint32_t e = 0; e < ENTITIES; e++) {
			uint32_t *p;

			/* The slot of a job's packets is free again once the job is done. */
			if (i % AHEAD == 0 && i)
				ASSERT_OK(stream_wait(&s[e], s[e].seq, WAIT_NS));
			p = stream_begin(&s[e]);
			sdma_atomic(&p, SDMA_CMPSWAP, m.va + e * 64, i + 1, i);
			ASSERT_OK(stream_submit(&s[e], p));
			ASSERT_EQ(s[e].seq, i + 1);
		}
		/* A signalled fence implies all before it. */
		if (i % 100 == 99) {
			uint32_t e = i / 100 % ENTITIES;

			ASSERT_OK(stream_wait(&s[e], s[e].seq, WAIT_NS));
			ASSERT_EQ(words[e * 16], i + 1);
		}
	}
	for (uint32_t e = 0; e < ENTITIES; e++) {
		ASSERT_OK(stream_wait(&s[e], s[e].seq, WAIT_NS));
		EXPECT_EQ(words[e * 16], jobs_each);
		stream_destroy(&s[e]);
	}
	mem_destroy(&m);
	drm_close(&g);
}

static void all_processes(void)
{
	pid_t children[PROCESSES];

	for (unsigned int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		ASSERT(children[i] >= 0);
		if (!children[i]) {
			submit_all(NULL);
			ktap_end();
		}
	}
	for (unsigned int i = 0; i < PROCESSES; i++) {
		int status = -1;

		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		EXPECT(status == 0, "process %u: status %#x", i, status);
	}
}

struct chain {
	uint64_t context, last;
	unsigned int done;
};

/*
 * Every fence signals once, in order within its context, according to the trace events of a smaller
 * run.
 */
TEST_TIMEOUT(fences_signal_once_in_order, 120)
{
	static struct chain chains[1024];
	unsigned int whole = 0;
	char *text, *line;

	jobs_each = 100;
	if (!trace_start())
		SKIP("no gpu_scheduler trace events");
	all_processes();
	text = trace_stop();
	for (line = text; *line; line = strchrnul(line, '\n'), line += !!*line) {
		char *done = strstr(line, "drm_sched_job_done: ");
		struct chain *c = chains;
		uint64_t context, number;

		if (!done || done > strchrnul(line, '\n'))
			continue;
		context = trace_number(done, "fence=");
		number = trace_number(strchr(strstr(done, "fence="), ':') - 1, ":");
		while (c->context && c->context != context)
			ASSERT(++c < chains + 1024);
		if (c->context)
			EXPECT(number == c->last + 1, "context %llu: %llu after %llu",
			       (unsigned long long)context, (unsigned long long)number,
			       (unsigned long long)c->last);
		c->context = context;
		c->last = number;
		c->done++;
	}
	for (struct chain *c = chains; c->context; c++)
		whole += c->done == jobs_each;
	EXPECT(whole >= PROCESSES * ENTITIES, "%u contexts of %u jobs", whole, jobs_each);
	free(text);
}

TEST_TIMEOUT(ten_thousand_jobs_per_entity, 900)
{
	uint64_t vram, gtt;
	struct gpu g;

	drm_open(&g);
	/* Make first-use allocations before counting. */
	jobs_each = 30;
	all_processes();
	EXPECT(drm_works(&g));
	vram = drm_vram_usage(&g);
	gtt = drm_gtt_usage(&g);
	growth_start();
	jobs_each = many();
	ASSERT(jobs_each >= 100);
	all_processes();
	EXPECT(drm_works(&g));
	growth_expect_none("jobs", (long)PROCESSES * ENTITIES * jobs_each);
	drm_expect_usage(&g, vram, gtt);
}

/* Returns the drm-client-id of a file in /proc/self/fdinfo. */
static uint64_t client_id(int fd)
{
	char path[64], text[4096] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	ASSERT(f != NULL);
	ASSERT(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	ASSERT(strstr(text, "drm-client-id:") != NULL);
	return strtoull(strstr(text, "drm-client-id:") + strlen("drm-client-id:"), NULL, 0);
}

/*
 * Every engine is blocked; on each wait a LOW context with many jobs, and behind it a HIGH one with
 * as many. After unblocking, the HIGH jobs finish while few LOW jobs run: those already on the
 * ring, and the share of LOW (1/32).
 */
#define MANY 28u

TEST_TIMEOUT(high_priority_overtakes, 120)
{
	enum { MAX_RINGS = 16 };
	static struct stream block[MAX_RINGS], low[MAX_RINGS], high[MAX_RINGS];
	static uint64_t low_context[MAX_RINGS], high_context[MAX_RINGS];
	unsigned int rings, compared = 0;
	const struct mem *mems[1];
	volatile uint32_t *words;
	char *text, *line;
	struct gpu g;
	struct mem m;

	drm_open(&g);
	rings = g.engines;
	ASSERT(rings <= MAX_RINGS);
	mem_create(&g, 65536, GTT, &m);
	words = m.cpu;
	words[0] = 0;
	mems[0] = &m;
	for (unsigned int i = 0; i < rings; i++) {
		stream_create(&g, &block[i], 0, NORMAL, 1, 64);
		stream_create(&g, &low[i], 0, AMDGPU_CTX_PRIORITY_LOW, MANY, 64);
		stream_create(&g, &high[i], 0, AMDGPU_CTX_PRIORITY_HIGH, MANY, 64);
		stream_uses(&block[i], mems, 1);
		stream_uses(&low[i], mems, 1);
		stream_uses(&high[i], mems, 1);
	}
	if (!trace_start())
		SKIP("no gpu_scheduler trace events");
	for (unsigned int i = 0; i < rings; i++) {
		uint32_t *p = stream_begin(&block[i]);

		sdma_poll(&p, m.va, SDMA_EQUAL, 1, 0xffffffff);
		ASSERT_OK(stream_submit(&block[i], p));
	}
	usleep(20000);
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 0; i < rings; i++) {
			struct stream *s = pass ? &high[i] : &low[i];

			for (unsigned int n = 0; n < MANY; n++) {
				uint32_t *p = stream_begin(s);

				sdma_fill(&p, m.va + 4096, n, 4096);
				sdma_atomic(&p, SDMA_ADD, m.va + 64 + pass * 4, 1, 0);
				ASSERT_OK(stream_submit(s, p));
			}
		}
	}
	usleep(20000);
	EXPECT_EQ(words[16] + words[17], 0);
	words[0] = 1;
	for (unsigned int i = 0; i < rings; i++) {
		ASSERT_OK(stream_wait(&low[i], low[i].seq, WAIT_NS));
		ASSERT_OK(stream_wait(&high[i], high[i].seq, WAIT_NS));
	}
	EXPECT_EQ(words[16], rings * MANY);
	EXPECT_EQ(words[17], rings * MANY);
	usleep(100000);
	text = trace_stop();

	/* Contexts in the order of their first jobs: blockers, LOW, HIGH. */
	{
		uint64_t known[MAX_RINGS * 3];
		unsigned int count = 0;

		for (line = text; *line; line = strchrnul(line, '\n'), line += !!*line) {
			char *event = strstr(line, "drm_sched_job_queue: "), pid[32];
			uint64_t context;
			unsigned int k = 0;

			snprintf(pid, sizeof(pid), "-%d ", getpid());
			if (!event || event > strchrnul(line, '\n') ||
			    !memmem(line, (size_t)(event - line), pid, strlen(pid)))
				continue;
			EXPECT_EQ(trace_number(event, "client_id:"), client_id(g.fd));
			context = trace_number(event, "fence=");
			while (k < count && known[k] != context)
				k++;
			if (k == count) {
				ASSERT(count < rings * 3, "more contexts than created");
				known[count++] = context;
			}
		}
		ASSERT_EQ(count, rings * 3);
		memcpy(low_context, known + rings, rings * sizeof(known[0]));
		memcpy(high_context, known + 2 * rings, rings * sizeof(known[0]));
	}
	for (unsigned int h = 0; h < rings; h++) {
		unsigned int own = 0, before_last = 0;
		char ring[64] = "";

		/*
		 * First pass: find the ring. Second pass: count the LOW jobs that ran on it between
		 * the first HIGH job queued and the last one run.
		 */
		for (int pass = 0; pass < 2; pass++) {
			bool come = false;

			for (line = text; *line; line = strchrnul(line, '\n'), line += !!*line) {
				char *end = strchrnul(line, '\n'),
				     *run = strstr(line, "drm_sched_job_run: ");
				char *queue = strstr(line, "drm_sched_job_queue: "),
				     *name = strstr(line, "ring=");
				uint64_t context;

				if (name == NULL || name > end)
					continue;
				if (queue && queue < end &&
				    trace_number(queue, "fence=") == high_context[h])
					come = true;
				if (!run || run > end)
					continue;
				context = trace_number(run, "fence=");
				if (context == high_context[h]) {
					own++;
					if (!pass)
						snprintf(ring, sizeof(ring), "%.*s",
							 (int)strcspn(name, ","), name);
				} else if (pass && come && own < 2 * MANY &&
					   !strncmp(name, ring, strlen(ring))) {
					for (unsigned int l = 0; l < rings; l++)
						before_last += context == low_context[l];
				}
			}
		}
		EXPECT_EQ(own, 2 * MANY);
		ktap_note("%s: %u low-priority jobs before the last of %u high-priority ones", ring,
			  before_last, MANY);
		EXPECT(before_last <= MANY / 2,
		       "%u low-priority jobs before the last of %u high-priority ones", before_last,
		       MANY);
		compared++;
	}
	EXPECT_EQ(compared, rings);
	free(text);
}
