// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Compute queues that do not let themselves be preempted: the queue is reset, its process is told, and others go on.
 * For a GPU whose scheduler gives up after its patience, that is the model with the knob hws.no_preempt=2.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

static int update(struct kfd_queue *q, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = kfd_va(q->ring->va), .queue_id = q->id, .ring_size = (uint32_t)q->ring->size,
		.queue_percentage = percent, .queue_priority = 7,
	};

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

static void get_stuck(void *data)
{
	struct kfd_event_data told = { 0 };
	uint32_t event, result = 99;
	struct kfd_queue second;
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	/* That takes the first one off, which takes as long as the firmware's patience. */
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	told.event_id = event;
	ASSERT_OK(kfd_event_wait(&f.k, &told, 1, true, WAIT_MS, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(told.hw_exception_data.gpu_id, f.k.node.gpu_id);
	EXPECT_EQ(told.hw_exception_data.reset_cause, KFD_HW_EXCEPTION_GPU_HANG);
	/* The other queue is as good as new. */
	EXPECT_OK(fixture_fill(&f, &second, f.data->va, 64, 7));
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[63], 7);
	EXPECT_RET(update(&f.q, 0), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST_TIMEOUT(a_stuck_queue_is_lost_and_its_process_told, 120)
{
	get_stuck(NULL);
}

static void work(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* It does not leave either. */
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST_TIMEOUT(the_next_process_finds_a_working_gpu, 180)
{
	EXPECT_OK(ktap_in_child(get_stuck, NULL));
	EXPECT_OK(ktap_in_child(work, NULL));
}

static void end_with_a_queue(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(a_process_may_end_with_a_stuck_queue, 180)
{
	EXPECT_OK(ktap_in_child(end_with_a_queue, NULL));
	EXPECT_OK(ktap_in_child(work, NULL));
}
