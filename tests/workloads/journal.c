// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Collects the steps of the program and, from a private tracefs instance, the trace events of the
 * driver; prints them in chronological order as a table and as one machine-readable line each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"

#define TRACING "/sys/kernel/tracing"
#define INSTANCE TRACING "/instances/rkfd-demo"
#define MAX_STEPS 4096

struct step {
	uint64_t start, end;
	unsigned int order;
	int tid;
	char layer[8], name[40], values[256];
};

static struct step steps[MAX_STEPS];
static unsigned int count;
static uint64_t epoch;

uint64_t journal_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void journal_begin(const char *step)
{
	struct step *s = &steps[count < MAX_STEPS ? count : MAX_STEPS - 1];

	snprintf(s->layer, sizeof(s->layer), "user");
	snprintf(s->name, sizeof(s->name), "%s", step);
	s->order = count;
	s->tid = gettid();
	s->start = journal_now();
	if (!epoch)
		epoch = s->start;
}

void journal_end(const char *values, ...)
{
	struct step *s = &steps[count < MAX_STEPS ? count : MAX_STEPS - 1];
	va_list list;

	s->end = journal_now();
	va_start(list, values);
	vsnprintf(s->values, sizeof(s->values), values, list);
	va_end(list);
	if (count < MAX_STEPS)
		count++;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Traces every event of `system` into a private instance. */
int journal_trace_start(const char *system)
{
	char path[256];
	int ret;

	if (access(TRACING "/instances", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL) &&
	    errno != EBUSY)
		return -errno;
	rmdir(INSTANCE);
	if (mkdir(INSTANCE, 0700) && errno != EEXIST)
		return -errno;
	ret = write_file(INSTANCE "/trace_clock", "mono");
	snprintf(path, sizeof(path), INSTANCE "/events/%s/enable", system);
	if (!ret)
		ret = write_file(path, "1");
	if (ret)
		rmdir(INSTANCE);
	return ret;
}

/* Queue events are named by their `step`, process and event ones by their `what`. */
static void name_event(struct step *s, const char *event, const char *fields)
{
	const char *detail = strstr(fields, " step=");

	if (!detail)
		detail = strstr(fields, " what=");
	if (detail)
		snprintf(s->name, sizeof(s->name), "%.16s:%.*s", event,
			 (int)strcspn(detail + 6, " "), detail + 6);
	else
		snprintf(s->name, sizeof(s->name), "%s", event);
}

/* "  task-pid  [cpu] flags  seconds.micros: event: fields" */
static void add_trace_line(char *line)
{
	char *cpu = strstr(line, " ["), *event, *fields, *dot, *tid;
	struct step *s = &steps[count];
	unsigned long long seconds, micros;

	if (line[0] == '#' || !cpu || count >= MAX_STEPS)
		return;
	/* The name of the task may contain a dash. */
	*cpu++ = 0;
	tid = strrchr(line, '-');
	dot = strchr(cpu, ']');
	if (!dot || sscanf(dot + 1, " %*s %llu.%llu:", &seconds, &micros) != 2)
		return;
	event = strstr(dot, ": ");
	if (!event)
		return;
	event += 2;
	fields = strstr(event, ": ");
	if (fields) {
		*fields = 0;
		fields += 2;
		fields[strcspn(fields, "\n")] = 0;
	} else {
		event[strcspn(event, ":\n")] = 0;
		fields = line + strlen(line);
	}
	s->start = s->end = seconds * 1000000000ull + micros * 1000ull;
	s->order = count;
	s->tid = tid ? atoi(tid + 1) : 0;
	snprintf(s->layer, sizeof(s->layer), "kernel");
	name_event(s, strncmp(event, "rkfd_", 5) ? event : event + 5, fields);
	snprintf(s->values, sizeof(s->values), "%s", fields);
	count++;
}

void journal_trace_stop(void)
{
	char *line = NULL;
	size_t size = 0;
	FILE *f;

	write_file(INSTANCE "/tracing_on", "0");
	f = fopen(INSTANCE "/trace", "re");
	if (f) {
		while (getline(&line, &size, f) > 0)
			add_trace_line(line);
		fclose(f);
	}
	free(line);
	rmdir(INSTANCE);
}

static int by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

int journal_failed(const char *step, int err)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, step, strerror(-err));
	return 1;
}

void journal_print(void)
{
	qsort(steps, count, sizeof(steps[0]), by_time);
	printf("%12s %10s  %-6s  %-24s %s\n", "at (us)", "took (us)", "layer", "step", "values");
	for (unsigned int i = 0; i < count; i++) {
		const struct step *s = &steps[i];
		uint64_t at = s->start > epoch ? s->start - epoch : 0;

		printf("%12.1f ", (double)at / 1e3);
		if (s->end > s->start)
			printf("%10.1f  ", (double)(s->end - s->start) / 1e3);
		else
			printf("%10s  ", "");
		printf("%-6s  %-24s %s\n", s->layer, s->name, s->values);
	}
	for (unsigned int i = 0; i < count; i++)
		printf("rkfd-demo: t=%llu layer=%s step=%s took=%llu tid=%d %s\n",
		       (unsigned long long)steps[i].start, steps[i].layer, steps[i].name,
		       (unsigned long long)(steps[i].end - steps[i].start), steps[i].tid,
		       steps[i].values);
}

const char *journal_misses(const char *const *names, unsigned int names_count)
{
	unsigned int at = 0;

	for (unsigned int i = 0; i < names_count; i++) {
		while (at < count && strcmp(steps[at].name, names[i]))
			at++;
		if (at++ >= count)
			return names[i];
	}
	return NULL;
}
