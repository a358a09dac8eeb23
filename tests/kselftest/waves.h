/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Saved waves of a queue, in its context save area. */
#ifndef WAVES_H
#define WAVES_H

#include "fixture.h"

/* Hardware registers in the record of a wave; on gfx12 STATE_PRIV and EXCP_FLAG_PRIV. */
enum { M0, PC_LO, PC_HI, EXEC_LO, EXEC_HI, STATUS, TRAPSTS };

/* Bits of them: gfx942, gfx12. */
struct wave_bits {
	uint32_t status, trapsts;
};

static inline struct wave_bits bits_halt(const struct kfd_node *node)
{
	return (struct wave_bits){ is_gfx12(node) ? 1u << 14 : 1u << 13, 0 };
}

/* Header of the save area of one XCC. */
struct wave_header {
	uint32_t stack_offset, stack_size, state_offset, state_size;
};

/* Resources of waves, by the dword of the control stack that precedes them. */
struct wave_sizes {
	uint32_t vgprs, sgprs, lds, padding;
};

static inline struct wave_sizes wave_sizes(bool gfx12, uint32_t state)
{
	uint32_t blocks = (state & 0x3f) + 1;

	/* 8 VGPRs of 32 lanes or 4 of 64, and 128 SGPRs. */
	if (gfx12)
		return (struct wave_sizes){ blocks * 1024, 128 * 4, (state >> 10 & 0xff) * 512, 0 };
	return (struct wave_sizes){ blocks * 8 * 256, (state >> 6 & 7) * 16 * 4,
				    (state >> 9 & 0xff) * 512, 64 };
}

/*
 * Calls `fn` with the hardware registers of each saved wave of a queue, on all XCCs. Returns their
 * number. The control stack has writes to COMPUTE_RELAUNCH behind two dwords; on gfx9 it is a copy.
 */
static inline unsigned int for_each_wave(struct kfd_queue *q,
					 void (*fn)(uint32_t *hwregs, void *data), void *data)
{
	const bool gfx12 = is_gfx12(&q->k->node);
	const uint32_t first = gfx12 ? 1u << 12 : 1u << 17;
	unsigned int waves = 0;

	for (uint32_t xcc = 0; xcc < q->k->node.num_xcc; xcc++) {
		char *area = (char *)q->cwsr->va + xcc * q->k->node.cwsr_size;
		const struct wave_header *header = (const void *)area;
		const uint32_t *stack = (const void *)(area + header->stack_offset);
		char *top = area + header->state_offset;
		struct wave_sizes sizes = { 0 };

		for (uint32_t n = 2; n < header->stack_size / 4; n++) {
			/* An event. */
			if (stack[n] & 1u << 30)
				continue;
			if (stack[n] & 1u << 31) {
				sizes = wave_sizes(gfx12, stack[n]);
				/* COMPUTE_RELAUNCH2 */
				n += gfx12;
				continue;
			}
			/* 16 hardware registers and trap temporaries each. */
			top -= sizes.padding + (stack[n] & first ? sizes.lds : 0) + 64 + 64;
			fn((uint32_t *)top, data);
			top -= sizes.sgprs + sizes.vgprs;
			waves++;
		}
		/* The records fill the area. */
		EXPECT_EQ(area + header->state_offset - top, (ptrdiff_t)header->state_size);
		EXPECT_EQ(header->state_offset - header->state_size,
			  header->stack_offset + header->stack_size);
	}
	return waves;
}

#endif
