// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests processes that die with work in flight: nothing is left over. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* Forks a child with a dispatch that never ends. Returns its pid once the kernel runs. */
static pid_t endless_child(void)
{
	int ready[2];
	pid_t child;
	char c;

	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child) {
		struct fixture f;

		fixture_launch(&f);
		fixture_endless(&f, 1);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT(read(ready[0], &c, 1) == 1, "child failed before its kernel ran");
	close(ready[0]);
	return child;
}

TEST_TIMEOUT(endless_kernel_ends_on_request, 90)
{
	struct fixture f;

	fixture_launch(&f);
	fixture_endless(&f, 4);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 200), -ETIME);
	((volatile uint32_t *)f.data->va)[1] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(fixture_works(&f));
}

static void launch(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(kill_during_dispatch, 180)
{
	uint64_t before = 0, after = 0;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &before));
	for (int i = 0; i < 3; i++) {
		pid_t child = endless_child();
		int status;

		ASSERT(kill(child, SIGKILL) == 0);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	/* A process is torn down asynchronously, not before waitpid() returns. */
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_available(&k, &after));
		if (after >= before)
			break;
		usleep(50000);
	}
	/* More is possible: the previous test's memory may have been released late. */
	EXPECT(after >= before, "%llu of %llu bytes", (unsigned long long)after,
	       (unsigned long long)before);
	EXPECT_OK(ktap_in_child(launch, NULL));
}

/* Other processes run while a kernel hangs and after its process is killed. */
TEST_TIMEOUT(other_processes_are_unaffected, 180)
{
	struct fixture f;
	pid_t child = endless_child();

	fixture_launch(&f);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
	kill(child, SIGKILL);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
	waitpid(child, NULL, 0);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
}

/* Destroying a queue does not wait for its waves: CWSR saves them. */
TEST_TIMEOUT(destroy_busy_queue, 120)
{
	struct fixture f;
	struct kfd_queue other;

	fixture_launch(&f);
	fixture_endless(&f, 2);
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	ASSERT_OK(kfd_queue_destroy(&f.q));
	f.q = other;
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

static void launch_and_leave(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	fixture_endless(&f, 1);
}

TEST_TIMEOUT(exit_without_cleanup, 180)
{
	struct fixture f;

	for (int i = 0; i < 3; i++)
		EXPECT_OK(ktap_in_child(launch_and_leave, NULL));
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

/* A process in WAIT_EVENTS without a timeout can be killed. */
TEST(kill_in_wait_events)
{
	int status;
	pid_t child;

	child = fork_child();
	if (!child) {
		uint32_t id, result;
		struct kfd k;

		fixture_open(&k);
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
		kfd_event_wait(&k, &(struct kfd_event_data){ .event_id = id }, 1, true, ~0u,
			       &result);
		_exit(3);
	}
	usleep(500000);
	ASSERT(kill(child, SIGKILL) == 0);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
