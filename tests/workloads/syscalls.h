/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Counts the system calls that this process makes between two marks, by a parent that traces it. */
#ifndef SYSCALLS_H
#define SYSCALLS_H

#include <stdint.h>

#define SYSCALLS_MAX 64

struct syscall_table {
	int complete;
	uint32_t used;
	struct {
		uint64_t number, request, times;
	} entry[SYSCALLS_MAX];
};

/* Runs `body` in a child; returns its exit status. The table is the child's to read. */
int syscalls_run(int (*body)(struct syscall_table *table));
/* For the body: between these two calls, system calls are counted. Both return 0 or a negative errno. */
int syscalls_start(void);
int syscalls_stop(void);

#endif
