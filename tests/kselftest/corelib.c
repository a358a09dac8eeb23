// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads and frees device coredumps, see corelib.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "corelib.h"
#include "fixture.h"
#include "watch.h"

#define CLASS "/sys/class/devcoredump"

/* Sets `path` to a file of the first coredump; returns whether there is one. */
static bool find(char path[PATH_MAX], const char *file)
{
	DIR *dir = opendir(CLASS);
	struct dirent *entry;
	bool found = false;

	ASSERT(dir, CLASS ": %s", strerror(errno));
	while (!found && (entry = readdir(dir))) {
		found = !strncmp(entry->d_name, "devcd", 5);
		snprintf(path, PATH_MAX, CLASS "/%s/%s", entry->d_name, file);
	}
	closedir(dir);
	return found;
}

void coredump_free_all(void)
{
	char path[PATH_MAX];

	for (int i = 0; i < 100 && find(path, "data"); i++) {
		write_file(path, "1");
		usleep(50000);
	}
}

char *coredump_wait(struct kfd *k)
{
	char path[PATH_MAX], real[PATH_MAX], bdf[32];

	for (int i = 0; i < 200 && !find(path, "data"); i++)
		usleep(50000);
	ASSERT(find(path, "failing_device"), "no coredump");
	/* The function is the number of the node in its card. */
	snprintf(bdf, sizeof(bdf), "%04x:%02x:%02x.", k->node.domain, k->node.location_id >> 8,
		 k->node.location_id >> 3 & 31);
	ASSERT(realpath(path, real), "%s: %s", path, strerror(errno));
	EXPECT(strstr(real, bdf), "%s is not %s", real, bdf);
	ASSERT(find(path, "data"));
	return watch_read(path);
}

void coredump_expect(const char *text, const char *what)
{
	EXPECT(strstr(text, what), "no '%s' in the coredump", what);
}

void coredump_expect_freed(void)
{
	char path[PATH_MAX];

	ASSERT(find(path, "data"));
	EXPECT_OK(write_file(path, "1"));
	for (int i = 0; i < 100 && find(path, "data"); i++)
		usleep(50000);
	EXPECT(!find(path, "data"));
}
