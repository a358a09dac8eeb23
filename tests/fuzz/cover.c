// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Coverage of the module by KCOV. Only the module is instrumented (Kbuild): each recorded address
 * is one of its edges, and is kept as an offset in the module's text, which is the same in each
 * boot. Interrupts and workers are not recorded.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#define KCOV_INIT_TRACE _IOR('c', 1, unsigned long)
#define KCOV_ENABLE _IO('c', 100)
#define KCOV_DISABLE _IO('c', 101)
#define KCOV_TRACE_PC 0

/* Edges of one collection; what is beyond is lost. */
#define ENTRIES (64ul << 10)
#define TEXT_BYTES (32u << 20)
#define NEW_EDGES 65536
/* Higher than the files of programs. */
#define LOWEST_FILE 900

struct trace {
	int file;
	unsigned long *entries;
};

/* Shared with the tasks of programs. */
struct shared {
	/* A bit per offset: covered, and in the list of new edges. */
	uint64_t covered[TEXT_BYTES / 64], listed[TEXT_BYTES / 64];
	unsigned int count;
	struct edge edges[NEW_EDGES];
};

static struct trace traces[TASKS];
static struct shared *shared;
static unsigned long base;
static unsigned int total;

/* The address of the module's text, of which section .text is the beginning. */
static bool read_base(void)
{
	FILE *f = fopen("/sys/module/rkfd/sections/.text", "re");
	bool found = f && fscanf(f, "%lx", &base) == 1 && base;

	if (f)
		fclose(f);
	return found;
}

bool cover_init(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || !read_base())
		return false;
	for (int i = 0; i < TASKS; i++) {
		int low = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);

		traces[i].file = fcntl(low, F_DUPFD_CLOEXEC, LOWEST_FILE);
		close(low);
		if (traces[i].file < 0 || ioctl(traces[i].file, KCOV_INIT_TRACE, ENTRIES))
			return false;
		traces[i].entries = mmap(NULL, ENTRIES * sizeof(unsigned long), PROT_READ | PROT_WRITE,
					 MAP_SHARED, traces[i].file, 0);
		if (traces[i].entries == MAP_FAILED)
			return false;
	}
	return true;
}

struct trace *cover_start(unsigned int task)
{
	struct trace *trace = &traces[task];

	if (!shared || ioctl(trace->file, KCOV_ENABLE, KCOV_TRACE_PC))
		return NULL;
	__atomic_store_n(&trace->entries[0], 0, __ATOMIC_RELAXED);
	return trace;
}

static void add(unsigned long address, unsigned int step)
{
	unsigned long offset = address - base;
	uint64_t bit = 1ull << (offset & 63);
	unsigned int n;

	if (offset >= TEXT_BYTES || shared->covered[offset / 64] & bit)
		return;
	if (__atomic_fetch_or(&shared->listed[offset / 64], bit, __ATOMIC_RELAXED) & bit)
		return;
	n = __atomic_fetch_add(&shared->count, 1, __ATOMIC_RELAXED);
	if (n < NEW_EDGES)
		shared->edges[n] = (struct edge){ (uint32_t)offset, step };
}

void cover_collect(struct trace *trace, unsigned int step)
{
	unsigned long count;

	if (!trace)
		return;
	count = __atomic_load_n(&trace->entries[0], __ATOMIC_RELAXED);
	if (count >= ENTRIES)
		count = ENTRIES - 1;
	for (unsigned long i = 1; i <= count; i++)
		add(trace->entries[i], step);
	__atomic_store_n(&trace->entries[0], 0, __ATOMIC_RELAXED);
}

void cover_collect_rest(unsigned int step)
{
	for (int i = 0; shared && i < TASKS && traces[i].entries; i++)
		cover_collect(&traces[i], step);
}

void cover_stop(struct trace *trace)
{
	if (trace)
		ioctl(trace->file, KCOV_DISABLE, 0);
}

unsigned int cover_new(const struct edge **edges)
{
	*edges = shared->edges;
	return shared->count < NEW_EDGES ? shared->count : NEW_EDGES;
}

void cover_take(bool keep)
{
	const struct edge *edges;
	unsigned int count = cover_new(&edges);

	for (unsigned int i = 0; i < count; i++) {
		uint32_t offset = edges[i].offset;

		shared->listed[offset / 64] &= ~(1ull << (offset & 63));
		if (keep)
			shared->covered[offset / 64] |= 1ull << (offset & 63);
	}
	if (keep)
		total += count;
	shared->count = 0;
}

unsigned int cover_total(void)
{
	return total;
}

void cover_dump(FILE *f)
{
	for (uint32_t offset = 0; offset < TEXT_BYTES; offset++)
		if (shared->covered[offset / 64] & 1ull << (offset & 63))
			fprintf(f, "= %#x\n", offset);
}
