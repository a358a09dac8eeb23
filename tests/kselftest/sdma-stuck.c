// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests SDMA queues that cannot be preempted: the engine is reset, the process gets a HW_EXCEPTION
 * event, other queues are unaffected. Needs a GPU whose scheduler ends a preemption after a
 * timeout: the model with the knob hws.no_preempt=2, or its control socket.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "cs.h"
#include "device.h"
#include "knobs.h"

#define RING 4096u

/*
 * The last engine: with harvested instances its number is not the one by which firmware resets it.
 */
static uint32_t engine(const struct kfd *k)
{
	return k->node.num_sdma_engines + k->node.num_sdma_xgmi_engines - 1;
}

static int update(struct sdma_queue *q, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = kfd_va(q->ring->va),
		.queue_id = q->id,
		.ring_size = RING,
		.queue_percentage = percent,
		.queue_priority = 7,
	};

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

/* Writes a dword by a queue; returns whether it has the value in time. */
static void write_later(struct sdma_queue *q, volatile uint32_t *word, uint32_t value)
{
	uint32_t packets[8] = { 0 }, *p = packets;

	sdma_fence(&p, kfd_va((void *)word), value);
	ASSERT_OK(sdma_queue_put(q, packets, p));
	sdma_queue_ring(q);
}

static bool works(struct sdma_queue *q, volatile uint32_t *word, uint32_t value)
{
	write_later(q, word, value);
	return becomes(word, value, 20000);
}

/* Deactivates a queue that is stuck, which detects the hang and fails. */
static void lose(struct sdma_queue *q, uint32_t event)
{
	int log = kmsg_open();
	double start = seconds_now();
	char line[64];

	EXPECT_RET(update(q, 0), -EACCES);
	expect_stuck_call(seconds_now() - start);
	expect_hang_event(q->k, event, WAIT_MS);
	EXPECT_RET(update(q, 100), -EACCES);
	snprintf(line, sizeof(line), ": queue %u of process %d (PASID ", q->id, getpid());
	if (ktap_is_rkfd())
		EXPECT_EQ(kmsg_lines_with(log, line), 1);
	close(log);
}

/* Polls a dword that is never written; deactivating the queue does not help. */
static void get_stuck(void *data)
{
	uint32_t packets[8] = { 0 }, *p = packets, event;
	struct sdma_queue q;
	struct kfd_bo *page;
	struct kfd k;

	(void)data;
	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_bo_create(&k, 4096, KFD_FLAGS_GTT, &page));
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine(&k), RING));
	ASSERT(works(&q, (volatile uint32_t *)page->va + 1, 7));
	sdma_poll(&p, kfd_va(page->va), SDMA_EQUAL, 1, ~0u);
	ASSERT_OK(sdma_queue_put(&q, packets, p));
	sdma_queue_ring(&q);
	usleep(50000);
	lose(&q, event);
	EXPECT_OK(sdma_queue_destroy(&q));
}

TEST_TIMEOUT(stuck_queue_is_reset, 120)
{
	get_stuck(NULL);
}

/* A process with a compute queue and one of the engine that is reset, none of which is lost. */
static void neighbour(int ready, int go)
{
	struct kfd_bo *page, *kept;
	struct sdma_queue q;
	struct fixture f;
	uint32_t event;
	char byte = 0;

	fixture_launch(&f);
	kept = fixture_keep(&f.k);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_GTT, &page));
	ASSERT_OK(sdma_queue_create(&f.k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine(&f.k), RING));
	ASSERT(fixture_works(&f));
	ASSERT(works(&q, page->va, 7));
	ASSERT(write(ready, &byte, 1) == 1);
	ASSERT(read(go, &byte, 1) == 1);
	EXPECT(fixture_works(&f));
	EXPECT(works(&q, page->va, 8));
	fixture_expect_kept(kept);
	EXPECT_EQ(event_result(&f.k, event, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_OK(sdma_queue_destroy(&q));
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ktap_end();
}

static void use_engine(void *data)
{
	struct sdma_queue q;
	struct kfd_bo *page;
	struct kfd k;

	(void)data;
	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, 4096, KFD_FLAGS_GTT, &page));
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine(&k), RING));
	for (uint32_t i = 1; i < 10; i++)
		ASSERT(works(&q, page->va, i), "round %u", i);
}

/* Queues of its process and of another one, on all engines, and compute queues are unaffected. */
TEST_TIMEOUT(other_queues_survive, 180)
{
	uint32_t packets[8] = { 0 }, *p = packets, event, value = 7;
	struct sdma_queue stuck, other, behind;
	struct kfd_bo *page;
	unsigned int stalls;
	uint32_t *words;
	struct fixture f;
	int ready[2], go[2], status;
	char byte = 0;
	pid_t child;
	int log;

	knobs_open();
	stalls = knob_hits("sdma.stall");
	ASSERT(!pipe(ready) && !pipe(go));
	child = fork_child();
	if (!child)
		neighbour(ready[1], go[0]);
	close(ready[1]);
	wait_for_byte(ready[0]);
	log = kmsg_open();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_GTT, &page));
	words = page->va;
	ASSERT_OK(sdma_queue_create(&f.k, &other, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, RING));
	ASSERT_OK(sdma_queue_create(&f.k, &stuck, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine(&f.k), RING));
	ASSERT_OK(sdma_queue_create(&f.k, &behind, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine(&f.k), RING));
	ASSERT(works(&other, words, value) && works(&stuck, words + 1, value) &&
	       works(&behind, words + 2, value));
	knob_set("sdma.stall", 1);
	sdma_copy(&p, kfd_va(words + 64), kfd_va(words + 128), 64);
	ASSERT_OK(sdma_queue_put(&stuck, packets, p));
	sdma_queue_ring(&stuck);
	for (int ms = 0; knob_hits("sdma.stall") == stalls; ms++)
		ASSERT(ms < 1000 && !usleep(1000));
	lose(&stuck, event);
	EXPECT(fixture_works(&f));
	EXPECT(works(&other, words, ++value), "the queue of another engine");
	EXPECT(works(&behind, words + 2, value), "the other queue of the engine");
	EXPECT_EQ(kmsg_lines_with(log, " was reset ("), 0);
	ASSERT(write(go[1], &byte, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(!status, "the other process failed");
	EXPECT_OK(sdma_queue_destroy(&stuck));
	EXPECT_OK(sdma_queue_destroy(&other));
	EXPECT_OK(sdma_queue_destroy(&behind));
	close(log);
}

/* The engine works again afterwards. */
TEST_TIMEOUT(next_process_works, 180)
{
	EXPECT_OK(ktap_in_child(get_stuck, NULL));
	EXPECT_OK(ktap_in_child(use_engine, NULL));
}

/* Stalls the engine of a queue, which is not preempted, and returns when the queue occupies it. */
static void stall(struct sdma_queue *q, struct kfd_bo *page)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	unsigned int stalls = knob_hits("sdma.stall");

	knob_set("sdma.stall", 1);
	sdma_copy(&p, kfd_va(page->va) + 64, kfd_va(page->va) + 128, 64);
	ASSERT_OK(sdma_queue_put(q, packets, p));
	sdma_queue_ring(q);
	for (int ms = 0; knob_hits("sdma.stall") == stalls; ms++)
		ASSERT(ms < 1000 && !usleep(1000));
}

/* Both engines are reset, and the card is not, when a job hangs on another one. */
TEST_TIMEOUT(stuck_beside_a_hung_job, 120)
{
	unsigned int hangs, other;
	uint32_t event;
	volatile uint32_t *words;
	struct sdma_queue q[2];
	uint64_t handle, busy;
	struct kfd_bo *page;
	struct fixture f;
	struct cs cs;
	int log;

	knobs_open();
	log = kmsg_open();
	hangs = knob_hits("sdma.hang");
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &handle));
	cs_done(&cs, 0, handle);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_FLAGS_GTT, &page));
	words = page->va;
	for (uint32_t i = 0; i < 2; i++) {
		ASSERT_OK(sdma_queue_create(&f.k, &q[i], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, i, RING));
		ASSERT(works(&q[i], words + i, 7));
	}
	knob_set("sdma.hang", 1);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 2), &handle));
	for (int ms = 0; knob_hits("sdma.hang") == hangs; ms++)
		ASSERT(ms < 1000 && !usleep(1000));
	/* The job may be on the engine of one of the queues. */
	for (int i = 0; i < 2; i++)
		write_later(&q[i], words + i, 8);
	for (int ms = 0; words[0] != 8 && words[1] != 8; ms++)
		ASSERT(ms < 20000 && !usleep(1000));
	other = words[0] != 8;
	stall(&q[other], page);
	EXPECT_RET(cs_wait(&cs, 0, handle, FOREVER, &busy), -ETIME);
	expect_hang_event(&f.k, event, WAIT_MS);
	EXPECT(fixture_works(&f), "the card was reset");
	EXPECT_EQ(kmsg_lines_with(log, " was reset ("), 0);
	close(log);
	EXPECT_OK(sdma_queue_destroy(&q[0]));
	EXPECT_OK(sdma_queue_destroy(&q[1]));
	ASSERT_OK(ktap_in_child(use_engine, NULL));
}

/* Creates a queue of engine 0 that stalls it. */
static void stall_new(struct kfd *k, struct sdma_queue *q)
{
	struct kfd_bo *page;

	ASSERT_OK(kfd_bo_create(k, 4096, KFD_FLAGS_GTT, &page));
	ASSERT_OK(sdma_queue_create(k, q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, RING));
	ASSERT(works(q, page->va, 7));
	stall(q, page);
}

/* Jobs of more contexts than there are engines: some are on each ring. */
struct jobs {
	struct cs cs[8];
	uint64_t handle[8];
};

static void jobs_open(struct jobs *jobs)
{
	for (int i = 0; i < 8; i++) {
		cs_open(&jobs->cs[i]);
		ASSERT_OK(cs_run(&jobs->cs[i], 0, cs_write(&jobs->cs[i], jobs->cs[i].data.va, 1),
				 &jobs->handle[i]));
		cs_done(&jobs->cs[i], 0, jobs->handle[i]);
	}
}

static void jobs_start(struct jobs *jobs)
{
	for (int i = 0; i < 8; i++)
		ASSERT_OK(cs_run(&jobs->cs[i], 0, cs_write(&jobs->cs[i], jobs->cs[i].data.va, 2),
				 &jobs->handle[i]));
}

/* Jobs that wait for an engine behind a queue that is stuck are executed after its reset. */
TEST_TIMEOUT(jobs_behind_a_stuck_queue, 120)
{
	struct sdma_queue q;
	struct jobs jobs;
	uint32_t event;
	struct kfd k;

	knobs_open();
	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	jobs_open(&jobs);
	stall_new(&k, &q);
	jobs_start(&jobs);
	expect_hang_event(&k, event, WAIT_MS);
	for (int i = 0; i < 8; i++) {
		uint64_t busy;

		EXPECT_OK(cs_wait(&jobs.cs[i], 0, jobs.handle[i], FOREVER, &busy));
		EXPECT_EQ(jobs.cs[i].data.words[0], 2);
		cs_expect_resets(&jobs.cs[i], false);
	}
	EXPECT_OK(sdma_queue_destroy(&q));
	ASSERT_OK(ktap_in_child(use_engine, NULL));
}

/* The queue of a killed process keeps its memory until its engine is reset. */
TEST_TIMEOUT(killed_before_the_reset, 120)
{
	uint64_t before = 0, now = 0;
	struct jobs jobs;
	int log, ready[2];
	struct kfd k;
	pid_t child;
	char byte = 0;
	int rc;

	knobs_open();
	fixture_open(&k);
	jobs_open(&jobs);
	ASSERT_OK(kfd_available(&k, &before));
	log = kmsg_open();
	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child) {
		struct sdma_queue q;
		struct kfd_bo *vram;

		fixture_open(&k);
		ASSERT_OK(kfd_bo_create(&k, 64 << 20, KFD_FLAGS_VRAM, &vram));
		stall_new(&k, &q);
		ASSERT(write(ready[1], &byte, 1) == 1);
		pause();
	}
	wait_for_byte(ready[0]);
	ASSERT_OK(kfd_available(&k, &now));
	ASSERT(now < before);
	jobs_start(&jobs);
	for (int ms = 0; !kmsg_lines_with(log, ": timeout, signaled seq"); ms += 10)
		ASSERT(ms < 30000 && !usleep(10000));
	/* The reset of the engine fails after 2 s, and the card is reset. */
	knob_set("smu.silent", 1);
	ASSERT(kill(child, SIGKILL) == 0);
	for (int ms = 0;; ms += 10) {
		rc = kfd_available(&k, &now);
		if (rc || now >= before)
			break;
		ASSERT(ms < 60000 && !usleep(10000));
	}
	ktap_note("%d, %llu MiB in use", rc, (unsigned long long)(before - now) >> 20);
	EXPECT(kmsg_lines_with(log, " hangs (") > 0);
	close(log);
	ASSERT(waitpid(child, NULL, 0) == child);
	knob_set("smu.silent", 0);
	ASSERT_OK(ktap_in_child(fixture_wait_for_reset, NULL));
	ASSERT_OK(ktap_in_child(use_engine, NULL));
}
