/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A journal: the steps of a program and trace events of the kernel on one clock. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdint.h>

uint64_t journal_now(void);
void journal_begin(const char *step);
__attribute__((format(printf, 1, 2))) void journal_end(const char *values, ...);
/* Prints that a step failed with a negative errno. Returns 1. */
int journal_failed(const char *step, int err);
/*
 * Journals a call that returns 0 or a negative errno, with the values after it; returns from the
 * caller if it fails.
 */
#define JOURNAL_STEP(step, call, ...)                           \
	do {                                                    \
		int err_;                                       \
		journal_begin(step);                            \
		err_ = (call);                                  \
		if (err_)                                       \
			return journal_failed(step, err_);      \
		journal_end(__VA_ARGS__);                       \
	} while (0)
int journal_trace_start(const char *system);
void journal_trace_stop(void);
void journal_print(void);
/* After journal_print(): returns the first of some steps that is not recorded after the former. */
const char *journal_misses(const char *const *names, unsigned int names_count);

#endif
