/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Device coredumps, below /sys/class/devcoredump. */
#ifndef CORELIB_H
#define CORELIB_H

struct kfd;

/* Frees the coredumps of former tests. */
void coredump_free_all(void);
/* Waits for a coredump of the GPU; returns its text, to be freed. Ends the test without one. */
char *coredump_wait(struct kfd *k);
/* Expects that the text has `what`. */
void coredump_expect(const char *text, const char *what);
/* Frees the coredump by a write, and expects that it is gone. */
void coredump_expect_freed(void);

#endif
