/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Random numbers that a seed repeats. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* xorshift; the seed is not 0. */
static inline uint64_t random_from(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Returns a number less than `n`. */
static inline unsigned int random_below(uint64_t *seed, unsigned int n)
{
	return (unsigned int)((random_from(seed) >> 20) % n);
}

/* Returns a number that tends to break drivers. */
static inline uint64_t random_nasty(uint64_t *seed)
{
	switch (random_below(seed, 9)) {
	case 0:
		return 0;
	case 1:
		return ~0ull;
	case 2:
		return 1ull << random_below(seed, 64);
	case 3:
		return (1ull << random_below(seed, 64)) - 1;
	case 4:
		return 0xffff800000000000ull + random_below(seed, 1 << 16);
	case 5:
		return 0xffffffff;
	case 6:
		return 0x7ffffffffffff000ull;
	case 7:
		return random_below(seed, 16);
	default:
		return random_from(seed);
	}
}

/* Restricts a size for which the machine's memory might be used up, but none that is refused. */
static inline uint64_t random_tame_size(uint64_t size)
{
	const uint64_t large = 16ull << 20, huge = 1ull << 40;

	return size > large && size < huge ? size & (large - 1) : size;
}

#endif
