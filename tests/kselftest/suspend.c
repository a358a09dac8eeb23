// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The machine goes to sleep and wakes up: what was in video memory is there, and queues go on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"

#define SIZE (12ull << 20)

/* All devices go to sleep and are woken after a second; the processors stay awake. `depth` is what is stopped. */
static int try_to_sleep(const char *depth)
{
	int ret;

	if (access("/sys/power/pm_test", F_OK))
		SKIP("the kernel cannot test suspend");
	write_file("/sys/module/suspend/parameters/pm_test_delay", "1");
	ASSERT_OK(write_file("/sys/power/pm_test", depth));
	ret = write_file("/sys/power/state", "freeze");
	write_file("/sys/power/pm_test", "none");
	return ret;
}

/*
 * The card keeps its power meanwhile. It is reset then, so that it comes back from where it would be without: with video
 * memory lost, and no firmware.
 */
static int sleep_and_wake(const char *depth)
{
	int log = kmsg_open(), ret = try_to_sleep(depth);

	EXPECT_EQ(kmsg_lines_with(log, "kept its power while the machine slept, and is reset"), 1);
	close(log);
	return ret;
}

/* As only then it goes to sleep at all. */
static void needs_firmware(const struct kfd_node *node)
{
	if (is_gfx12(node))
		SKIP("the driver does not load the firmware of this card");
}

static void mark(uint64_t *words, uint64_t id)
{
	for (size_t i = 0; i < SIZE / 8; i += 512)
		words[i] = words[i + 511] = id << 32 | i;
}

static bool is_marked(const uint64_t *words, uint64_t id)
{
	for (size_t i = 0; i < SIZE / 8; i += 512)
		if (!EXPECT(words[i] == (id << 32 | i) && words[i + 511] == words[i], "word %zu: %#llx, %#llx", i,
			    (unsigned long long)words[i], (unsigned long long)words[i + 511]))
			return false;
	return true;
}

/* Of a card whose firmware the driver cannot load again the machine is told, and stays awake. */
TEST_TIMEOUT(the_machine_stays_awake, 60)
{
	struct kfd_node node;
	int log = kmsg_open();

	ASSERT_OK(kfd_topology_find_gpu(&node));
	if (!is_gfx12(&node))
		SKIP("the driver can load the firmware of this card again");
	EXPECT_RET(try_to_sleep("devices"), -EOPNOTSUPP);
	EXPECT_EQ(kmsg_lines_with(log, "no suspend: without power the card loses its firmware"), 1);
	close(log);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

TEST_TIMEOUT(nobody_is_there, 120)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	needs_firmware(&node);
	ASSERT_OK(sleep_and_wake("devices"));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

TEST_TIMEOUT(a_queue_and_its_memory_come_back, 180)
{
	struct kfd_bo *vram, *gtt;
	struct fixture f;

	fixture_launch(&f);
	needs_firmware(&f.k.node);
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_VRAM, &vram));
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_GTT, &gtt));
	mark(vram->va, 1);
	mark(gtt->va, 2);
	EXPECT(fixture_works(&f));
	for (int round = 0; round < 2; round++) {
		ASSERT_OK(sleep_and_wake(round ? "platform" : "devices"));
		EXPECT(is_marked(vram->va, 1));
		EXPECT(is_marked(gtt->va, 2));
		/* The same queue, code and arguments. */
		ASSERT(fixture_works(&f));
		ASSERT_OK(fixture_fill(&f, &f.q, vram->va, 1024, 0x600d0000u + (uint32_t)round));
		EXPECT_EQ(((uint32_t *)vram->va)[1023], 0x600d0000u + (uint32_t)round);
		mark(vram->va, 1);
	}
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

struct waiter {
	struct kfd k;
	uint32_t event, result;
	int ret;
};

static void *wait_for_event(void *data)
{
	struct waiter *w = data;
	struct kfd_event_data event = { .event_id = w->event };

	w->ret = kfd_event_wait(&w->k, &event, 1, true, 60000, &w->result);
	return NULL;
}

TEST_TIMEOUT(a_waiter_goes_on_waiting, 120)
{
	struct waiter w = { .result = ~0u };
	pthread_t thread;

	fixture_open(&w.k);
	needs_firmware(&w.k.node);
	ASSERT_OK(kfd_event_create(&w.k, KFD_IOC_EVENT_SIGNAL, true, &w.event));
	ASSERT(!pthread_create(&thread, NULL, wait_for_event, &w));
	usleep(200000);
	ASSERT_OK(sleep_and_wake("devices"));
	usleep(200000);
	EXPECT_OK(kfd_event_set(&w.k, w.event));
	pthread_join(thread, NULL);
	EXPECT_OK(w.ret);
	EXPECT_EQ(w.result, KFD_IOC_WAIT_RESULT_COMPLETE);
}
