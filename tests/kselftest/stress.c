// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Many of everything, again and again: afterwards there is as much of everything as before. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define QUEUES 30

static long meminfo(const char *key)
{
	char line[128], name[64];
	long value, found = -1;
	FILE *f = fopen("/proc/meminfo", "re");

	ASSERT(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[^:]: %ld", name, &value) == 2 && !strcmp(name, key))
			found = value;
	fclose(f);
	return found;
}

static void settle(void)
{
	FILE *f;

	sync();
	f = fopen("/proc/sys/vm/drop_caches", "we");
	if (f) {
		fputs("3", f);
		fclose(f);
	}
	usleep(300000);
}

/* The memory of the kernel that cannot be taken back, in KiB. */
static long kernel_memory(void)
{
	settle();
	return meminfo("SUnreclaim");
}

struct slab {
	char name[64];
	long objects;
};

static struct slab slabs[600];

/* The objects of a kind that are in use, as the allocator counts them; -1 for a kind unknown before. */
static long *slab_objects(const char *name)
{
	for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++) {
		if (!slabs[i].name[0]) {
			snprintf(slabs[i].name, sizeof(slabs[i].name), "%s", name);
			slabs[i].objects = -1;
		}
		if (!strcmp(slabs[i].name, name))
			return &slabs[i].objects;
	}
	return NULL;
}

/* With `limit` 0 takes note of all kinds; else returns how many have grown by more, and says which. */
static unsigned int slab_growth(long limit, bool tell)
{
	unsigned int grown = 0;
	char line[512], name[64];
	long active, *known;
	FILE *f = fopen("/proc/slabinfo", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %ld", name, &active) != 2 || !(known = slab_objects(name)))
			continue;
		if (!limit) {
			*known = active;
		} else if (*known >= 0 && active - *known > limit) {
			grown++;
			if (tell)
				ktap_note("failed: %s grew from %ld to %ld objects", name, *known, active);
		}
	}
	fclose(f);
	return grown;
}

/* Takes note of what there is. */
static long start_count(void)
{
	long memory = kernel_memory();

	slab_growth(0, false);
	return memory;
}

/* One object left over in each cycle is found in its kind, more than that in the sum. */
static void expect_no_growth(const char *what, long before, long cycles)
{
	long limit = 1024 + cycles / 8, objects = cycles * 3 / 4 > 600 ? cycles * 3 / 4 : 600;
	long after = kernel_memory();

	for (int i = 0; i < 10 && (after - before > limit || slab_growth(objects, false)); i++) {
		usleep(500000);
		after = kernel_memory();
	}
	EXPECT(after - before <= limit, "%s: slab grew from %ld to %ld KiB", what, before, after);
	EXPECT(slab_growth(objects, true) == 0, "%s: objects are left over after %ld cycles", what, cycles);
}

TEST_TIMEOUT(a_thousand_queues_one_after_another, 300)
{
	struct kfd_ioctl_create_queue_args args;
	uint64_t available, after;
	struct kfd_queue q;
	struct fixture f;
	long before = 0;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_prepare(&f.k, &q, 64, &args));
	ASSERT_OK(kfd_available(&f.k, &available));
	for (int i = 0; i < 1050; i++) {
		struct kfd_ioctl_create_queue_args again = args;

		if (i == 50)
			before = start_count();
		ASSERT_OK(kfd_queue_start(&q, &again));
		/* Numbers and doorbells are used again, or they would run out. */
		ASSERT_EQ(q.id, 1);
		ASSERT_OK(kfd_queue_stop(&q));
	}
	expect_no_growth("queues", before, 1000);
	ASSERT_OK(kfd_available(&f.k, &after));
	EXPECT_EQ(after, available);
	EXPECT(fixture_works(&f));
}

static void live_and_die(void *data)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* Every other one leaves the cleaning to the kernel. */
	if (*(int *)data & 1)
		EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* More processes than there are VMIDs, one after another. */
TEST_TIMEOUT(processes_come_and_go, 300)
{
	uint64_t available, after = 0;
	struct kfd k;
	long before = 0;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &available));
	for (int i = 0; i < 60; i++) {
		if (i == 20)
			before = start_count();
		ASSERT_OK(ktap_in_child(live_and_die, &i));
	}
	expect_no_growth("processes", before, 40);
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_available(&k, &after));
		if (after >= available)
			break;
		usleep(50000);
	}
	EXPECT(after >= available, "%llu of %llu bytes", (unsigned long long)after, (unsigned long long)available);
}

TEST_TIMEOUT(objects_come_and_go, 180)
{
	uint64_t available, after;
	struct kfd_bo *bo;
	struct kfd k;
	long before = 0;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &available));
	for (int i = 0; i < 1100; i++) {
		if (i == 100)
			before = start_count();
		ASSERT_OK(kfd_bo_create(&k, i % 3 ? 65536 : 2 << 20, i & 1 ? KFD_FLAGS_GTT : KFD_FLAGS_VRAM, &bo));
		ASSERT_OK(kfd_bo_free(&k, bo));
	}
	expect_no_growth("objects", before, 1000);
	ASSERT_OK(kfd_available(&k, &after));
	EXPECT_EQ(after, available);
}

TEST_TIMEOUT(events_come_and_go, 120)
{
	uint32_t id;
	struct kfd k;
	long before = 0;

	fixture_open(&k);
	for (int i = 0; i < 20000; i++) {
		if (i == 1000)
			before = start_count();
		ASSERT_OK(kfd_event_create(&k, i & 1 ? KFD_IOC_EVENT_SIGNAL : KFD_IOC_EVENT_MEMORY, true, &id));
		ASSERT_OK(kfd_event_destroy(&k, id));
	}
	expect_no_growth("events", before, 19000);
}

/* More queues than the hardware has places: all of them get their turn. */
TEST_TIMEOUT(thirty_queues_on_twenty_four_places, 240)
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
			fixture_fill_start(&f, &q[i], &signals[i], i, words + i * 256, 256, round * 1000 + i);
		for (int i = QUEUES - 1; i >= 0; i--)
			ASSERT(kfd_signal_wait(&f.k, &signals[i], WAIT_MS) == 0, "queue %d in round %u", i, round);
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
		/* The next one runs while this one does. */
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

/* More processes at once than there are VMIDs. */
TEST_TIMEOUT(twenty_processes_at_once, 240)
{
	int count = 20;

	spawn(&count);
}
