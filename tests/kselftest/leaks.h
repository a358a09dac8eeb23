/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Detects resources leaked by processes: memory, ids, doorbells, queues, references. */
#ifndef LEAKS_H
#define LEAKS_H

/* Records the current state; no process may have the GPU open. */
void leaks_start(void);
/* Waits until the counters have the recorded values again; prints those that differ. */
void leaks_expect_counters(const char *what);
/* Same, and expects no growth of kernel memory after `cycles` processes. */
void leaks_expect_none(const char *what, long cycles);

#endif
