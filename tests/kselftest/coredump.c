// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the coredump of a queue that is reset and of a GPU that hangs. Needs a GPU that does not
 * preempt queues (model knobs hws.no_preempt, mes.error).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "watch.h"

#define CLASS "/sys/class/devcoredump"

/* Sets `path` to a file of the first coredump; returns whether there is one. */
static bool find(char path[PATH_MAX], const char *file)
{
	DIR *dir = opendir(CLASS);
	struct dirent *entry;
	bool found = false;

	ASSERT(dir, CLASS ": %s", strerror(errno));
	while (!found && (entry = readdir(dir))) {
		found = !strncmp(entry->d_name, "devcd", 5);
		snprintf(path, PATH_MAX, CLASS "/%s/%s", entry->d_name, file);
	}
	closedir(dir);
	return found;
}

/* Frees the coredumps of former tests. */
static void free_all(void)
{
	char path[PATH_MAX];

	for (int i = 0; i < 100 && find(path, "data"); i++) {
		write_file(path, "1");
		usleep(50000);
	}
}

/* Waits for a coredump of the GPU; returns its text, to be freed. */
static char *wait_for_dump(struct kfd *k)
{
	char path[PATH_MAX], real[PATH_MAX], bdf[32];

	for (int i = 0; i < 200 && !find(path, "data"); i++)
		usleep(50000);
	ASSERT(find(path, "failing_device"), "no coredump");
	snprintf(bdf, sizeof(bdf), "%04x:%02x:%02x.%x", k->node.domain, k->node.location_id >> 8,
		 k->node.location_id >> 3 & 31, k->node.location_id & 7);
	ASSERT(realpath(path, real), "%s: %s", path, strerror(errno));
	EXPECT(strstr(real, bdf), "%s is not %s", real, bdf);
	ASSERT(find(path, "data"));
	return watch_read(path);
}

static void expect_text(const char *text, const char *what)
{
	EXPECT(strstr(text, what), "no '%s' in the coredump", what);
}

/* Writing to the dump frees it. */
static void expect_freed(void)
{
	char path[PATH_MAX];

	ASSERT(find(path, "data"));
	EXPECT_OK(write_file(path, "1"));
	for (int i = 0; i < 100 && find(path, "data"); i++)
		usleep(50000);
	EXPECT(!find(path, "data"));
}

/* The dump of a reset queue names it, and has its MQD and its registers from before the reset. */
TEST_TIMEOUT(reset_queue, 120)
{
	struct kfd_queue second;
	uint64_t ring;
	size_t size;
	uint32_t id;
	char line[128], *text, *registers;
	struct fixture f;

	free_all();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ring = kfd_va(f.q.ring->va);
	size = f.q.ring->size;
	id = f.q.id;
	/* Preempts or removes both, which fails for the first one. */
	kfd_queue_destroy(&f.q);
	text = wait_for_dump(&f.k);
	expect_text(text, is_gfx12(&f.k.node) ? "reason: a queue was not removed from MES\n" :
						"reason: a compute queue was not preempted\n");
	snprintf(line, sizeof(line), "\nFailed queue\n  process %d, PASID ", getpid());
	expect_text(text, line);
	snprintf(line, sizeof(line), ", queue %u, doorbell ", id);
	expect_text(text, line);
	snprintf(line, sizeof(line), ", ring %#llx of %zu bytes, compute",
		 (unsigned long long)ring, size);
	expect_text(text, line);
	expect_text(text, "\n  MQD of inst 0\n    00000000: ");
	if (!is_gfx12(&f.k.node))
		EXPECT(!strstr(text, "\nRunlist\n\n"), "no runlist");
	expect_text(text, is_gfx12(&f.k.node) ? "type MES, running" : "type HIQ");
	registers = strstr(text, "\nCompute HQDs\n");
	ASSERT(registers);
	/* The address of the ring, in units of 256 bytes. */
	snprintf(line, sizeof(line), "CP_HQD_PQ_BASE %08x\n", (uint32_t)(ring >> 8));
	expect_text(registers, line);
	expect_text(registers, "CP_HQD_ACTIVE 00000001\n");
	expect_text(registers, "\nUser queues of the SDMA engines\n");
	free(text);
	expect_freed();
}

/* The dump of a GPU that hangs has the queues that run. */
TEST_TIMEOUT(hung_gpu, 180)
{
	char *text;
	struct kfd k;

	if (gpu_is_gfx12())
		SKIP("MES hangs once, in another test");
	free_all();
	fixture_open_only(&k);
	ktap_in_child(hang_gpu, NULL);
	text = wait_for_dump(&k);
	expect_text(text, "reason: preemption timed out\n");
	expect_text(text, "\nQueues\n  process ");
	EXPECT(!strstr(text, "\nRunlist\n\n"), "no runlist");
	expect_text(text, "CP_HQD_ACTIVE 00000001\n");
	free(text);
	expect_freed();
}
