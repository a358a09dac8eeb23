/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Readers of SMI events. A failed read ends the test; a missing line fails it. */
#ifndef LISTEN_H
#define LISTEN_H

#include "../workloads/kfd.h"

/* Opens the SMI events of a mask (KFD_SMI_EVENT_MASK_FROM_INDEX). */
int listen_to(struct kfd *k, uint64_t mask);
/* Opens the SMI events of SVM and of queue evictions. */
int listen_to_svm(struct kfd *k);
/* Returns all lines that are pending or arrive within `ms`, as a string. */
const char *listen_lines(int fd, int ms);
/* Counts the lines of an event, which begin with its number. */
unsigned int listen_count(const char *text, unsigned int event);
/* Waits up to a minute for a line; `all` returns the lines read. Later lines are not lost. */
bool listen_for_line(int fd, const char *wanted, const char **all);

/*
 * Listens for the end of a reset, and waits for it. Each hang is awaited to its end, because the
 * reset would hit the next test or the shutdown.
 */
int listen_for_resets(void);
void expect_reset(int resets);

#endif
