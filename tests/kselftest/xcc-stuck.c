// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests waves of one XCC that cannot be preempted: their queue is reset, the other queues of the
 * process and other processes are unaffected. Needs a GPU with such waves on the last XCC: the
 * model with the knob hws.stuck_xcc.
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "queue-calls.h"

/*
 * Dispatches a kernel that spins on one XCC until the second word of the data is set, and waits
 * until it runs there.
 */
static void spin_on(struct fixture *f, uint32_t xcc)
{
	const uint32_t grid[3] = { 4 * f->k.node.num_xcc * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *words = f->data->va;
	uint64_t arguments[3] = { kfd_va(f->data->va), kfd_va(f->data->va) + 4, xcc };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "endless_on_xcc", &kernel));
	memcpy(f->kernarg->va, arguments, sizeof(arguments));
	words[0] = words[1] = 0;
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
	ASSERT(becomes(&words[0], 4, 10000), "%u workgroups", words[0]);
}

/* Has waves on the first XCC, which are preempted and restored. */
static void neighbour(int ready, int go)
{
	struct kfd_bo *kept;
	struct fixture f;
	uint32_t event;
	char byte = 0;

	fixture_launch(&f);
	kept = fixture_keep(&f.k);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	spin_on(&f, 0);
	ASSERT(write(ready, &byte, 1) == 1);
	ASSERT(read(go, &byte, 1) == 1);
	EXPECT_EQ(f.signal.s->value, 1);
	((volatile uint32_t *)f.data->va)[1] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(fixture_works(&f));
	fixture_expect_kept(kept);
	EXPECT_EQ(event_result(&f.k, event, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ktap_end();
}

TEST_TIMEOUT(queue_with_stuck_wave_is_reset, 120)
{
	int ready[2], go[2], status;
	struct kfd_queue before, after;
	struct fixture f;
	uint32_t event;
	char byte = 0;
	double start;
	pid_t child;

	ASSERT(!pipe(ready) && !pipe(go));
	child = fork_child();
	if (!child)
		neighbour(ready[1], go[0]);
	close(ready[1]);
	wait_for_byte(ready[0]);
	fixture_launch(&f);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_queue_create(&f.k, &before, 64));
	spin_on(&f, f.k.node.num_xcc - 1);
	start = seconds_now();
	/* This preempts all queues, which ends with the firmware's timeout of one XCC. */
	ASSERT_OK(kfd_queue_create(&f.k, &after, 64));
	expect_stuck_call(seconds_now() - start);
	expect_hang_event(&f.k, event, WAIT_MS);
	EXPECT_OK(fixture_fill(&f, &before, (uint32_t *)f.data->va + 1024, 64, 7));
	EXPECT_OK(fixture_fill(&f, &after, (uint32_t *)f.data->va + 1088, 64, 8));
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[1024 + 63], 7);
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[1088 + 63], 8);
	ASSERT(write(go[1], &byte, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(!status, "the other process failed");
	/* The C driver leaves all queues unmapped here: last. */
	EXPECT_RET(update(&f.k, f.q.id, kfd_va(f.q.ring->va), (uint32_t)f.q.ring->size, 0, 7),
		   -EACCES);
	fixture_fill_start(&f, &before, &f.signal, 0, f.data->va, 64, 9);
	if (ktap_is_rkfd()) {
		EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	} else {
		usleep(500000);
		EXPECT_EQ(f.signal.s->value, 1);
	}
	EXPECT_OK(kfd_queue_destroy(&f.q));
}
