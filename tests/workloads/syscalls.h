/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Counts the system calls of this process between two marks, by a tracing parent. */
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

/* Runs `body` in a child; returns its exit status. The child reads the table. */
int syscalls_run(int (*body)(struct syscall_table *table));
/* For the body: system calls between these two are counted. Both return 0 or a negative errno. */
int syscalls_start(void);
int syscalls_stop(void);

#endif
