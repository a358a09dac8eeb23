// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Compares the driver's counters with recorded ones, see leaks.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "growth.h"
#include "ktap.h"
#include "leaks.h"

/* Counters of resources in use: rkfd has all of them, the C driver the first. */
static const char *const counters[] = {
	"/sys/kernel/debug/kfd/mem_limit",
	"/sys/kernel/debug/kfd/resources",
	"/sys/module/rkfd/refcnt",
};
/* Directories with an entry per process. */
static const char *const folders[] = {
	"/sys/devices/virtual/kfd/kfd/proc",
	"/sys/kernel/debug/kfd/process",
};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))
/* A process is torn down asynchronously, in part after the GPU has cleared memory. */
#define SETTLE_MS 15000
/* Nothing changes for this time: more than a step of the teardown takes on a busy host. */
#define QUIET_MS 1500

static char before[COUNTERS][4096];
static unsigned int entries_before[FOLDERS];

static void read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n < 0 ? 0 : n] = 0;
	if (fd >= 0)
		close(fd);
}

static unsigned int entries(const char *path)
{
	unsigned int n = 0;
	struct dirent *e;
	DIR *d = opendir(path);

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Returns the number of counters that differ; prints them if requested. */
static unsigned int differences(const char *what, int report)
{
	unsigned int found = 0;
	char now[4096];

	for (size_t i = 0; i < COUNTERS; i++) {
		char *a = before[i], *b = now;

		read_text(counters[i], now, sizeof(now));
		if (!strcmp(a, b))
			continue;
		found++;
		while (report && (*a || *b)) {
			int m = (int)strcspn(a, "\n"), n = (int)strcspn(b, "\n");

			if (m != n || memcmp(a, b, (size_t)n))
				ktap_note("failed: %s: %s was '%.*s', is '%.*s'", what, counters[i],
					  m, a, n, b);
			a += m + (a[m] != 0);
			b += n + (b[n] != 0);
		}
	}
	for (size_t i = 0; i < FOLDERS; i++) {
		unsigned int n = entries(folders[i]);

		if (n == entries_before[i])
			continue;
		found++;
		if (report)
			ktap_note("failed: %s: %s has %u entries, had %u", what, folders[i], n,
				  entries_before[i]);
	}
	return found;
}

static void record(void)
{
	for (size_t i = 0; i < COUNTERS; i++)
		read_text(counters[i], before[i], sizeof(before[i]));
	for (size_t i = 0; i < FOLDERS; i++)
		entries_before[i] = entries(folders[i]);
}

void leaks_start(void)
{
	bool is_rkfd = !access("/sys/module/rkfd", F_OK);

	/* The last process may still be torn down. */
	record();
	for (int ms = 0, quiet = 0; ms < SETTLE_MS && quiet < QUIET_MS; ms += 100) {
		usleep(100000);
		quiet = differences("start", 0) ? 0 : quiet + 100;
		record();
	}
	growth_start();
	for (size_t i = 0; i < COUNTERS; i++)
		ASSERT(before[i][0] || (i > 0 && !is_rkfd), "%s", counters[i]);
}

void leaks_expect_counters(const char *what)
{
	for (int ms = 0; ms < SETTLE_MS && differences(what, 0); ms += 100)
		usleep(100000);
	EXPECT(differences(what, 1) == 0, "%s: something left over", what);
}

void leaks_expect_none(const char *what, long cycles)
{
	leaks_expect_counters(what);
	growth_expect_none(what, cycles);
}
