/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Detects resources leaked by processes: memory, ids, doorbells, queues, references. */
#ifndef LEAKS_H
#define LEAKS_H

/* Records the current state; no process may have the GPU open. */
void leaks_start(void);
/* Waits until the recorded state is reached again; prints leaks after `cycles` processes. */
void leaks_expect_none(const char *what, long cycles);

#endif
