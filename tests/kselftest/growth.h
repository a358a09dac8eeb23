/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Detects growth of kernel memory: total slab, and objects in use per slab cache. */
#ifndef GROWTH_H
#define GROWTH_H

/* Records the current state. */
long growth_start(void);
/* One leaked object per cycle is detected in its cache, larger leaks in the total. */
void growth_expect_none(const char *what, long before, long cycles);

#endif
