// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests a faulty GPU: each test needs one kind of fault, configured by its boot (tests/vm/boots).
 * One job fails, other jobs and rings are unaffected, nothing is left over.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "drm.h"
#include "fixture.h"
#include "growth.h"

#define STREAMS 24u

/*
 * Result of a job with a VM fault: rkfd ends it, the C driver only logs the fault
 * (gmc_v9_0_process_interrupt).
 */
static int fault_result(void)
{
	return ktap_is_rkfd() ? -EFAULT : 0;
}

struct crowd {
	struct gpu g;
	struct mem from, to;
	struct stream s[STREAMS];
};

static void crowd_open(struct crowd *c)
{
	const struct mem *mems[2] = { &c->from, &c->to };

	mem_create(&c->g, 65536, VRAM, &c->from);
	mem_create(&c->g, STREAMS * 4096, GTT, &c->to);
	for (uint32_t i = 0; i < STREAMS; i++) {
		stream_create(&c->g, &c->s[i], 0, NORMAL, 4, 64);
		stream_uses(&c->s[i], mems, 2);
	}
}

static void crowd_close(struct crowd *c)
{
	for (uint32_t i = 0; i < STREAMS; i++)
		stream_destroy(&c->s[i]);
	mem_destroy(&c->from);
	mem_destroy(&c->to);
}

/*
 * Each context submits one job that copies a page; then waits for all. Returns the number of failed
 * jobs, and the last error in `*error`. Checks the copies of the others.
 */
static unsigned int crowd_round(struct crowd *c, uint32_t value, int *error, uint32_t *guilty)
{
	uint32_t *source = c->from.cpu, *words = c->to.cpu;
	unsigned int errors = 0;

	for (uint32_t i = 0; i < 1024; i++)
		source[i] = value + i;
	memset(words, 0, STREAMS * 4096);
	for (uint32_t i = 0; i < STREAMS; i++) {
		uint32_t *p = stream_begin(&c->s[i]);

		sdma_copy(&p, c->to.va + i * 4096, c->from.va, 4096);
		ASSERT_OK(stream_submit(&c->s[i], p));
	}
	for (uint32_t i = 0; i < STREAMS; i++) {
		int ret = stream_wait(&c->s[i], c->s[i].seq, WAIT_NS);

		if (ret) {
			ktap_note("job %u of value %#x: %s", i, value, ktap_errno_name(ret));
			EXPECT(ret != -ETIMEDOUT, "job %u never ends", i);
			errors++;
			*error = ret;
			*guilty = i;
			continue;
		}
		for (uint32_t w = 0; w < 1024; w++)
			ASSERT_EQ(words[i * 1024 + w], value + w);
	}
	return errors;
}

/* Runs `rounds` rounds, each with new contexts; memory use is unchanged afterwards. */
static void run_with_faults(unsigned int rounds, unsigned int wanted, int *error)
{
	static struct crowd c;
	unsigned int errors = 0;
	uint64_t vram, gtt;
	uint32_t guilty;

	drm_open(&c.g);
	/*
	 * A round without a fault (the knobs fault later): the file keeps page tables, the driver
	 * its allocations for the first jobs.
	 */
	crowd_open(&c);
	EXPECT_EQ(crowd_round(&c, 0xffff0000, error, &guilty), 0);
	crowd_close(&c);
	EXPECT(drm_works(&c.g));
	vram = drm_vram_usage(&c.g);
	gtt = drm_gtt_usage(&c.g);
	growth_start();
	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int now;

		crowd_open(&c);
		now = crowd_round(&c, i << 16, error, &guilty);
		errors += now;
		if (now) {
			uint64_t flags = 0;

			EXPECT(now == 1, "%u jobs with an error in one round", now);
			ASSERT_OK(amdgpu_cs_query_reset_state2(c.s[guilty].ctx, &flags));
			EXPECT(*error != -ETIME || (flags & AMDGPU_CTX_QUERY2_FLAGS_GUILTY),
			       "flags %#llx", (unsigned long long)flags);
			/* The other contexts and new ones are unaffected. */
			for (uint32_t k = 0; k < STREAMS; k++) {
				uint32_t *p = stream_begin(&c.s[k]);

				if (k == guilty)
					continue;
				sdma_copy(&p, c.to.va + k * 4096, c.from.va, 4096);
				ASSERT_OK(stream_submit(&c.s[k], p));
				ASSERT_OK(stream_wait(&c.s[k], c.s[k].seq, WAIT_NS));
			}
		}
		crowd_close(&c);
		EXPECT(drm_works(&c.g));
	}
	EXPECT_EQ(errors, wanted);
	growth_expect_none("faults", rounds * STREAMS);
	drm_expect_usage(&c.g, vram, gtt);
}

/* An engine hangs within one job and is reset. */
TEST_TIMEOUT(engine_hang, 200)
{
	int error = 0;

	run_with_faults(3, 1, &error);
	EXPECT_RET(error, -ETIME);
}

/*
 * One job at a time, so that no later job's interrupt signals an earlier one; each still ends.
 * Returns how many of the 20 took at least `seconds`.
 */
static unsigned int one_by_one(double seconds)
{
	unsigned int late = 0;
	struct gpu g;

	drm_open(&g);
	for (int i = 0; i < 20; i++) {
		double start = seconds_now(), took;

		ASSERT(drm_works(&g), "job %d", i);
		took = seconds_now() - start;
		EXPECT(took < 10, "job %d took %.1f s", i, took);
		late += took >= seconds;
	}
	ktap_note("%u of 20 jobs took %.1f s or longer", late, seconds);
	return late;
}

/* Every seventh interrupt is lost: the driver polls the fences after a while. */
TEST_TIMEOUT(lost_interrupts, 200)
{
	int error = 0;

	run_with_faults(2, 0, &error);
	EXPECT(one_by_one(0.4) >= 2);
}

/* The interrupt arrives 0.1 s before the fence value is written: no job ends earlier. */
TEST_TIMEOUT(late_fence_writes, 200)
{
	int error = 0;

	run_with_faults(2, 0, &error);
	EXPECT_EQ(one_by_one(0.1), 20);
}

/* One copy has an unmapped destination. */
TEST_TIMEOUT(copy_fault, 200)
{
	int error = 0;

	run_with_faults(3, 1, &error);
	EXPECT_RET(error, fault_result());
}

/* Runs a job that faults or has invalid packets: it ends with `error`. A job after it succeeds. */
static void after(struct gpu *g, struct stream *s, const uint32_t *end, uint64_t packets,
		  uint32_t dwords, int error)
{
	struct amdgpu_cs_ib_info ib = { .ib_mc_address = packets, .size = dwords };
	struct amdgpu_cs_request request = { .ip_type = AMDGPU_HW_IP_DMA,
					     .number_of_ibs = 1,
					     .ibs = &ib };

	if (end) {
		ib.ib_mc_address = s->ib.va;
		ib.size = (uint32_t)(end - (uint32_t *)s->ib.cpu);
	}
	request.resources = s->list;
	ASSERT_OK(amdgpu_cs_submit(s->ctx, 0, &request, 1));
	EXPECT_RET(stream_wait(s, request.seq_no, WAIT_NS), error);
	EXPECT(drm_works(g));
}

static void open_one(struct gpu *g, struct stream *s, struct mem *m)
{
	const struct mem *mems[1] = { m };

	drm_open(g);
	mem_create(g, 65536, GTT, m);
	stream_create(g, s, 0, NORMAL, 1, 256);
	stream_uses(s, mems, 1);
}

TEST_TIMEOUT(unmapped_ib, 120)
{
	struct stream s;
	struct gpu g;
	struct mem m;

	open_one(&g, &s, &m);
	/* Accepted: only the engine checks the address. */
	after(&g, &s, NULL, 0x7ff000000000ull, 64, fault_result());
}

TEST_TIMEOUT(unmapped_copy, 120)
{
	struct stream s;
	struct gpu g;
	struct mem m;
	uint32_t *p;

	open_one(&g, &s, &m);
	memset(m.cpu, 0x5a, 65536);
	p = s.ib.cpu;
	sdma_copy(&p, 0x7ff000000000ull, m.va, 4096);
	after(&g, &s, p, 0, 0, fault_result());
	stream_destroy(&s);
	stream_create(&g, &s, 0, NORMAL, 1, 256);
	p = s.ib.cpu;
	sdma_copy(&p, m.va, 0x7ff000000000ull, 4096);
	after(&g, &s, p, 0, 0, fault_result());
	/* End of a mapping. */
	stream_destroy(&s);
	stream_create(&g, &s, 0, NORMAL, 1, 256);
	ASSERT_OK(amdgpu_bo_va_op(m.bo, 0, 65536, m.va, 0, AMDGPU_VA_OP_UNMAP));
	ASSERT_OK(amdgpu_bo_va_op(m.bo, 0, 32768, m.va, 0, AMDGPU_VA_OP_MAP));
	p = s.ib.cpu;
	sdma_fill(&p, m.va + 28672, 0x11111111, 8192);
	after(&g, &s, p, 0, 0, fault_result());
	for (uint32_t i = 1024; i < 16384; i++)
		if (i < 7168 || i >= 8192)
			ASSERT_EQ(((uint32_t *)m.cpu)[i], 0x5a5a5a5a);
}

TEST_TIMEOUT(invalid_packets, 120)
{
	struct stream s;
	struct gpu g;
	struct mem m;
	uint32_t *p;

	open_one(&g, &s, &m);
	p = s.ib.cpu;
	*p++ = 0xff;
	for (int i = 0; i < 7; i++)
		*p++ = 0x12345678;
	/* The engine stops there: the job times out. */
	after(&g, &s, p, 0, 0, -ETIME);
}
