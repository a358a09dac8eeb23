/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the parts of `compare` share: one process's device, marks in the GPU's own log, and the cost of calls.
 *
 * Every line of output that the report reads starts with `cmp `; nothing here knows which driver answers.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "kfd.h"
#include "sdma-queue.h"

struct compare {
	struct kfd k;
	/* Its fences stand in the GPU's log, in order with all that the driver does before and after. */
	struct sdma_queue marks;
	struct kfd_bo *memory;
	uint32_t marked;
};

/* compare.c */
int compare_open(struct compare *c);
/* Puts a mark into the GPU's log and says what it stands before. */
int compare_mark(struct compare *c, const char *name);
/* Runs packets on the queue of the marks, and waits for them. */
int compare_run(struct compare *c, const uint32_t *packets, const uint32_t *end);
int compare_failed(const char *what, int err);

/* Cost of a call: `cost_begin(); ret = call; cost_end(name, ret);`. The numbers are printed by cost_report(). */
void cost_begin(void);
void cost_end(const char *name, int ret);
void cost_report(void);

/* compare-calls.c: each ioctl a few times; queues between marks */
int compare_calls(struct compare *c);
int compare_queues(struct compare *c);
int compare_launches(struct compare *c);
/* compare-answers.c: what does not depend on what was done before */
int compare_answers(struct compare *c);
/* compare-memory.c: mappings that the GPU then walks; what processes, queues and buffers cost in memory */
int compare_mappings(struct compare *c);
int compare_memory(void);

#endif
