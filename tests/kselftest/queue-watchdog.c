// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the watchdog for queues that stop retiring packets. Needs the GPU model, whose control
 * socket is the serial port $MODEL_CONTROL of the guest (scripts/vm --control): its packet
 * processor stalls at a doorbell (knob cp.stall), an SDMA engine in a copy (knob sdma.stall).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "corelib.h"
#include "device.h"
#include "knobs.h"
#include "userptr.h"
#include "watch.h"

#define STALLED " is stalled: doorbell 0x"
/* Seconds within which a stalled queue is reported, and after which one that is not never is. */
#define BOUND (10 * (int)ktap_time_factor())

/* Returns how many log lines have `text`: waits for the first, and whether any report follows. */
static int reports(int log, const char *text)
{
	double start = seconds_now();
	int found = 0;

	while (!found && seconds_now() - start < BOUND) {
		usleep(100000);
		found = kmsg_lines_with(log, text);
	}
	ktap_note("%d after %.1f s", found, seconds_now() - start);
	sleep(5);
	return found + kmsg_lines_with(log, STALLED);
}

static void expect_no_report(int log)
{
	sleep(BOUND + 4);
	EXPECT_EQ(kmsg_lines_with(log, STALLED), 0);
}

/*
 * Stalls the packet processor at the next doorbell of an AQL queue. CREATE_QUEUE does not wait for
 * the scheduler, and a doorbell before the queue is mapped does not stall it.
 */
static void stall_at_doorbell(void)
{
	knobs_open();
	usleep(500000 * ktap_time_factor());
	knob_set("cp.stall", 1);
}

/* Waits until the packet processor has stalled once more. */
static void wait_for_stall(unsigned int before)
{
	for (int ms = 0; knob_hits("cp.stall") == before; ms++)
		ASSERT(ms < (int)WAIT_MS && !usleep(1000), "no stall");
}

/* Dispatches a kernel in a queue that stalls. */
static void stall(struct fixture *f)
{
	unsigned int before;

	stall_at_doorbell();
	before = knob_hits("cp.stall");
	fixture_fill_start(f, &f->q, &f->signal, 0, f->data->va, 64, 7);
	wait_for_stall(before);
}

/* The next doorbell ends the stall. */
static void resume(struct fixture *f)
{
	kfd_queue_ring(&f->q, f->q.q->write_dispatch_id - 1);
	ASSERT_OK(kfd_signal_wait(&f->k, &f->signal, WAIT_MS));
}

/* A stall is reported once, in the log, by a trace event and a coredump; the queue can continue. */
TEST_TIMEOUT(stalled_queue_is_reported_once, 120)
{
	char line[128], *text;
	struct fixture f;
	int log, all;

	watch_need_events();
	coredump_free_all();
	fixture_launch(&f);
	log = kmsg_open();
	all = kmsg_open();
	watch_start_only("rkfd_queue_stalled", NULL);
	stall(&f);
	snprintf(line, sizeof(line), "queue %u of process %d (PASID ", f.q.id, getpid());
	EXPECT_EQ(reports(log, line), 1);
	EXPECT_EQ(kmsg_lines_with(all, "packet 0x0 of 0x1 with header "), 1);
	/* Nothing was killed or reset. */
	resume(&f);
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[63], 7);
	text = watch_stop();
	snprintf(line, sizeof(line), " pid=%d ", getpid());
	EXPECT_EQ(watch_count(text, line), 1);
	free(text);
	text = coredump_wait(&f.k);
	coredump_expect(text, "reason: a compute queue is stalled\n");
	snprintf(line, sizeof(line), "\nFailed queue\n  process %d, PASID ", getpid());
	coredump_expect(text, line);
	coredump_expect(text, "CP_HQD_ACTIVE 00000001\n");
	free(text);
	coredump_expect_freed();

	/* The same queue stalls at another packet. */
	stall(&f);
	EXPECT_EQ(reports(log, "packet 0x1 of 0x2 with header "), 1);
	resume(&f);
	EXPECT(fixture_works(&f));
	coredump_free_all();
}

/* Of two queues that stop, the second one is reported about 2 s after the first. */
TEST_TIMEOUT(queues_are_reported_in_turn, 120)
{
	struct kfd_signal signal;
	struct kfd_queue second;
	unsigned int stalls, found = 0;
	double start, at[2] = { 0 };
	struct fixture f;
	int log, all;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &signal));
	log = kmsg_open();
	all = kmsg_open();
	stall_at_doorbell();
	knob_set("cp.stall", 3);
	stalls = knob_hits("cp.stall");
	fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 7);
	wait_for_stall(stalls);
	fixture_fill_start(&f, &second, &signal, 1, (uint32_t *)f.data->va + 64, 64, 7);
	wait_for_stall(stalls + 1);
	start = seconds_now();
	while (found < 2 && seconds_now() - start < BOUND + 4 * ktap_time_factor()) {
		unsigned int more = (unsigned int)kmsg_lines_with(log, STALLED);

		for (; more && found < 2; more--)
			at[found++] = seconds_now() - start;
		usleep(100000);
	}
	ktap_note("%u reports, after %.1f and %.1f s", found, at[0], at[1]);
	EXPECT_EQ(found, 2);
	EXPECT(at[0] < BOUND);
	EXPECT(at[1] - at[0] > 1.5 && at[1] - at[0] < 4 * ktap_time_factor());
	resume(&f);
	kfd_queue_ring(&second, second.q->write_dispatch_id - 1);
	EXPECT_OK(kfd_signal_wait(&f.k, &signal, WAIT_MS));
	EXPECT_EQ(kmsg_lines_with(all, STALLED), 2);
	coredump_free_all();
}

/* A kernel may run for ever, with others behind it. */
TEST_TIMEOUT(long_kernel_is_not_reported, 120)
{
	struct kfd_signal second;
	struct fixture f;
	int log;

	fixture_launch(&f);
	ASSERT_OK(kfd_signal_create(&f.k, 1, &second));
	log = kmsg_open();
	fixture_endless(&f, 2);
	fixture_fill_start(&f, &f.q, &second, 1, (uint32_t *)f.data->va + 64, 64, 7);
	expect_no_report(log);
	((volatile uint32_t *)f.data->va)[1] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(kfd_signal_wait(&f.k, &second, WAIT_MS));
}

/* Nor is a queue that waits: for a signal, or for a packet that is not written yet. */
TEST_TIMEOUT(waiting_queue_is_not_reported, 120)
{
	struct kfd_queue second;
	struct kfd_signal dep;
	struct aql_barrier packet;
	struct fixture f;
	int log;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &dep));
	log = kmsg_open();
	memset(&packet, 0, sizeof(packet));
	packet.header = AQL_HEADER(AQL_BARRIER_AND, true);
	packet.dep_signal[0] = kfd_va(dep.s);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 7);
	packet.header = AQL_HEADER(AQL_INVALID, false);
	kfd_queue_ring(&second, kfd_queue_write(&second, &packet));
	expect_no_report(log);
	__atomic_store_n(&dep.s->value, 0, __ATOMIC_RELEASE);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

/* Pointers and ring may be memory of the process, but not the write pointer that MES reads. */
TEST_TIMEOUT(queue_in_user_memory_is_reported, 120)
{
	struct kfd_ioctl_create_queue_args args;
	struct amd_queue *descriptor;
	struct pages ring, pointers;
	char line[128];
	struct fixture f;
	int log;

	fixture_load(&f);
	ASSERT_OK(kfd_queue_prepare(&f.k, &f.q, 64, &args));
	descriptor = f.q.q;
	register_new(&f.k, KFD_PAGE, &ring);
	register_new(&f.k, KFD_PAGE, &pointers);
	memcpy(ring.cpu, f.q.ring->va, KFD_PAGE);
	memcpy(pointers.cpu, f.q.q, sizeof(*f.q.q));
	f.q.ring->va = ring.cpu;
	args.ring_base_address = kfd_va(ring.cpu);
	args.read_pointer_address =
		kfd_va((void *)&((struct amd_queue *)(void *)pointers.cpu)->read_dispatch_id);
	if (!is_gfx12(&f.k.node))
		descriptor = f.q.q = (struct amd_queue *)(void *)pointers.cpu;
	args.write_pointer_address = kfd_va((void *)&descriptor->write_dispatch_id);
	ASSERT_OK(kfd_queue_start(&f.q, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&f.q));
	log = kmsg_open();
	stall(&f);
	snprintf(line, sizeof(line), "queue %u of process %d (PASID ", f.q.id, getpid());
	EXPECT_EQ(reports(log, line), 1);
	resume(&f);
	coredump_free_all();
}

/* The queue is mapped again at the resume, and continues. */
TEST_TIMEOUT(stalled_queue_and_suspend, 120)
{
	struct fixture f;
	double start;
	int log;

	fixture_launch(&f);
	log = kmsg_open();
	stall(&f);
	EXPECT_EQ(reports(log, STALLED), 1);
	start = seconds_now();
	ASSERT_OK(try_to_sleep("devices"));
	EXPECT(seconds_now() - start < BOUND, "%.1f s", seconds_now() - start);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(fixture_works(&f));
	coredump_free_all();
}

/* Unbinds the driver, and binds it again. Returns how long the unbind takes. */
static double timed_unbind(void)
{
	double start = seconds_now(), took;
	int log = kmsg_open();

	ASSERT_OK(device_unbind());
	took = seconds_now() - start;
	EXPECT_EQ(kmsg_lines_with(log, " reset"), 0);
	close(log);
	ASSERT_OK(device_bind());
	ktap_note("unbound in %.1f s", took);
	return took;
}

static void unbind_with_a_queue(void *took)
{
	struct fixture f;

	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	*(double *)took = timed_unbind();
}

/* It does not wait for a timeout of the scheduler. */
TEST_TIMEOUT(stalled_queue_and_unbind, 120)
{
	double *normal, took;
	struct fixture f;

	device_find();
	normal = mmap(NULL, sizeof(*normal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(normal != MAP_FAILED);
	ASSERT_OK(ktap_in_child(unbind_with_a_queue, normal));
	fixture_launch(&f);
	stall(&f);
	/* By now the watchdog has sampled the queue, but not reported it. */
	sleep(3);
	took = timed_unbind();
	EXPECT(took < *normal + 2 * ktap_time_factor(), "%.1f s, %.1f s without a stall", took, *normal);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

static void stall_and_exit(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	stall(&f);
	/* One check of the watchdog has been there, which reports at the third. */
	sleep(2);
}

/* The queue of a process that has died is neither reported nor the reason for a reset. */
TEST_TIMEOUT(stalled_queue_and_exit, 120)
{
	int log = kmsg_open(), all = kmsg_open();
	double start = seconds_now();

	ASSERT_OK(ktap_in_child(stall_and_exit, NULL));
	EXPECT(seconds_now() - start < BOUND, "%.1f s", seconds_now() - start);
	expect_no_report(log);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	EXPECT_EQ(kmsg_lines_with(all, " reset"), 0);
}

/* A barrier is reported when its signals are 0. */
TEST_TIMEOUT(ready_barrier_is_reported, 120)
{
	struct kfd_signal done, open;
	struct aql_barrier packet;
	unsigned int stalls;
	struct fixture f;
	char line[128];
	int log;

	fixture_launch(&f);
	ASSERT_OK(kfd_signal_create(&f.k, 0, &done));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &open));
	log = kmsg_open();
	memset(&packet, 0, sizeof(packet));
	packet.header = AQL_HEADER(AQL_BARRIER_AND, true);
	packet.dep_signal[1] = kfd_va(done.s);
	packet.dep_signal[4] = kfd_va(open.s);
	stall_at_doorbell();
	stalls = knob_hits("cp.stall");
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	wait_for_stall(stalls);
	expect_no_report(log);
	__atomic_store_n(&open.s->value, 0, __ATOMIC_RELEASE);
	snprintf(line, sizeof(line), "queue %u of process %d (PASID ", f.q.id, getpid());
	EXPECT_EQ(reports(log, line), 1);
	fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 7);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	coredump_free_all();
}

#define SDMA_RING 4096u

static void sdma_start(struct kfd *k, struct sdma_queue *q)
{
	ASSERT_OK(sdma_queue_create(k, q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, SDMA_RING));
}

/* Fence 1, a copy, fence 2. */
static void sdma_submit(struct sdma_queue *q, uint32_t *words)
{
	uint32_t packets[32] = { 0 }, *p = packets;

	sdma_fence(&p, kfd_va(words), 1);
	sdma_copy(&p, kfd_va(words + 64), kfd_va(words + 32), 64);
	sdma_fence(&p, kfd_va(words), 2);
	ASSERT_OK(sdma_queue_put(q, packets, p));
	sdma_queue_ring(q);
}

static void sdma_stall(void *unused)
{
	struct sdma_queue q, behind;
	char line[128], *text;
	struct kfd_bo *page;
	uint64_t stands;
	struct kfd k;
	int log;

	(void)unused;
	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &page));
	sdma_start(&k, &q);
	sdma_start(&k, &behind);
	coredump_free_all();
	log = kmsg_open();
	knobs_open();
	knob_set("sdma.stall", 1);
	sdma_submit(&q, page->va);
	usleep(500000 * ktap_time_factor());
	ASSERT_EQ(knob_hits("sdma.stall"), 1);
	stands = *q.rptr;
	EXPECT(stands > 0 && stands < *q.wptr, "%#llx", (unsigned long long)stands);
	/* Its engine does nothing else. */
	sdma_submit(&behind, (uint32_t *)page->va + 256);
	snprintf(line, sizeof(line), "packet %#llx of %#llx with header ", (unsigned long long)stands,
		 (unsigned long long)*q.wptr);
	EXPECT_EQ(reports(log, line), 1);
	EXPECT_EQ(*(volatile uint32_t *)page->va, 1);
	text = coredump_wait(&k);
	coredump_expect(text, "reason: an SDMA queue is stalled\n");
	snprintf(line, sizeof(line), "\ngpu_id: %#x\n", k.node.gpu_id);
	coredump_expect(text, line);
	snprintf(line, sizeof(line), "\nFailed queue\n  process %d, PASID ", getpid());
	coredump_expect(text, line);
	free(text);
	coredump_free_all();
}

/* The queue whose packet its engine executes is reported, not one behind it. */
TEST_TIMEOUT(stalled_sdma_queue_is_reported, 180)
{
	ASSERT_OK(ktap_in_child(sdma_stall, NULL));
	/* Its exit resets the engine, or the GPU: CREATE_QUEUE fails meanwhile. */
	ASSERT_OK(ktap_in_child(fixture_wait_for_reset, NULL));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	coredump_free_all();
}

/* A packet that polls memory may wait. */
TEST_TIMEOUT(waiting_sdma_queue_is_not_reported, 120)
{
	uint32_t packets[32] = { 0 }, *p = packets;
	struct sdma_queue q;
	struct kfd_bo *page;
	struct kfd k;
	int log;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &page));
	sdma_start(&k, &q);
	log = kmsg_open();
	sdma_poll(&p, kfd_va(page->va), SDMA_EQUAL, 3, ~0u);
	ASSERT_OK(sdma_queue_put(&q, packets, p));
	sdma_submit(&q, (uint32_t *)page->va + 256);
	expect_no_report(log);
	*(volatile uint32_t *)page->va = 3;
	for (int ms = 0; ms < (int)WAIT_MS && !sdma_queue_is_empty(&q); ms++)
		usleep(1000);
	EXPECT(sdma_queue_is_empty(&q));
	EXPECT_OK(sdma_queue_destroy(&q));
}
