/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Coverage of the module by KCOV: a bit per edge, which the fuzzer shares with the tasks of its
 * programs, also with programs that it starts.
 */
#ifndef COVER_H
#define COVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct trace;

/* Reads the position of the module, and opens `tasks` traces; returns false without KCOV. */
bool cover_init(unsigned int tasks);
struct trace *cover_start(unsigned int task);
/* Adds what the calling task has run since the last time to the program's new edges. */
void cover_collect(struct trace *trace, unsigned int step);
void cover_stop(struct trace *trace);
/* Adds what tasks that have ended ran since their last collection, in exec(). */
void cover_collect_rest(unsigned int step);
/* Edges of the last program that were not covered before: their offsets and steps. */
struct edge {
	uint32_t offset;
	uint32_t step;
};
unsigned int cover_new(const struct edge **edges);
/* Empties the list of new edges; `keep`: they count as covered from now on. */
void cover_take(bool keep);
unsigned int cover_total(void);
void cover_dump(FILE *f);

/* Requests coverage of what this process executes, by $KFD_COVER: edges of step `step`. */
void cover_pass(unsigned int step);
/* Returns the trace of this thread, which runs from the first call on; NULL without $KFD_COVER. */
struct trace *cover_own(void);
void cover_collect_own(struct trace *trace);

#endif
