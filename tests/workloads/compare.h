/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Shared by the parts of `compare`: device, marks in the GPU's log, and cost of calls.
 *
 * Lines of output for the report start with `cmp `; nothing here depends on the driver.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "kfd.h"
#include "sdma-queue.h"

struct compare {
	struct kfd k;
	/*
	 * Queue of the marks. Its fences appear in the GPU's log in order with the driver's
	 * actions.
	 */
	struct sdma_queue marks;
	struct kfd_bo *memory;
	uint32_t marked;
};

/* compare.c */
int compare_open(struct compare *c);
/* Writes a mark to the GPU's log and prints which section it starts. */
int compare_mark(struct compare *c, const char *name);
/* Runs packets on the queue of the marks and waits for them. */
int compare_run(struct compare *c, const uint32_t *packets, const uint32_t *end);
int compare_failed(const char *what, int err);
/* Finds the folder of the GPU's PCI device in sysfs. */
int compare_device(char *path, size_t size);
/* Writes a file of sysfs. Returns 0 or a negative errno. */
int compare_write(const char *path, const char *text);

/*
 * Cost of a call: `cost_begin(); ret = call; cost_end(name, ret);`. cost_report() prints the
 * numbers.
 */
void cost_begin(void);
void cost_end(const char *name, int ret);
void cost_report(void);

/* compare-calls.c: each ioctl a few times; queues between marks */
int compare_calls(struct compare *c);
int compare_queues(struct compare *c);
int compare_launches(struct compare *c);
/* compare-answers.c: replies that do not depend on history */
int compare_answers(struct compare *c);
/* compare-memory.c: mappings accessed by the GPU; memory cost of processes, queues and BOs */
int compare_mappings(struct compare *c);
int compare_memory(void);
/* compare-sysfs.c: files in sysfs of GPU, processes and module */
int compare_sysfs(struct compare *c);
/* compare-life.c: a stuck queue and a debugger; unbind, when no process uses the GPU */
int compare_life(struct compare *c, bool stuck);
int compare_unbind(void);

#endif
