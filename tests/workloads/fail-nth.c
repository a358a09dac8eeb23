// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * With $KFD_FAIL_NTH the memory allocations of a call fail: all from the first on, then all from
 * the second on, and so on, each time with the arguments of the caller, until it succeeds, or fails
 * with memory, too. A call without memory must fail with ENOMEM, and not change what the last one
 * returns, nor the objects of the process that rkfd shows in debugfs and fdinfo. Needs a kernel
 * with fault injection (KERNEL=debug), which tests/kselftest/fail-nth.sh enables.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call.h"
#include "fail-one.h"
#include "kfd.h"

/* Up to this one, each allocation fails; then about 8 of each octave, for calls with many. */
#define EACH 512u
/* Different errnos of a call without memory that are judged, more than any call may return. */
#define ERRNOS 8
/* Size of the text with the state of a process, and the time for work to end that changes it. */
#define STATE 4096
#define SETTLE_MS 2000

bool is_failing(void)
{
	static int enabled = -1;

	if (enabled < 0)
		enabled = getenv("KFD_FAIL_NTH") != NULL;
	return enabled;
}

/* The files of this task in /proc that inject failures, -1 if they cannot be opened. */
struct injection {
	/* Fails the N-th allocation that is to come. */
	int nth;
	/* Fails all of a task with 1 here, from the end of `nth` on. */
	int all;
};

/* Makes all allocations of this task fail, from the `nth` from now on. */
static void inject(const struct injection *i, unsigned int nth)
{
	write_number(i->nth, nth);
	write_number(i->all, 1);
}

/* Ends inject(). Returns whether an allocation has failed. */
static bool end_injection(const struct injection *i)
{
	write_number(i->all, 0);
	return end_nth(i->nth);
}

/* Appends the file to `state`. Appends nothing if it does not exist. */
__attribute__((format(printf, 2, 3))) static void append_file(char *state, const char *format, ...)
{
	size_t length = strlen(state);
	char path[128];
	va_list args;
	ssize_t n;
	int file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return;
	while ((n = read(file, state + length, STATE - 1 - length)) > 0)
		length += (size_t)n;
	state[length] = 0;
	close(file);
}

/* Removes the lines of fdinfo that do not count memory. */
static void keep_memory(char *fdinfo)
{
	char *to = fdinfo;

	for (char *line = fdinfo; *line;) {
		size_t length = strcspn(line, "\n") + 1;

		if (!line[length - 1])
			break;
		if (!strncmp(line, "drm-total-", 10)) {
			memmove(to, line, length);
			to += length;
		}
		line += length;
	}
	*to = 0;
}

/*
 * Reads the objects of the process, and the memory of the render node's file that is called; empty
 * in a process with threads, which may change them.
 */
static void read_state(const struct call *call, char *state)
{
	struct stat task;
	char *fdinfo;

	state[0] = 0;
	if (stat("/proc/self/task", &task) || task.st_nlink != 2 + 1)
		return;
	append_file(state, "/sys/kernel/debug/kfd/process/%d/resources", getpid());
	fdinfo = state + strlen(state);
	if (call->run != run_ioctl || _IOC_TYPE(call->request) != 'd')
		return;
	append_file(state, "/proc/self/fdinfo/%d", call->fd);
	keep_memory(fdinfo);
}

/* Ends the process if the state is not `before`, to which deferred work may return it. */
static void expect_state(const struct call *call, const char *before, unsigned int nth)
{
	char now[STATE];

	/* Workers go on meanwhile, those that split ranges of SVM for example. */
	if (call->request == AMDKFD_IOC_WAIT_EVENTS)
		return;
	/* As in the C driver, SET_ATTR keeps attributes of memory that it cannot map. */
	if (_IOC_NR(call->request) == _IOC_NR(AMDKFD_IOC_SVM))
		return;
	/* The process had threads, which have ended. */
	if (!before[0])
		return;
	for (int ms = 0; ms < SETTLE_MS; ms += 10) {
		read_state(call, now);
		if (!strcmp(before, now))
			return;
		usleep(10000);
	}
	fprintf(stderr, "# fail-nth: call %#lx without its allocation %u changed\n%sto\n%s",
		call->request, nth, before, now);
	abort();
}

/* Errnos of a call other than ENOMEM, each with the first allocation that it lacked. */
struct errnos {
	unsigned int count;
	struct {
		int ret;
		unsigned int nth;
	} of[ERRNOS];
};

/* Adds an errno. */
static void note_errno(struct errnos *errnos, int ret, unsigned int nth)
{
	for (unsigned int i = 0; i < errnos->count; i++)
		if (errnos->of[i].ret == ret)
			return;
	if (errnos->count == ERRNOS)
		return;
	errnos->of[errnos->count].ret = ret;
	errnos->of[errnos->count++].nth = nth;
}

/* Ends the process if a call may not return `ret` without memory; `last` is the result with it. */
static void expect_errno(const struct call *call, int ret, int last, unsigned int nth)
{
	if (ret == -ENOMEM || ret == last)
		return;
	/* As the C driver, which takes no handle for the reason (idr_alloc()). */
	if (ret == -EFAULT && (call->request == AMDKFD_IOC_ALLOC_MEMORY_OF_GPU ||
			       call->request == AMDKFD_IOC_IMPORT_DMABUF))
		return;
	fprintf(stderr, "# fail-nth: call %#lx without its allocation %u: %d, not %d or %d\n",
		call->request, nth, ret, -ENOMEM, last);
	abort();
}

/* Whether a wait has ended for a reason that does not come again for its repetition. */
static bool has_waited(const struct call *call, int ret)
{
	if (call->request == AMDKFD_IOC_RUNTIME_ENABLE)
		return ret == -EINTR;
	return call->request == AMDKFD_IOC_WAIT_EVENTS && (ret == -EINTR || ret == -EIO);
}

int run_with_failures(struct call *call)
{
	struct injection injection = { open_high("/proc/thread-self/fail-nth"),
				       open_high("/proc/thread-self/make-it-fail") };
	struct errnos errnos = { 0 };
	char before[STATE];
	unsigned int nth;
	int ret;

	/* A test has used up the descriptors. */
	if (injection.nth < 0 || injection.all < 0) {
		close(injection.nth);
		close(injection.all);
		return call->run(call);
	}
	read_state(call, before);
	for (nth = 1;; nth += nth < EACH ? 1 : nth / 8) {
		/* This also makes the page writable: a page fault is repeated without memory. */
		if (call->saved_args)
			memcpy(call->args, call->saved_args, _IOC_SIZE(call->request));
		inject(&injection, nth);
		ret = call->run(call);
		if (!end_injection(&injection) || ret >= 0 || has_waited(call, ret))
			break;
		if (ret == -ENOMEM)
			expect_state(call, before, nth);
		else
			note_errno(&errnos, ret, nth);
	}
	for (unsigned int i = 0; i < errnos.count; i++)
		expect_errno(call, errnos.of[i].ret, ret, errnos.of[i].nth);
	close(injection.nth);
	close(injection.all);
	return ret;
}

/*
 * Fails in a child: a process that is created with little memory lacks files in debugfs. The child
 * sends no SIGCHLD, by which a process stops that is traced.
 */
int open_with_failures(struct call *call)
{
	pid_t child = (pid_t)syscall(SYS_clone, 0ul, NULL, NULL, NULL, 0ul);
	int status = 0;

	if (child == 0) {
		run_with_failures(call);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, __WALL) != child || status)
		abort();
	return call->run(call);
}
