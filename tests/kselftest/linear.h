/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Tests that the time of an operation is linear in a number. */
#ifndef LINEAR_H
#define LINEAR_H

#include "ktap.h"

/*
 * Expects that the second half of `count` takes twice as long as the second quarter, not 4 times:
 * `time` returns the time in ns for a number. Differences exclude work that a driver queues without
 * waiting: amdgpu queues some 4,000 jobs that clear freed VRAM. The shortest of up to 10 times is
 * compared, as the load of the host only adds, and with a margin of 200 ms: a quadratic search
 * takes seconds.
 */
static inline void expect_linear(uint64_t (*time)(uint32_t count), uint32_t count)
{
	uint64_t shortest[3] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	int64_t margin = 200000000ll * ktap_time_factor(), first, second;

	for (int i = 0; i < 10; i++) {
		for (int j = 0; j < 3; j++) {
			uint64_t now = time(count / (4u >> j));

			if (now < shortest[j])
				shortest[j] = now;
		}
		first = (int64_t)(shortest[1] - shortest[0]);
		second = (int64_t)(shortest[2] - shortest[1]);
		if (second < 3 * first + margin)
			return;
	}
	EXPECT(false, "%u: %lu us, %u: %lu us, %u: %lu us", count / 4,
	       (unsigned long)(shortest[0] / 1000), count / 2,
	       (unsigned long)(shortest[1] / 1000), count, (unsigned long)(shortest[2] / 1000));
}

#endif
