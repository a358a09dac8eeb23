/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SDMA packets of gfx9, written at a pointer that each function advances. Layouts are those of the
 * kernel's vega10_sdma_pkt_open.h; byte counts are the wider ones of SDMA 4.4.
 */
#ifndef SDMA_H
#define SDMA_H

#include <stdbool.h>
#include <stdint.h>

enum sdma_op {
	SDMA_NOP = 0,
	SDMA_COPY = 1,
	SDMA_WRITE = 2,
	SDMA_FENCE = 5,
	SDMA_TRAP = 6,
	SDMA_POLL = 8,
	SDMA_COND_EXE = 9,
	SDMA_ATOMIC = 10,
	SDMA_CONST_FILL = 11,
	SDMA_TIMESTAMP = 13,
};

/* Compare functions of POLL_REGMEM. */
enum sdma_func {
	SDMA_ALWAYS,
	SDMA_LESS,
	SDMA_LESS_EQUAL,
	SDMA_EQUAL,
	SDMA_NOT_EQUAL,
	SDMA_GREATER_EQUAL,
	SDMA_GREATER
};

/* Atomic operations; `| SDMA_64` for qwords, `| SDMA_NO_RETURN` to discard the old value. */
enum sdma_atomic {
	SDMA_SWAP = 0x07,
	SDMA_CMPSWAP = 0x08,
	SDMA_ADD = 0x0f,
	SDMA_SUB = 0x10,
	SDMA_AND = 0x15,
	SDMA_OR = 0x16,
	SDMA_XOR = 0x17,
	SDMA_64 = 0x20,
	SDMA_NO_RETURN = 0x40,
};

#define SDMA_MAX_BYTES (1u << 30)

static inline void sdma_put64(uint32_t **p, uint64_t value)
{
	*(*p)++ = (uint32_t)value;
	*(*p)++ = (uint32_t)(value >> 32);
}

/* One packet that skips `skipped` dwords after its header. */
static inline void sdma_nop(uint32_t **p, uint32_t skipped)
{
	*(*p)++ = SDMA_NOP | skipped << 16;
	for (uint32_t i = 0; i < skipped; i++)
		*(*p)++ = 0x0badc0de;
}

static inline void sdma_copy(uint32_t **p, uint64_t to, uint64_t from, uint32_t bytes)
{
	*(*p)++ = SDMA_COPY;
	*(*p)++ = bytes - 1;
	*(*p)++ = 0;
	sdma_put64(p, from);
	sdma_put64(p, to);
}

static inline void sdma_broadcast(uint32_t **p, uint64_t to, uint64_t to2, uint64_t from,
				  uint32_t bytes)
{
	*(*p)++ = SDMA_COPY | 1u << 27;
	*(*p)++ = bytes - 1;
	*(*p)++ = 0;
	sdma_put64(p, from);
	sdma_put64(p, to);
	sdma_put64(p, to2);
}

/* A rectangle of dwords; pitches and sizes in dwords. Pitches have 16 bits on SDMA 7, else 19. */
static inline void sdma_rectangle(uint32_t **p, bool sdma7, uint64_t to, uint32_t to_x,
				  uint32_t to_y, uint32_t to_pitch, uint64_t from,
				  uint32_t from_x, uint32_t from_y, uint32_t from_pitch,
				  uint32_t width, uint32_t height)
{
	unsigned int shift = sdma7 ? 16 : 13;

	*(*p)++ = SDMA_COPY | 4 << 8 | 2u << 29;
	sdma_put64(p, from);
	*(*p)++ = from_x | from_y << 16;
	*(*p)++ = (from_pitch - 1) << shift;
	*(*p)++ = from_pitch * (from_y + height) - 1;
	sdma_put64(p, to);
	*(*p)++ = to_x | to_y << 16;
	*(*p)++ = (to_pitch - 1) << shift;
	*(*p)++ = to_pitch * (to_y + height) - 1;
	*(*p)++ = (width - 1) | (height - 1) << 16;
	*(*p)++ = 0;
}

/* `count` dwords starting with `first`, each one larger than the previous one. */
static inline void sdma_write(uint32_t **p, uint64_t to, uint32_t count, uint32_t first)
{
	*(*p)++ = SDMA_WRITE;
	sdma_put64(p, to);
	*(*p)++ = count - 1;
	for (uint32_t i = 0; i < count; i++)
		*(*p)++ = first + i;
}

static inline void sdma_fill(uint32_t **p, uint64_t to, uint32_t value, uint32_t bytes)
{
	*(*p)++ = SDMA_CONST_FILL | 2u << 30;
	sdma_put64(p, to);
	*(*p)++ = value;
	*(*p)++ = bytes - 1;
}

static inline void sdma_fence(uint32_t **p, uint64_t to, uint32_t value)
{
	*(*p)++ = SDMA_FENCE;
	sdma_put64(p, to);
	*(*p)++ = value;
}

static inline void sdma_trap(uint32_t **p, uint32_t context)
{
	*(*p)++ = SDMA_TRAP;
	*(*p)++ = context;
}

/* Polls the dword at `at` for ever until the comparison holds. */
static inline void sdma_poll(uint32_t **p, uint64_t at, enum sdma_func func, uint32_t value,
			     uint32_t mask)
{
	*(*p)++ = SDMA_POLL | (uint32_t)func << 28 | 1u << 31;
	sdma_put64(p, at);
	*(*p)++ = value;
	*(*p)++ = mask;
	*(*p)++ = 10 | 0xfffu << 16;
}

/* Skips the next `skipped` dwords unless the dword at `at` has this value. */
static inline void sdma_cond_exe(uint32_t **p, uint64_t at, uint32_t value, uint32_t skipped)
{
	*(*p)++ = SDMA_COND_EXE;
	sdma_put64(p, at);
	*(*p)++ = value;
	*(*p)++ = skipped;
}

static inline void sdma_atomic(uint32_t **p, uint32_t op, uint64_t at, uint64_t source,
			       uint64_t compare)
{
	*(*p)++ = SDMA_ATOMIC | op << 25;
	sdma_put64(p, at);
	sdma_put64(p, source);
	sdma_put64(p, compare);
	*(*p)++ = 0;
}

/* Writes the GPU clock of GET_CLOCK_COUNTERS to a multiple of 8. */
static inline void sdma_clock(uint32_t **p, uint64_t to)
{
	*(*p)++ = SDMA_TIMESTAMP | 2 << 8;
	sdma_put64(p, to);
}

#endif
