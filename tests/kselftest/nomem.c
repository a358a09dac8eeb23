// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Fault injection into kernel threads by /proc/PID/make-it-fail, see nomem.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "nomem.h"

#define ATTR "/sys/kernel/debug/failslab/"

/* Returns whether a task is a worker, or the thread that creates them. */
static bool is_worker(const char *pid)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return !strncmp(name, "kworker/", 8) || !strcmp(name, "kthreadd\n");
}

static void mark_workers(const char *value)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	char path[300];

	ASSERT(all);
	while ((entry = readdir(all))) {
		if (!atoi(entry->d_name) || !is_worker(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/make-it-fail", entry->d_name);
		/* It may have ended. */
		write_file(path, value);
	}
	closedir(all);
}

void nomem_begin(void)
{
	if (access(ATTR, F_OK))
		SKIP("the kernel has no fault injection");
	ASSERT_OK(write_file(ATTR "probability", "0"));
	ASSERT_OK(write_file(ATTR "task-filter", "Y"));
	ASSERT_OK(write_file(ATTR "ignore-gfp-wait", "N"));
	ASSERT_OK(write_file(ATTR "verbose", "0"));
	ASSERT_OK(write_file(ATTR "times", "-1"));
	mark_workers("1");
	ASSERT_OK(write_file(ATTR "probability", "100"));
}

void nomem_end(void)
{
	ASSERT_OK(write_file(ATTR "probability", "0"));
	mark_workers("0");
}
