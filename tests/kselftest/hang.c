// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * For a GPU whose scheduler does not take queues off the hardware any more, or does not answer at all: the driver
 * gives up after its 9 seconds (with MES 2), says so, and nobody is stuck. A GPU that the driver can reset comes
 * back, again and again.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "listen.h"

/*
 * Listens for the end of a reset; -1 for a GPU that is not reset. Each hang is waited for to its end: whoever comes next,
 * or switches the machine off, would meet the reset that it leads to.
 */
static int listen_for_resets(void)
{
	struct kfd k;

	fixture_open_only(&k);
	if (is_gfx12(&k.node))
		return -1;
	return listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_POST_RESET));
}

static void expect_reset(int resets)
{
	char back[16];

	if (resets < 0)
		return;
	snprintf(back, sizeof(back), "%x ", KFD_SMI_EVENT_GPU_POST_RESET);
	EXPECT(listen_for_line(resets, back, NULL));
	close(resets);
}

/* The child must be gone soon after it is killed. */
static void expect_death(pid_t child, double seconds)
{
	double end = seconds_now() + seconds;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		ASSERT(seconds_now() < end, "process %d cannot be killed", child);
		usleep(50000);
	}
}

/*
 * The first queue needs nothing taken off. The second one does: it is refused after the timeout, which is the
 * firmware's patience with one queue (4 s) or the driver's with the firmware (9 s). What was open can be
 * closed, and the process ends.
 */
TEST_TIMEOUT(the_timeout_ends_the_wait, 180)
{
	int resets = listen_for_resets();
	double start, took;
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		struct kfd_event_data data = { 0 };
		struct kfd_queue first, second;
		struct kfd_ioctl_create_queue_args args;
		uint32_t result = 99;
		struct kfd k;
		int ret;

		fixture_open(&k);
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_HW_EXCEPTION, false, &data.event_id));
		ASSERT_OK(kfd_queue_create(&k, &first, 64));
		ASSERT_OK(kfd_queue_prepare(&k, &second, 64, &args));
		start = seconds_now();
		ret = kfd_queue_start(&second, &args);
		took = seconds_now() - start;
		EXPECT(ret == -ETIME || ret == -EIO, "expected ETIME or EIO, got %s", ktap_errno_name(ret));
		/* An MES is given 2 s for each frame. */
		EXPECT(took > (is_gfx12(&k.node) ? 1.5 : 3) && took < 40, "after %.1f s", took);
		/* The runtime learns of it by the event for such things. */
		EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 5000, &result));
		EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
		EXPECT_EQ(data.hw_exception_data.gpu_id, k.node.gpu_id);
		EXPECT_EQ(data.hw_exception_data.reset_cause, KFD_HW_EXCEPTION_GPU_HANG);
		EXPECT_EQ(data.hw_exception_data.memory_lost, 1);
		ktap_end();
	}
	for (int i = 0; i < 1000 && waitpid(child, NULL, WNOHANG) == 0; i++)
		usleep(100000);
	EXPECT(kill(child, 0) != 0, "the process is still there");
	expect_reset(resets);
}

/* A process that was open all the while can be killed, and a new one is answered, with yes or no. */
TEST_TIMEOUT(processes_can_still_be_killed, 180)
{
	int resets = listen_for_resets();
	struct kfd k;
	double start;
	pid_t child;
	int ret;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		struct kfd_queue q;

		fixture_open(&k);
		/* Refused by a GPU that was not reset. */
		kfd_queue_create(&k, &q, 64);
		for (;;)
			pause();
	}
	usleep(3000000);
	ASSERT(kill(child, SIGKILL) == 0);
	expect_death(child, 90);
	start = seconds_now();
	ret = kfd_open_device(&k);
	EXPECT(seconds_now() - start < 60, "open took %.1f s", seconds_now() - start);
	EXPECT_OK(ret);
	expect_reset(resets);
}

static void work(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* The end of its queue is the next hang. */
}

TEST_TIMEOUT(the_gpu_comes_back, 240)
{
	for (int i = 0; i < 2; i++) {
		int resets = listen_for_resets();

		if (resets < 0)
			SKIP("this GPU is not reset: its firmware would be gone");
		ASSERT_OK(ktap_in_child(work, NULL));
		expect_reset(resets);
	}
}
