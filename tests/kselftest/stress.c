// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests repeated use of every resource: nothing is left over. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "growth.h"

#define QUEUES 30

TEST_TIMEOUT(many_queues_in_sequence, 300)
{
	const unsigned int count = ktap_repeats(1000, 20);
	struct kfd_ioctl_create_queue_args args;
	uint64_t available, after;
	struct kfd_queue q;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_prepare(&f.k, &q, 64, &args));
	ASSERT_OK(kfd_available(&f.k, &available));
	for (unsigned int i = 0; i < 50 + count; i++) {
		struct kfd_ioctl_create_queue_args again = args;

		if (i == 50)
			growth_start();
		ASSERT_OK(kfd_queue_start(&q, &again));
		/* Queue ids and doorbells are reused. */
		ASSERT_EQ(q.id, 1);
		ASSERT_OK(kfd_queue_stop(&q));
	}
	growth_expect_none("queues", count);
	ASSERT_OK(kfd_available(&f.k, &after));
	EXPECT_EQ(after, available);
	EXPECT(fixture_works(&f));
}

static void live_and_die(void *data)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* Every other process leaves the cleanup to the kernel. */
	if (*(int *)data & 1)
		EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* More processes than VMIDs, one after another. */
TEST_TIMEOUT(many_processes_in_sequence, 300)
{
	const int count = (int)ktap_repeats(40, 10);
	uint64_t available, after = 0;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &available));
	for (int i = 0; i < 20 + count; i++) {
		if (i == 20)
			growth_start();
		ASSERT_OK(ktap_in_child(live_and_die, &i));
	}
	growth_expect_none("processes", count);
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_available(&k, &after));
		if (after >= available)
			break;
		usleep(50000);
	}
	EXPECT(after >= available, "%llu of %llu bytes", (unsigned long long)after,
	       (unsigned long long)available);
}

TEST_TIMEOUT(alloc_and_free_bos, 180)
{
	const unsigned int count = ktap_repeats(1000, 20);
	uint64_t available, after;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &available));
	for (unsigned int i = 0; i < 100 + count; i++) {
		if (i == 100)
			growth_start();
		ASSERT_OK(kfd_bo_create(&k, i % 3 ? 65536 : 2 << 20,
					i & 1 ? KFD_FLAGS_GTT : KFD_FLAGS_VRAM, &bo));
		ASSERT_OK(kfd_bo_free(&k, bo));
	}
	growth_expect_none("objects", count);
	ASSERT_OK(kfd_available(&k, &after));
	EXPECT_EQ(after, available);
}

TEST_TIMEOUT(create_and_destroy_events, 120)
{
	const unsigned int count = ktap_repeats(19000, 400);
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	for (unsigned int i = 0; i < 1000 + count; i++) {
		if (i == 1000)
			growth_start();
		ASSERT_OK(kfd_event_create(&k, i & 1 ? KFD_IOC_EVENT_SIGNAL : KFD_IOC_EVENT_MEMORY,
					   true, &id));
		ASSERT_OK(kfd_event_destroy(&k, id));
	}
	growth_expect_none("events", count);
}

/* More queues than HQDs: all of them are served. */
TEST_TIMEOUT(thirty_queues_on_24_hqds, 240)
{
	static struct kfd_queue q[QUEUES];
	struct kfd_signal signals[QUEUES];
	uint32_t *words;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	for (int i = 0; i < QUEUES; i++) {
		ASSERT_OK(kfd_queue_create(&f.k, &q[i], 64));
		ASSERT_OK(kfd_signal_create(&f.k, 1, &signals[i]));
	}
	for (uint32_t round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < QUEUES; i++)
			fixture_fill_start(&f, &q[i], &signals[i], i, words + i * 256, 256,
					   round * 1000 + i);
		for (int i = QUEUES - 1; i >= 0; i--)
			ASSERT(kfd_signal_wait(&f.k, &signals[i], WAIT_MS) == 0,
			       "queue %d in round %u", i, round);
		for (uint32_t i = 0; i < QUEUES * 256; i++)
			ASSERT_EQ(words[i], round * 1000 + i / 256);
	}
	for (int i = 0; i < QUEUES; i++)
		EXPECT_OK(kfd_queue_destroy(&q[i]));
	EXPECT(fixture_works(&f));
}

static void one_of_many(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	for (int i = 0; i < 5; i++)
		EXPECT(fixture_works(&f));
	usleep(300000);
	for (int i = 0; i < 5; i++)
		EXPECT(fixture_works(&f));
}

static void spawn(void *data)
{
	int more = *(int *)data;

	if (more > 0) {
		/* Start the next one while this one runs. */
		int left = more - 1, status = 0;
		pid_t child = fork();

		ASSERT(child >= 0);
		if (!child) {
			spawn(&left);
			ktap_end();
		}
		one_of_many(NULL);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	}
}

/* More processes at once than VMIDs. */
TEST_TIMEOUT(twenty_processes_at_once, 240)
{
	int count = 20;

	spawn(&count);
}
