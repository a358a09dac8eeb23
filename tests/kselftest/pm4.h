/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* PM4 packets for compute queues. Functions return the number of dwords written. */
#ifndef PM4_H
#define PM4_H

#include <stdint.h>

/* DATA_SEL and INT_SEL of RELEASE_MEM. */
#define PM4_DATA (2u << 29)
#define PM4_CLOCK (3u << 29)
#define PM4_INTERRUPT (2u << 24)

/* RELEASE_MEM of 64 bits at end of pipe, after flushing the caches; see PACKET3_RELEASE_MEM. */
static inline uint32_t pm4_release_mem(uint32_t *words, uint32_t sels, uint64_t to, uint64_t data,
				       uint32_t context)
{
	words[0] = 0xc0064900;
	words[1] = 0x14 | 5 << 8;
	words[2] = sels;
	words[3] = (uint32_t)to;
	words[4] = (uint32_t)(to >> 32);
	words[5] = (uint32_t)data;
	words[6] = (uint32_t)(data >> 32);
	words[7] = context;
	return 8;
}

/* WRITE_DATA of a dword to memory, with confirmation; see PACKET3_WRITE_DATA. */
static inline uint32_t pm4_write_data(uint32_t *words, uint64_t to, uint32_t value)
{
	words[0] = 0xc0033700;
	words[1] = 5u << 8 | 1u << 20;
	words[2] = (uint32_t)to;
	words[3] = (uint32_t)(to >> 32);
	words[4] = value;
	return 5;
}

/* WAIT_REG_MEM until the dword in memory is at least `value`; see PACKET3_WAIT_REG_MEM. */
static inline uint32_t pm4_wait(uint32_t *words, uint64_t at, uint32_t value)
{
	words[0] = 0xc0053c00;
	words[1] = 5 | 1 << 4;
	words[2] = (uint32_t)at;
	words[3] = (uint32_t)(at >> 32);
	words[4] = value;
	words[5] = ~0u;
	words[6] = 10;
	return 7;
}

/*
 * PROTECTED_FENCE_SIGNAL: signals the fences of the queue up to this position. The opcode is that
 * of IGT and Mesa.
 */
static inline uint32_t pm4_signal(uint32_t *words)
{
	words[0] = 0xc000d000;
	words[1] = 0;
	return 2;
}

#endif
