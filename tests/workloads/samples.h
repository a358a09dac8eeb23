/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Samples of a measurement. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
#include <stdlib.h>

static inline int samples_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline void samples_sort(uint64_t *samples, size_t count)
{
	qsort(samples, count, sizeof(samples[0]), samples_compare);
}

#endif
