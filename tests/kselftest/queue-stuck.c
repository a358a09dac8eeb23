// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests compute queues that cannot be preempted: the queue is reset, its process gets a
 * HW_EXCEPTION event, other queues are unaffected. Needs a GPU whose scheduler ends a preemption
 * after a timeout: the model with the knob hws.no_preempt=2, or its control socket.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "device.h"
#include "knobs.h"
#include "userptr.h"

static void get_stuck(void *data)
{
	int log = kmsg_open();
	struct kfd_queue second;
	struct fixture f;
	uint32_t event;
	char line[64];
	double start;

	(void)data;
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	/* This preempts the first queue, which ends with the firmware's timeout. */
	start = seconds_now();
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	expect_stuck_call(seconds_now() - start);
	expect_hang_event(&f.k, event, WAIT_MS);
	/* The other queue works. */
	EXPECT_OK(fixture_fill(&f, &second, f.data->va, 64, 7));
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[63], 7);
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	snprintf(line, sizeof(line), ": queue %u of process %d (PASID ", f.q.id, getpid());
	if (ktap_is_rkfd())
		EXPECT_EQ(kmsg_lines_with(log, line), 1);
	close(log);
}

TEST_TIMEOUT(stuck_queue_is_reset, 120)
{
	get_stuck(NULL);
}

/* A lost queue is not preempted again: nothing that preempts the queues of its process waits. */
TEST_TIMEOUT(lost_queue_is_not_preempted_again, 120)
{
	struct kfd_queue second;
	struct pages pages;
	struct fixture f;
	uint32_t event;
	double start;

	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	register_new(&f.k, MIB, &pages);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	expect_hang_event(&f.k, event, WAIT_MS);
	/* May be stuck, too. */
	EXPECT_OK(kfd_queue_destroy(&second));
	start = seconds_now();
	/* Its MMU notifier evicts the queues of the process. */
	ASSERT(munmap(pages.cpu, MIB) == 0);
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EACCES);
	EXPECT_RET(fixture_update_queue(&f.q, 100), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	EXPECT(seconds_now() - start < ktap_time_factor(), "%.1f s", seconds_now() - start);
}

/* Changes of a disabled queue fail after a queue of its process was lost: it stays disabled. */
TEST_TIMEOUT(disabled_queue_stays_disabled, 120)
{
	struct kfd_ioctl_get_queue_wave_state_args state = { 0 };
	struct kfd_ioctl_set_cu_mask_args mask = { .num_cu_mask = 32 };
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue disabled, last;
	volatile uint32_t *words;
	uint32_t all = ~0u, event;
	struct fixture f;

	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	words = f.data->va;
	words[63] = 0;
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_queue_prepare(&f.k, &disabled, 64, &args));
	args.queue_percentage = 0;
	ASSERT_OK(kfd_queue_start(&disabled, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&disabled));
	ASSERT_OK(kfd_queue_create(&f.k, &last, 64));
	expect_hang_event(&f.k, event, WAIT_MS);
	mask.queue_id = state.queue_id = disabled.id;
	mask.cu_mask_ptr = kfd_va(&all);
	state.ctl_stack_address = kfd_va(disabled.cwsr->va);
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state));
	EXPECT_RET(fixture_update_queue(&disabled, 0), -EACCES);
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state));
	fixture_fill_start(&f, &disabled, &f.signal, 0, f.data->va, 64, 7);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 1000), -ETIME);
	EXPECT_EQ(words[63], 0);
	EXPECT_RET(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_CU_MASK, &mask), -EACCES);
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state));
	EXPECT_OK(kfd_queue_destroy(&disabled));
	EXPECT_OK(kfd_queue_destroy(&last));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

static void work(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* This queue cannot be preempted either. */
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST_TIMEOUT(next_process_works, 180)
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

TEST_TIMEOUT(exit_with_stuck_queue, 180)
{
	EXPECT_OK(ktap_in_child(end_with_a_queue, NULL));
	EXPECT_OK(ktap_in_child(work, NULL));
}

/* Returns whether a queue is on the hardware, or waits for a slot there. */
static bool is_active(const struct kfd_queue *q)
{
	struct kfd_ioctl_get_queue_wave_state_args state = {
		.queue_id = q->id,
		.ctl_stack_address = kfd_va(q->cwsr->va),
	};
	int ret = kfd_ioctl(q->k->fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state);

	EXPECT(!ret || ret == -EINVAL, "%s", ktap_errno_name(ret));
	return ret != 0;
}

/* The reset of a pipe, when that of the first queue fails, ends its other queues, too. */
TEST_TIMEOUT(queues_of_a_reset_pipe_are_lost, 120)
{
	struct kfd_queue second, third;
	unsigned int before;
	struct fixture f;
	uint32_t event;

	knobs_open();
	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT(fixture_works(&f));
	ASSERT_OK(fixture_fill(&f, &second, f.data->va, 64, 5));
	EXPECT(is_active(&f.q) && is_active(&second));
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	before = knob_hits("cp.pipe_reset");
	knob_set("cp.pipe_reset", 1);
	knob_set("hws.no_preempt", 2);
	EXPECT_OK(kfd_queue_create(&f.k, &third, 64));
	knob_set("hws.no_preempt", 0);
	knob_set("cp.pipe_reset", 0);
	expect_hang_event(&f.k, event, WAIT_MS);
	EXPECT(knob_hits("cp.pipe_reset") > before);
	EXPECT(!is_active(&f.q), "the first queue runs");
	EXPECT(!is_active(&second), "the second queue runs");
	EXPECT_OK(fixture_fill(&f, &third, f.data->va, 64, 7));
	EXPECT_EQ(((volatile uint32_t *)f.data->va)[63], 7);
}
