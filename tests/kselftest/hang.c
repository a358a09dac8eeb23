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
}

/* A process that was open all the while can be killed, and a new one is answered, with yes or no. */
TEST_TIMEOUT(processes_can_still_be_killed, 180)
{
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
}

static void work(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* The end of its queue is the next hang. */
}

/* It takes a while after each hang; until then queues are refused. */
static void wait_until_it_works(void *data)
{
	double end = seconds_now() + 60;
	struct kfd_queue q;
	struct kfd k;
	int ret;

	(void)data;
	fixture_open(&k);
	while ((ret = kfd_queue_create(&k, &q, 64)) == -EIO && seconds_now() < end)
		usleep(100000);
	EXPECT_OK(ret);
}

TEST_TIMEOUT(the_gpu_comes_back, 240)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	if (is_gfx12(&node))
		SKIP("this GPU is not reset: its firmware would be gone");
	ASSERT_OK(ktap_in_child(wait_until_it_works, NULL));
	/* Its end was a hang again. */
	sleep(3);
	ASSERT_OK(ktap_in_child(work, NULL));
}
