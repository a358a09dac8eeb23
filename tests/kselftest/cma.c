// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests allocation of the driver's contiguous DMA memory from a CMA area that holds userptr pages.
 * Needs the kernel parameters cma=512M and page_alloc.shuffle=1, and no_system_mem_limit=1.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userptr.h"

/* Their list for the scheduler has more than a page. */
#define PROCESSES 60
#define BO_BYTES (16 * MIB)
#define MAX_BOS 64
#define RUNLIST "/sys/kernel/debug/kfd/rls"
/* Start of the line with its second page. */
#define SECOND_PAGE "    00001000:"
/* Left free of the area, in KiB. User memory comes from it while it has half of all free memory. */
#define LEFT_KIB (150l * 1000)

/* Returns the number after a name in a file, -1 without it. */
static long number(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	size_t length = strlen(name);
	char line[128];
	long number = -1;

	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length))
			number = atol(line + length);
	if (file)
		fclose(file);
	return number;
}

/* Returns the free memory of the area in KiB. */
static long free_kib(void)
{
	return number("/proc/meminfo", "CmaFree:");
}

/* Returns the number of allocations of the area so far. */
static long allocations(void)
{
	return number("/proc/vmstat", "cma_alloc_success ");
}

/* Opens the GPU and creates a queue when told, and waits to be killed. */
static void live(int begin, int ready)
{
	struct kfd_queue q;
	struct kfd k;
	char byte;

	ASSERT(read(begin, &byte, 1) == 1);
	fixture_open(&k);
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	ASSERT(write(ready, &byte, 1) == 1);
	for (;;)
		pause();
}

/* The list grows while a lock is held that the MMU notifier of the migrated pages takes. */
TEST_TIMEOUT(runlist_grows, 120)
{
	struct pages p[MAX_BOS];
	pid_t child[PROCESSES];
	int begin[2], ready[2];
	unsigned int count = 0;
	struct fixture f;
	char byte = 0;
	long before;

	if (free_kib() <= LEFT_KIB)
		SKIP("no area for contiguous memory");
	/* Before there is memory whose page tables are copied. */
	ASSERT(pipe(begin) == 0 && pipe(ready) == 0);
	for (int i = 0; i < PROCESSES; i++) {
		child[i] = fork_child();
		if (!child[i])
			live(begin[0], ready[1]);
	}
	fixture_launch(&f);
	/* Memory outside of the area. */
	memset(anonymous(600 * MIB), 1, 600 * MIB);
	while (count < MAX_BOS && free_kib() > LEFT_KIB) {
		char *cpu = anonymous(BO_BYTES);

		/* Small pages come from the parts of the area that are tried first. */
		ASSERT(madvise(cpu, BO_BYTES, MADV_NOHUGEPAGE) == 0);
		register_at(&f.k, cpu, kfd_va(cpu), BO_BYTES, &p[count]);
		memset(cpu, 1, BO_BYTES);
		count++;
	}
	if (!count)
		SKIP("other memory has filled the area");
	EXPECT(free_kib() <= LEFT_KIB, "%u BOs leave %ld KiB", count, free_kib());
	ASSERT(fixture_works(&f));
	before = allocations();
	for (int i = 0; i < PROCESSES; i++) {
		ASSERT(write(begin[1], &byte, 1) == 1);
		ASSERT(read(ready[0], &byte, 1) == 1);
	}
	EXPECT(number(RUNLIST, SECOND_PAGE) >= 0, "the list has one page");
	/* It is not taken from the area: that would wait for the notifier. */
	EXPECT_EQ(allocations(), before);
	for (int i = 0; i < PROCESSES; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	for (unsigned int i = 0; i < count; i++)
		ASSERT(gpu_writes(&f, &p[i], 0, 64, i));
}
