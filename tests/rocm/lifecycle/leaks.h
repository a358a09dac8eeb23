/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Whether processes left something behind in the driver: memory, numbers, doorbells, queues, references. */
#ifndef LEAKS_H
#define LEAKS_H

/* Takes note of what there is; no process may have the GPU open. */
void leaks_start(void);
/* Waits until as much as then is there again; after `cycles` processes, says what is left over. */
void leaks_expect_none(const char *what, long cycles);

#endif
