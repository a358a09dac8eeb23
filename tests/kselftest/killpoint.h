/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* SIGKILL at a trace event of the driver: a BPF program, attached to the event in one process. */
#ifndef KILLPOINT_H
#define KILLPOINT_H

#include <sys/types.h>

struct killpoint {
	int counter, program, event;
};

/*
 * Kills `pid` when it reaches trace event `name` for the n-th time from now on, in the middle of
 * the system call. Skips the test if the kernel cannot do that; other failures end it.
 */
void killpoint_set(struct killpoint *point, pid_t pid, const char *name, unsigned int n);
void killpoint_remove(struct killpoint *point);

#endif
