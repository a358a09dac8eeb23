// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Measures the growth of kernel memory, see growth.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "growth.h"
#include "ktap.h"

#define CACHES 600
#define PASSES 3
/* Tolerance for allocations by the rest of the kernel: objects of a cache, pages. */
#define OBJECT_NOISE 20
#define CYCLES_PER_OBJECT 2000
#define PAGE_NOISE 32
/* KASAN keeps freed memory for a while, and a stack of each allocation. */
#define PAGE_NOISE_KASAN 256

struct slab {
	char name[64];
	long objects;
};

/* Pages of the kernel outside slabs, and those of them that are vmalloc's; slabs by cache. */
struct memory {
	long pages, vmalloc;
	unsigned int count;
	struct slab slabs[CACHES];
};

static struct memory first, last;
static int shrinks[CACHES];
static unsigned int shrink_count;

/*
 * Files that stay open: opening and closing them would allocate between two readings, and leave
 * objects to kfree_rcu(), which frees them in batches.
 */
enum { SLABINFO, MEMINFO, ZONEINFO, STAT_REFRESH, DROP_CACHES, FILES };
static int files[FILES] = { [0 ... FILES - 1] = -1 };

static void open_files(void)
{
	static const char *const paths[FILES] = { "/proc/slabinfo", "/proc/meminfo",
						  "/proc/zoneinfo", "/proc/sys/vm/stat_refresh",
						  "/proc/sys/vm/drop_caches" };

	for (int i = 0; i < FILES; i++) {
		if (files[i] < 0)
			files[i] = open(paths[i], (i < STAT_REFRESH ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
		ASSERT(files[i] >= 0, "%s: %s", paths[i], strerror(errno));
	}
}

static void write_digit(int fd, const char *digit)
{
	ASSERT(pwrite(fd, digit, 1, 0) == 1, "write: %s", strerror(errno));
}

/* Reads a file whole. */
static void read_text(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t n;

	ASSERT(lseek(fd, 0, SEEK_SET) == 0);
	while ((n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	ASSERT(n == 0 && used > 0 && used < size - 1, "read: %zu bytes", used);
	text[used] = 0;
}

/* Drops clean caches. */
static void drop_caches(void)
{
	sync();
	write_digit(files[DROP_CACHES], "3");
	usleep(200000);
}

/* Opens the file `shrink` of each slab cache. They stay open until the next start. */
static void open_shrinks(void)
{
	DIR *caches = opendir("/sys/kernel/slab");
	struct dirent *d;
	char path[300];
	struct stat s;

	ASSERT(caches != NULL, "/sys/kernel/slab: %s", strerror(errno));
	while (shrink_count > 0)
		close(shrinks[--shrink_count]);
	while ((d = readdir(caches))) {
		snprintf(path, sizeof(path), "/sys/kernel/slab/%s", d->d_name);
		/* A link is another name of a merged cache. */
		if (d->d_name[0] == '.' || lstat(path, &s) || !S_ISDIR(s.st_mode))
			continue;
		strncat(path, "/shrink", sizeof(path) - strlen(path) - 1);
		ASSERT(shrink_count < CACHES, "more than %d caches", CACHES);
		shrinks[shrink_count] = open(path, O_WRONLY | O_CLOEXEC);
		ASSERT(shrinks[shrink_count] >= 0, "%s: %s", path, strerror(errno));
		shrink_count++;
	}
	closedir(caches);
}

/* Returns the free objects that processors keep, which count as used, to their slabs. */
static void shrink_slabs(void)
{
	for (unsigned int i = 0; i < shrink_count; i++)
		write_digit(shrinks[i], "1");
}

/* Returns a value of /proc/meminfo in pages. */
static long meminfo(const char *text, const char *key)
{
	char wanted[64];
	const char *at;
	long kib = -1;

	snprintf(wanted, sizeof(wanted), "\n%s:", key);
	at = strstr(text, wanted);
	ASSERT(at && sscanf(at + strlen(wanted), "%ld", &kib) == 1, "no %s", key);
	return kib / 4;
}

/* Returns the free pages that processors keep, which MemFree does not count. */
static long pages_of_processors(void)
{
	static char text[1 << 15];
	long count, sum = 0;
	char *line, *rest = text;

	read_text(files[ZONEINFO], text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		if (sscanf(line, " count: %ld", &count) == 1)
			sum += count;
	return sum;
}

/*
 * Reads /proc/meminfo and returns the free pages that processors keep. They move between the two in
 * batches of 63, of which MemFree shows those before the last write of stat_refresh.
 */
static long read_meminfo(char *text, size_t size)
{
	long before, after = -1;

	for (int i = 0; i < 50; i++) {
		write_digit(files[STAT_REFRESH], "1");
		before = pages_of_processors();
		read_text(files[MEMINFO], text, size);
		after = pages_of_processors();
		if (before == after)
			return after;
	}
	return after;
}

/*
 * Returns whether the objects of a cache are not those of the operation: areas of freed memory
 * remain until a purge (those in use are counted by vmalloc), and the debug kernel's tools keep
 * records of objects that were freed.
 */
static bool is_unrelated(const char *cache)
{
	static const char *const names[] = { "vmap_area", "debug_objects_cache", "kmemleak_object",
					     "kmemleak_scan_area" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(cache, names[i]))
			return true;
	return false;
}

static void read_slabs(struct memory *m)
{
	static char text[1 << 17];
	char *line, *rest = text;

	read_text(files[SLABINFO], text, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		struct slab *slab = &m->slabs[m->count];

		if (sscanf(line, "%63s %ld", slab->name, &slab->objects) != 2 ||
		    is_unrelated(slab->name))
			continue;
		ASSERT(++m->count < CACHES, "more than %d caches", CACHES);
	}
	ASSERT(m->count > 50, "%u caches in /proc/slabinfo", m->count);
}

static void measure_once(struct memory *m)
{
	static const char *const others[] = { "MemFree",   "Buffers",    "Cached", "SwapCached",
					      "AnonPages", "PageTables", "Slab" };
	char text[8192] = "\n";
	long kept;

	memset(m, 0, sizeof(*m));
	drop_caches();
	kept = read_meminfo(text + 1, sizeof(text) - 1);
	m->pages = meminfo(text, "MemTotal") - kept;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		m->pages -= meminfo(text, others[i]);
	/* Thread stacks are vmalloc memory, too; workqueues start and end threads at any time. */
	m->pages -= meminfo(text, "KernelStack");
	m->vmalloc = meminfo(text, "VmallocUsed") - meminfo(text, "KernelStack");
	shrink_slabs();
	read_slabs(m);
}

/* Returns the objects in use of a cache, or `absent` if there is no such cache. */
static long objects_of(const struct memory *m, const char *name, long absent)
{
	for (unsigned int i = 0; i < m->count; i++)
		if (!strcmp(m->slabs[i].name, name))
			return m->slabs[i].objects;
	return absent;
}

/* Lowers each figure of `m` to that of `again` if it is smaller. */
static void lower(struct memory *m, const struct memory *again)
{
	m->pages = again->pages < m->pages ? again->pages : m->pages;
	m->vmalloc = again->vmalloc < m->vmalloc ? again->vmalloc : m->vmalloc;
	for (unsigned int i = 0; i < m->count; i++) {
		long objects = objects_of(again, m->slabs[i].name, m->slabs[i].objects);

		if (objects < m->slabs[i].objects)
			m->slabs[i].objects = objects;
	}
}

/* Measures `passes` times, which excludes short-lived allocations of the rest of the kernel. */
static void measure(struct memory *m, int passes)
{
	static struct memory again;

	measure_once(m);
	for (int i = 1; i < passes; i++) {
		measure_once(&again);
		lower(m, &again);
	}
}

static bool grew(const char *what, const char *name, long before, long after, long limit,
		 bool report)
{
	if (after - before <= limit)
		return false;
	if (report)
		ktap_failed(__FILE__, __LINE__, what, "%s: %ld before, %ld after", name, before,
			    after);
	return true;
}

static long page_noise(void)
{
	struct utsname kernel;

	return !uname(&kernel) && strstr(kernel.release, "+kasan") ? PAGE_NOISE_KASAN : PAGE_NOISE;
}

/*
 * Compares `last` with `first`; returns whether anything has grown. The rest of the kernel keeps
 * some more objects the longer it runs.
 */
static bool growth(const char *what, long cycles, bool report)
{
	const long objects = OBJECT_NOISE + cycles / CYCLES_PER_OBJECT;
	const long pages = page_noise();
	bool found = grew(what, "pages", first.pages, last.pages, pages, report);

	found |= grew(what, "pages of vmalloc", first.vmalloc, last.vmalloc, pages, report);
	for (unsigned int i = 0; i < last.count; i++)
		found |= grew(what, last.slabs[i].name, objects_of(&first, last.slabs[i].name, 0),
			      last.slabs[i].objects, objects, report);
	return found;
}

void growth_start(void)
{
	open_files();
	open_shrinks();
	measure(&last, 1);
	measure(&first, PASSES);
}

void growth_expect_none(const char *what, long cycles)
{
	static struct memory again;
	const char *name = "any cache";
	long most = 0;

	measure(&last, PASSES);
	/* Cleanup continues in the background. */
	for (int i = 0; i < 10 && growth(what, cycles, false); i++) {
		usleep(500000);
		measure_once(&again);
		lower(&last, &again);
	}
	for (unsigned int i = 0; i < last.count; i++) {
		long more = last.slabs[i].objects - objects_of(&first, last.slabs[i].name, 0);

		if (more > most) {
			most = more;
			name = last.slabs[i].name;
		}
	}
	ktap_note("%s: %+ld pages, %+ld of vmalloc, at most %+ld objects of %s in %ld cycles", what,
		  last.pages - first.pages, last.vmalloc - first.vmalloc, most, name, cycles);
	growth(what, cycles, true);
}
