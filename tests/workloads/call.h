/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A system call on a file of the driver, and what calls.c does with each of them when a variable of
 * the environment requests it.
 */
#ifndef CALL_H
#define CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct call {
	/* Returns a negative errno on failure. */
	int (*run)(struct call *call);
	int fd;
	const char *path;
	unsigned long request;
	void *args;
	const void *saved_args;
	void *at;
	size_t size;
	off_t offset;
};

int run_ioctl(struct call *call);

/* Copies `size` bytes. Returns whether `from` is readable: some callers pass bad addresses. */
bool copy_readable(void *to, const void *from, size_t size);

/* fail-nth.c: repeats the call with failing allocations, if $KFD_FAIL_NTH is set */
bool is_failing(void);
int run_with_failures(struct call *call);
int open_with_failures(struct call *call);

/* mutate.c: changes calls at random, if $KFD_MUTATE is set */
bool is_mutating(void);
int mutate_ioctl(struct call *call);
int mutate_mmap(struct call *call);

#endif
