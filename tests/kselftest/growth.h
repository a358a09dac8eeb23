/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Whether the kernel's memory has grown: by its sum and by the number of objects of each kind. */
#ifndef GROWTH_H
#define GROWTH_H

/* Takes note of what there is. */
long growth_start(void);
/* One object left over in each of `cycles` is found in its kind, more than that in the sum. */
void growth_expect_none(const char *what, long before, long cycles);

#endif
