/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Detects growth of kernel memory: objects in use of each slab cache, whole pages, vmalloc. A
 * failure to measure fails the test.
 */
#ifndef GROWTH_H
#define GROWTH_H

/* Records the current state. */
void growth_start(void);
/*
 * Expects that state again after `cycles` repetitions, except for allocations by the rest of the
 * kernel: 20 objects of a cache, 32 pages. More cycles detect rarer leaks.
 */
void growth_expect_none(const char *what, long cycles);

#endif
