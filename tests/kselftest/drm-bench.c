// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Measures jobs through libdrm in units of CLOCK_MONOTONIC (guest instructions under an
 * instruction-counting clock), and copy throughput.
 *   drm-bench jobs     submit to fence, one job at a time and many pending
 *   drm-bench copy     bytes per second in each direction
 */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "../workloads/samples.h"
#include "drm.h"

#define ROUNDS 15u
#define MIB (1ull << 20)

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void report(const char *what, uint64_t *samples)
{
	samples_sort(samples, ROUNDS);
	printf("bench: %-34s median=%-10llu min=%-10llu max=%llu\n", what,
	       (unsigned long long)samples[ROUNDS / 2], (unsigned long long)samples[0],
	       (unsigned long long)samples[ROUNDS - 1]);
	fflush(stdout);
}

static void jobs(void)
{
	enum { BATCH = 24 };
	uint64_t submit[ROUNDS], whole[ROUNDS], batch[ROUNDS], start;
	const struct mem *mems[1];
	struct stream s;
	struct gpu g;
	struct mem m;

	drm_open(&g);
	mem_create(&g, 65536, GTT, &m);
	stream_create(&g, &s, 0, NORMAL, BATCH, 64);
	mems[0] = &m;
	stream_uses(&s, mems, 1);
	for (unsigned int i = 0; i < 5; i++)
		stream_fill(&s, m.va, i, 4096);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint32_t *p = stream_begin(&s);

		sdma_fill(&p, m.va, i, 4096);
		start = now();
		ASSERT_OK(stream_submit(&s, p));
		submit[i] = now() - start;
		ASSERT_OK(stream_wait(&s, s.seq, WAIT_NS));
		whole[i] = now() - start;
	}
	for (unsigned int i = 0; i < ROUNDS; i++) {
		start = now();
		for (unsigned int n = 0; n < BATCH; n++) {
			uint32_t *p = stream_begin(&s);

			sdma_fill(&p, m.va, n, 64);
			ASSERT_OK(stream_submit(&s, p));
		}
		ASSERT_OK(stream_wait(&s, s.seq, WAIT_NS));
		batch[i] = (now() - start) / BATCH;
	}
	report("job: submit", submit);
	report("job: submit to fence", whole);
	report("job: each of 24, submit to fence", batch);
}

static void copy(void)
{
	static const struct {
		const char *name;
		uint32_t from, to;
	} ways[] = { { "VRAM to VRAM", VRAM, VRAM },
		     { "VRAM to GTT", VRAM, GTT },
		     { "GTT to VRAM", GTT, VRAM } };
	const uint64_t size = 256 * MIB;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		uint64_t best = ~0ull;
		const struct mem *mems[2];
		struct mem from, to;
		struct stream s;
		struct gpu g;

		drm_open(&g);
		ASSERT_OK(mem_try(&g, size, ways[i].from, 0, false, &from));
		ASSERT_OK(mem_try(&g, size, ways[i].to, 0, false, &to));
		mems[0] = &from;
		mems[1] = &to;
		stream_create(&g, &s, 0, NORMAL, 1, 64);
		stream_uses(&s, mems, 2);
		for (int n = 0; n < 4; n++) {
			uint64_t start = now();

			stream_copy(&s, to.va, from.va, size);
			start = now() - start;
			best = start < best ? start : best;
		}
		printf("bench: SDMA copy %-16s bytes/s=%llu\n", ways[i].name,
		       (unsigned long long)(size * SECOND / best));
		fflush(stdout);
		stream_destroy(&s);
		mem_destroy(&from);
		mem_destroy(&to);
		drm_close(&g);
	}
}

TEST_TIMEOUT(job_cost, 300)
{
	jobs();
}

TEST_TIMEOUT(copy_rate, 300)
{
	copy();
}

int main(int argc, char **argv)
{
	char *test[] = { argv[0], argc == 2 && !strcmp(argv[1], "copy") ? "copy_rate" : "job_cost",
			 NULL };

	return ktap_main(2, test);
}
