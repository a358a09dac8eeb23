// SPDX-License-Identifier: GPL-2.0 OR MIT
/* System calls other than ioctls. They change only memory of the arena. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "describe.h"

#define MAX_FILES 600

static const char *const folders[] = { "/sys/kernel/debug/kfd", "/sys/devices/virtual/kfd",
				       "/sys/bus/pci/drivers/rkfd/0*/" };

static int open_numbered(const char *path)
{
	return open(path, O_RDWR | O_CLOEXEC);
}

static long run_open_kfd(struct task *task, const uint64_t *args)
{
	(void)task;
	(void)args;
	return open_numbered("/dev/kfd");
}

static long run_open_render(struct task *task, const uint64_t *args)
{
	(void)task;
	(void)args;
	return open_numbered("/dev/dri/renderD128");
}

static long run_close(struct task *task, const uint64_t *args)
{
	(void)task;
	/* The files of the fuzzer have higher numbers, and lower ones. */
	return args[0] > 2 && args[0] < 256 ? close((int)args[0]) : -1;
}

static long run_dup(struct task *task, const uint64_t *args)
{
	(void)task;
	return args[0] < 256 ? dup((int)args[0]) : -1;
}

static long run_pipe(struct task *task, const uint64_t *args)
{
	int ends[2];

	(void)task;
	(void)args;
	return pipe2(ends, O_CLOEXEC | O_NONBLOCK) ? -1 : ends[1];
}

static long run_eventfd(struct task *task, const uint64_t *args)
{
	(void)task;
	return eventfd((unsigned int)args[0], EFD_NONBLOCK);
}

static bool in_arena(uint64_t address, uint64_t size)
{
	return address >= ARENA && size <= ARENA_SIZE && address - ARENA <= ARENA_SIZE - size;
}

static long map(const uint64_t *args, int flags, int fd, uint64_t offset)
{
	uint64_t at = args[0] & ~4095ull;
	void *p;

	if (!in_arena(at, (args[1] + 4095) & ~4095ull))
		return -1;
	p = mmap((void *)at, args[1], (int)args[2] & 7, flags | MAP_FIXED, fd, (off_t)offset);
	return p == MAP_FAILED ? -1 : 0;
}

static long run_mmap_file(struct task *task, const uint64_t *args)
{
	(void)task;
	return args[4] < 256 ? map(args, args[3] & 1 ? MAP_PRIVATE : MAP_SHARED, (int)args[4],
				   args[5] & ~4095ull) :
			       -1;
}

static long run_mmap_memory(struct task *task, const uint64_t *args)
{
	int flags = MAP_ANONYMOUS | MAP_NORESERVE | (args[3] & 1 ? MAP_SHARED : MAP_PRIVATE) |
		    (args[3] & 2 ? MAP_POPULATE : 0);

	(void)task;
	return map(args, flags, -1, 0);
}

static long run_munmap(struct task *task, const uint64_t *args)
{
	(void)task;
	return in_arena(args[0], args[1]) ? munmap((void *)args[0], args[1]) : -1;
}

static long run_mprotect(struct task *task, const uint64_t *args)
{
	(void)task;
	return in_arena(args[0], args[1]) ? mprotect((void *)args[0], args[1], (int)args[2] & 7) : -1;
}

static long run_madvise(struct task *task, const uint64_t *args)
{
	(void)task;
	return in_arena(args[0], args[1]) ? madvise((void *)args[0], args[1], (int)args[2]) : -1;
}

static long run_mremap(struct task *task, const uint64_t *args)
{
	(void)task;
	if (!in_arena(args[0], args[1]) || !in_arena(args[2], args[1]))
		return -1;
	return mremap((void *)args[0], args[1], args[1], MREMAP_MAYMOVE | MREMAP_FIXED,
		      (void *)args[2]) == MAP_FAILED ?
		       -1 :
		       0;
}

static long run_store(struct task *task, const uint64_t *args)
{
	volatile uint64_t *p = (void *)(args[0] & ~7ull);

	if (!in_arena(kfd_va((void *)p), 8 * (args[2] & 63) + 8))
		return -1;
	task->may_fault = 1;
	if (sigsetjmp(task->fault, 1))
		return -1;
	for (uint64_t i = 0; i <= (args[2] & 63); i++)
		p[i] = args[1];
	task->may_fault = 0;
	return 0;
}

static long run_load(struct task *task, const uint64_t *args)
{
	volatile uint64_t *p = (void *)(args[0] & ~7ull);

	if (!in_arena(kfd_va((void *)p), 8))
		return -1;
	task->may_fault = 1;
	if (sigsetjmp(task->fault, 1))
		return -1;
	(void)*p;
	task->may_fault = 0;
	return 0;
}

/* Access as by a debugger. */
static long run_poke(struct task *task, const uint64_t *args)
{
	uint64_t word = args[1];
	struct iovec local = { &word, sizeof(word) }, remote = { (void *)args[0], sizeof(word) };
	pid_t pid = task->other ? task->other : getpid();

	return args[2] & 1 ? process_vm_readv(pid, &local, 1, &remote, 1, 0) :
			     process_vm_writev(pid, &local, 1, &remote, 1, 0);
}

/* A signal that interrupts a later call. */
static long run_signal(struct task *task, const uint64_t *args)
{
	struct itimerval timer = { .it_value.tv_usec = (suseconds_t)(args[0] & 31) * 1000 + 1 };

	(void)task;
	return setitimer(ITIMER_REAL, &timer, NULL);
}

static long run_kill(struct task *task, const uint64_t *args)
{
	return task->other ? kill(task->other, args[0] & 1 ? SIGKILL : SIGALRM) : -1;
}

static long run_sleep(struct task *task, const uint64_t *args)
{
	(void)task;
	return usleep((useconds_t)(args[0] & 31) * 1000);
}

static long run_yield(struct task *task, const uint64_t *args)
{
	(void)task;
	(void)args;
	return usleep(200);
}

static bool make_nonblocking(uint64_t fd)
{
	return fd > 2 && fd < 256 && !fcntl((int)fd, F_SETFL, O_NONBLOCK);
}

static long run_read(struct task *task, const uint64_t *args)
{
	return make_nonblocking(args[0]) ? read((int)args[0], task->memory, args[1] & 1023) : -1;
}

static long run_write(struct task *task, const uint64_t *args)
{
	(void)task;
	return make_nonblocking(args[0]) ? write((int)args[0], &args[1], 8) : -1;
}

static long run_poll(struct task *task, const uint64_t *args)
{
	struct pollfd fd = { .fd = (int)args[0], .events = POLLIN | POLLOUT };

	(void)task;
	return poll(&fd, 1, (int)args[1] & 15);
}

static long run_lseek(struct task *task, const uint64_t *args)
{
	(void)task;
	return args[0] > 2 && args[0] < 256 ? lseek((int)args[0], (off_t)args[1], args[2] & 3) : -1;
}

static long run_ptrace(struct task *task, const uint64_t *args)
{
	static const long requests[] = { PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, PTRACE_CONT,
					 PTRACE_ATTACH };

	return task->other ? ptrace(requests[args[0] % 5], task->other, 0, 0) : -1;
}

static char *files[MAX_FILES];
static unsigned int files_count;

void files_init(void)
{
	for (size_t i = 0; i < COUNT_OF(folders); i++) {
		char command[128], line[512];
		FILE *f;

		snprintf(command, sizeof(command), "find %s -type f", folders[i]);
		f = popen(command, "r");
		while (f && fgets(line, sizeof(line), f) && files_count < MAX_FILES) {
			line[strcspn(line, "\n")] = 0;
			files[files_count++] = strdup(line);
		}
		if (f)
			pclose(f);
	}
}

static long read_all(const char *path)
{
	char buffer[4096];
	long total = 0, got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (total < (1 << 18) && (got = read(fd, buffer, sizeof(buffer))) > 0)
		total += got;
	close(fd);
	return total;
}

/* Reads a file of debugfs, of the topology, or of the device. */
static long run_read_file(struct task *task, const uint64_t *args)
{
	(void)task;
	return files_count ? read_all(files[args[0] % files_count]) : -1;
}

static long run_read_fdinfo(struct task *task, const uint64_t *args)
{
	char path[64];

	(void)task;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", (int)args[0]);
	return read_all(path);
}

static long run_leave(struct task *task, const uint64_t *args)
{
	(void)args;
	task->leaves = true;
	return 0;
}

/* Replaces the process, which keeps no address space of the driver. */
static long run_exec(struct task *task, const uint64_t *args)
{
	(void)task;
	(void)args;
	return execl("/proc/self/exe", "fuzz-cover", "--nothing", (char *)NULL);
}

#define CALL(n, f, w) .name = n, .run = f, .weight = w
#define INPUT(...) { .name = "args", .count = 1, .size = 8, FIELDS(__VA_ARGS__) }
#define ADDRESS(n) NUMBER(n, 8, .type = ADDR)
#define BYTES NUMBER("size", 8, .type = SIZE)
#define SELECT(n, ...)                                                          \
	NUMBER(n, 8, .type = ONE, .choices = (const uint64_t[]){ __VA_ARGS__ }, \
	       .choices_count = COUNT_OF(((const uint64_t[]){ __VA_ARGS__ })))
#define READS_REGISTER(n, k) NUMBER(n, 8, .type = RES, .of = k)
#define STORES_RESULT(k) NUMBER("out", 8, .type = OUT, .of = k)
#define NONE NUMBER("none", 8, .type = ANY)

const struct call sys_calls[] = {
	{ CALL("open_kfd", run_open_kfd, 4), .blocks = { INPUT(STORES_RESULT(KFD_FILE)) } },
	{ CALL("open_render", run_open_render, 4), .blocks = { INPUT(STORES_RESULT(DRM_FILE)) } },
	{ CALL("close_kfd", run_close, 3), .blocks = { INPUT(READS_REGISTER("fd", KFD_FILE)) } },
	{ CALL("close_render", run_close, 3), .blocks = { INPUT(READS_REGISTER("fd", DRM_FILE)) } },
	{ CALL("close", run_close, 6), .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE)) } },
	{ CALL("dup_render", run_dup, 1),
	  .blocks = { INPUT(READS_REGISTER("fd", DRM_FILE), STORES_RESULT(DRM_FILE)) } },
	{ CALL("dup", run_dup, 1),
	  .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE), STORES_RESULT(OTHER_FILE)) } },
	{ CALL("pipe", run_pipe, 2), .blocks = { INPUT(STORES_RESULT(OTHER_FILE)) } },
	{ CALL("eventfd", run_eventfd, 1),
	  .blocks = { INPUT(SELECT("count", 0, 1), STORES_RESULT(OTHER_FILE)) } },
	{ CALL("mmap_kfd", run_mmap_file, 8),
	  .blocks = { INPUT(ADDRESS("at"), BYTES, SELECT("prot", 0, 1, 2, 3, 4, 7),
			    SELECT("private", 0, 1), READS_REGISTER("fd", KFD_FILE),
			    READS_REGISTER("offset", OFFSET)) } },
	{ CALL("mmap_render", run_mmap_file, 12),
	  .blocks = { INPUT(ADDRESS("at"), BYTES, SELECT("prot", 0, 1, 2, 3, 4, 7),
			    SELECT("private", 0, 1), READS_REGISTER("fd", DRM_FILE),
			    READS_REGISTER("offset", OFFSET)) } },
	{ CALL("mmap_memory", run_mmap_memory, 6),
	  .blocks = { INPUT(ADDRESS("at"), BYTES, SELECT("prot", 0, 1, 2, 3, 4, 7),
			    SELECT("flags", 0, 1, 2, 3)) } },
	{ CALL("munmap", run_munmap, 6), .blocks = { INPUT(ADDRESS("at"), BYTES) } },
	{ CALL("mprotect", run_mprotect, 4),
	  .blocks = { INPUT(ADDRESS("at"), BYTES, SELECT("prot", 0, 1, 3, 7)) } },
	{ CALL("madvise", run_madvise, 4),
	  .blocks = { INPUT(ADDRESS("at"), BYTES,
			    SELECT("advice", MADV_DONTNEED, MADV_PAGEOUT, MADV_COLD, MADV_HUGEPAGE,
				   MADV_NOHUGEPAGE, MADV_DONTFORK, MADV_WIPEONFORK, MADV_COLLAPSE,
				   MADV_POPULATE_WRITE, MADV_FREE)) } },
	{ CALL("mremap", run_mremap, 4), .blocks = { INPUT(ADDRESS("at"), BYTES, ADDRESS("to")) } },
	{ CALL("store", run_store, 15),
	  .blocks = { INPUT(ADDRESS("at"), NUMBER("value", 8, .type = ADDR),
			    SELECT("repeats", 0, 1, 7, 63)) } },
	{ CALL("load", run_load, 4), .blocks = { INPUT(ADDRESS("at")) } },
	{ CALL("poke", run_poke, 3),
	  .blocks = { INPUT(ADDRESS("at"), NUMBER("value", 8, .type = ANY), SELECT("read", 0, 1)) } },
	{ CALL("signal", run_signal, 4), .blocks = { INPUT(NUMBER("ms", 8, .type = MS)) } },
	{ CALL("kill", run_kill, 2), .blocks = { INPUT(SELECT("final", 0, 1)) } },
	{ CALL("sleep", run_sleep, 2), .blocks = { INPUT(NUMBER("ms", 8, .type = MS)) } },
	{ CALL("yield", run_yield, 1), .blocks = { INPUT(NONE) } },
	{ CALL("read", run_read, 4),
	  .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE), SELECT("size", 1023, 8, 1, 0)) } },
	{ CALL("write", run_write, 4),
	  .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE),
			    SELECT("value", ~0ull, 0, 1, 0xfff, 1ull << 63)) } },
	{ CALL("poll", run_poll, 3),
	  .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE), NUMBER("ms", 8, .type = MS)) } },
	{ CALL("lseek", run_lseek, 2),
	  .blocks = { INPUT(READS_REGISTER("fd", OTHER_FILE), SELECT("to", 0, 4096, -1ull),
			    SELECT("whence", 0, 1, 2)) } },
	{ CALL("ptrace", run_ptrace, 4), .blocks = { INPUT(SELECT("request", 0, 1, 2, 3, 4)) } },
	{ CALL("read_file", run_read_file, 4), .blocks = { INPUT(NUMBER("number", 8, .type = ANY)) } },
	{ CALL("read_fdinfo", run_read_fdinfo, 3),
	  .blocks = { INPUT(READS_REGISTER("fd", DRM_FILE)) } },
	/* A fault of the GPU model, by its number in inject.c. */
	{ CALL("inject", run_inject, 3),
	  .blocks = { INPUT(SELECT("fault", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
			    SELECT("value", 1, 2, 3, 20)) } },
	/* The next call of the task has one allocation less. */
	{ CALL("fail", run_fail, 40),
	  .blocks = { INPUT(SELECT("nth", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 24, 29, 35,
				   42, 50, 60)) } },
	/* A test, by the numbers of its program in test.c and in the program. */
	{ CALL("test", run_test, 0),
	  .blocks = { INPUT(NUMBER("program", 8, .type = ANY), NUMBER("test", 8, .type = ANY),
			    NUMBER("seed", 8, .type = ANY)) } },
	{ CALL("leave", run_leave, 1), .blocks = { INPUT(NONE) } },
	{ CALL("exec", run_exec, 1), .blocks = { INPUT(NONE) } },
	{ 0 },
};
