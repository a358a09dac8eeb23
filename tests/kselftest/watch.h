/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Trace events of the driver, recorded in a private tracefs instance. Every failure ends the test.
 */
#ifndef WATCH_H
#define WATCH_H

#define WATCH_EVENTS "/sys/kernel/tracing/events/rkfd"

/* Skips the test if the driver has no trace events. */
void watch_need_events(void);
/* Starts recording all of them, and jobs of the DRM scheduler. */
void watch_start(void);
/* Starts recording some of them: names, then NULL. */
void watch_start_only(const char *event, ...);
/* Restricts one of them by a filter of tracefs; clears the events recorded before. */
void watch_filter(const char *event, const char *filter);
/* Returns the recorded text, to be freed. */
char *watch_stop(void);
/* Returns the contents of a file, to be freed. */
char *watch_read(const char *path);
/* Returns how often `word` occurs in `text`. */
unsigned int watch_count(const char *text, const char *word);
/* Returns the number of jobs that this process has queued. */
unsigned int watch_count_jobs(const char *text);

#endif
