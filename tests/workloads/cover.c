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

#include "cover.h"

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
	/* Of a thread's own trace: the process that opened it. */
	pid_t owner;
	/* -1: KCOV cannot be used. */
	int file;
	unsigned long *entries;
};

/* Shared with the tasks of programs, by a file without a name. */
struct shared {
	/* A bit per offset: covered, and in the list of new edges. */
	uint64_t covered[TEXT_BYTES / 64], listed[TEXT_BYTES / 64];
	unsigned int count;
	struct edge edges[NEW_EDGES];
};

static struct trace *traces;
static unsigned int traces_count;
static struct shared *shared;
static int shared_file;
static unsigned long base;
static unsigned int total;
/* The step of this process in $KFD_COVER. */
static unsigned int own_step;

/* The address of the module's text, of which section .text is the beginning. */
static bool read_base(void)
{
	FILE *f = fopen("/sys/module/rkfd/sections/.text", "re");
	bool found = f && fscanf(f, "%lx", &base) == 1 && base;

	if (f)
		fclose(f);
	return found;
}

static int above(int low, int command)
{
	int high = fcntl(low, command, LOWEST_FILE);

	close(low);
	return high;
}

static bool map_shared(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_file, 0);
	if (shared == MAP_FAILED)
		shared = NULL;
	return shared;
}

static bool open_trace(struct trace *trace)
{
	trace->file = above(open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC);
	if (trace->file < 0 || ioctl(trace->file, KCOV_INIT_TRACE, ENTRIES))
		return false;
	trace->entries = mmap(NULL, ENTRIES * sizeof(unsigned long), PROT_READ | PROT_WRITE, MAP_SHARED,
			      trace->file, 0);
	return trace->entries != MAP_FAILED;
}

static bool start(struct trace *trace)
{
	if (ioctl(trace->file, KCOV_ENABLE, KCOV_TRACE_PC))
		return false;
	__atomic_store_n(&trace->entries[0], 0, __ATOMIC_RELAXED);
	return true;
}

bool cover_init(unsigned int tasks)
{
	shared_file = above(memfd_create("cover", 0), F_DUPFD);
	if (ftruncate(shared_file, sizeof(*shared)) || !map_shared() || !read_base())
		return false;
	traces = calloc(tasks, sizeof(*traces));
	if (!traces)
		return false;
	for (; traces_count < tasks; traces_count++)
		if (!open_trace(&traces[traces_count]))
			return false;
	return true;
}

struct trace *cover_start(unsigned int task)
{
	return task < traces_count && start(&traces[task]) ? &traces[task] : NULL;
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
	for (unsigned int i = 0; i < traces_count; i++)
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
			fprintf(f, "~ %#x\n", offset);
}

void cover_pass(unsigned int step)
{
	char text[64];

	if (!traces_count)
		return;
	snprintf(text, sizeof(text), "%d %lx %u", shared_file, base, step);
	setenv("KFD_COVER", text, 1);
}

/* Maps what the fuzzer shares. Returns whether there is such. */
static bool attach(void)
{
	static int attached = -1;
	const char *text;

	if (attached >= 0)
		return attached;
	text = getenv("KFD_COVER");
	attached = text && sscanf(text, "%d %lx %u", &shared_file, &base, &own_step) == 3 && map_shared();
	return attached;
}

struct trace *cover_own(void)
{
	static __thread struct trace own;
	pid_t process;

	if (!attach())
		return NULL;
	process = getpid();
	if (own.owner == process)
		return own.file < 0 ? NULL : &own;
	/* That of the parent is not recorded here. */
	if (own.owner && own.file >= 0) {
		munmap(own.entries, ENTRIES * sizeof(unsigned long));
		close(own.file);
	}
	own.owner = process;
	if (!open_trace(&own) || !start(&own)) {
		close(own.file);
		own.file = -1;
		return NULL;
	}
	return &own;
}

void cover_collect_own(struct trace *trace)
{
	cover_collect(trace, own_step);
}
