// SPDX-License-Identifier: GPL-2.0 OR MIT
/* See growth.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "growth.h"
#include "ktap.h"

static long meminfo(const char *key)
{
	char line[128], name[64];
	long value, found = -1;
	FILE *f = fopen("/proc/meminfo", "re");

	ASSERT(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[^:]: %ld", name, &value) == 2 && !strcmp(name, key))
			found = value;
	fclose(f);
	return found;
}

static void settle(void)
{
	FILE *f;

	sync();
	f = fopen("/proc/sys/vm/drop_caches", "we");
	if (f) {
		fputs("3", f);
		fclose(f);
	}
	usleep(300000);
}

/* Unreclaimable slab memory in KiB. */
static long kernel_memory(void)
{
	settle();
	return meminfo("SUnreclaim");
}

struct slab {
	char name[64];
	long objects;
};

static struct slab slabs[600];

/* Objects in use of a slab cache; -1 for a cache not recorded before. */
static long *slab_objects(const char *name)
{
	for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++) {
		if (!slabs[i].name[0]) {
			snprintf(slabs[i].name, sizeof(slabs[i].name), "%s", name);
			slabs[i].objects = -1;
		}
		if (!strcmp(slabs[i].name, name))
			return &slabs[i].objects;
	}
	return NULL;
}

/* With `limit` 0 records all caches; else returns how many have grown by more and prints them. */
static unsigned int slab_growth(long limit, bool tell)
{
	unsigned int grown = 0;
	char line[512], name[64];
	long active, *known;
	FILE *f = fopen("/proc/slabinfo", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %ld", name, &active) != 2 || !(known = slab_objects(name)))
			continue;
		if (!limit) {
			*known = active;
		} else if (*known >= 0 && active - *known > limit) {
			grown++;
			if (tell)
				ktap_note("failed: %s grew from %ld to %ld objects", name, *known,
					  active);
		}
	}
	fclose(f);
	return grown;
}

long growth_start(void)
{
	long memory = kernel_memory();

	slab_growth(0, false);
	return memory;
}

void growth_expect_none(const char *what, long before, long cycles)
{
	long limit = 1024 + cycles / 8, objects = cycles * 3 / 4 > 600 ? cycles * 3 / 4 : 600;
	long after = kernel_memory();

	for (int i = 0; i < 10 && (after - before > limit || slab_growth(objects, false)); i++) {
		usleep(500000);
		after = kernel_memory();
	}
	EXPECT(after - before <= limit, "%s: slab grew from %ld to %ld KiB", what, before, after);
	EXPECT(slab_growth(objects, true) == 0, "%s: objects left over after %ld cycles", what,
	       cycles);
}
