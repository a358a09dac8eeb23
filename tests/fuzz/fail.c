// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Allocations of the kernel that fail, as calls of a program. */
#define _GNU_SOURCE
#include <stdio.h>

#include "describe.h"

/* Most calls have fewer allocations. */
#define ALLOCATIONS 256

static void set(const char *folder, const char *attribute, const char *value)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", folder, attribute);
	f = fopen(path, "we");
	if (!f)
		return;
	fputs(value, f);
	fclose(f);
}

void fail_init(void)
{
	static const char *const folders[] = { "failslab", "fail_page_alloc" };

	for (size_t i = 0; i < COUNT_OF(folders); i++) {
		set(folders[i], "ignore-gfp-wait", "N");
		set(folders[i], "verbose", "0");
		set(folders[i], "times", "-1");
	}
	set("fail_page_alloc", "min-order", "0");
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
}

long run_fail(struct task *task, const uint64_t *args)
{
	task->failing = 1 + (unsigned int)(args[0] % ALLOCATIONS);
	return 0;
}
