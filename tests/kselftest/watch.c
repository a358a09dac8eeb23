// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Records trace events of the driver, see watch.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "watch.h"

#define INSTANCE "/sys/kernel/tracing/instances/kselftest"

char *watch_read(const char *path)
{
	size_t used = 0, size = 1 << 16;
	char *text = malloc(size);
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	while ((n = read(fd, text + used, size - used - 1)) > 0) {
		used += (size_t)n;
		if (size - used < 4096)
			text = realloc(text, size *= 2);
	}
	ASSERT(n == 0, "%s: %s", path, strerror(errno));
	text[used] = 0;
	close(fd);
	return text;
}

unsigned int watch_count(const char *text, const char *word)
{
	unsigned int n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

unsigned int watch_count_jobs(const char *text)
{
	unsigned int n = 0;
	char task[16];

	/* The line begins with the name of the task and its id. */
	snprintf(task, sizeof(task), "-%d ", gettid());
	while ((text = strstr(text, task))) {
		const char *end = strchrnul(text, '\n');
		const char *job = strstr(text, "drm_sched_job_queue: ");

		n += job && job < end;
		text = end;
	}
	return n;
}

void watch_need_events(void)
{
	if (access(WATCH_EVENTS, F_OK))
		SKIP("no rkfd trace events");
}

static void make_instance(void)
{
	watch_need_events();
	rmdir(INSTANCE);
	ASSERT(mkdir(INSTANCE, 0700) == 0 || errno == EEXIST, "%s", strerror(errno));
}

void watch_start(void)
{
	make_instance();
	ASSERT_OK(write_file(INSTANCE "/events/rkfd/enable", "1"));
	ASSERT_OK(write_file(INSTANCE "/events/gpu_scheduler/drm_sched_job_queue/enable", "1"));
	ASSERT_OK(write_file(INSTANCE "/trace", ""));
}

void watch_start_only(const char *event, ...)
{
	va_list list;
	char path[160];

	make_instance();
	va_start(list, event);
	for (; event; event = va_arg(list, const char *)) {
		snprintf(path, sizeof(path), INSTANCE "/events/rkfd/%s/enable", event);
		ASSERT_OK(write_file(path, "1"));
	}
	va_end(list);
	ASSERT_OK(write_file(INSTANCE "/trace", ""));
}

void watch_filter(const char *event, const char *filter)
{
	char path[160];

	snprintf(path, sizeof(path), INSTANCE "/events/rkfd/%s/filter", event);
	ASSERT_OK(write_file(path, filter));
	ASSERT_OK(write_file(INSTANCE "/trace", ""));
}

char *watch_stop(void)
{
	char *text;

	ASSERT_OK(write_file(INSTANCE "/tracing_on", "0"));
	text = watch_read(INSTANCE "/trace");
	rmdir(INSTANCE);
	return text;
}
