/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Trace points of the driver, in an instance of tracefs of the test's own. Whatever goes wrong ends the test. */
#ifndef WATCH_H
#define WATCH_H

#define WATCH_EVENTS "/sys/kernel/tracing/events/rkfd"

/* Skips the test if the driver has no trace points. */
void watch_need_events(void);
/* From here on all of them are recorded. */
void watch_start(void);
/* What was recorded, as text; to be freed. */
char *watch_stop(void);
/* The whole of a file; to be freed. */
char *watch_read(const char *path);
/* How often `word` stands in `text`. */
unsigned int watch_count(const char *text, const char *word);

#endif
