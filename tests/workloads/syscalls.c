// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The parent seizes the child on request and stops it at every system call. Two calls of getsid()
 * with invalid arguments mark start and end of the count.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syscalls.h"

#define MARK_START ((uint64_t)-0x5246ll)
#define MARK_STOP ((uint64_t)-0x5247ll)

static int to_parent[2], to_child[2];

static void count_call(struct syscall_table *table, uint64_t number, uint64_t request)
{
	uint32_t i;

	/* Only ioctl needs the argument. */
	if (number != SYS_ioctl)
		request = 0;
	for (i = 0; i < table->used; i++)
		if (table->entry[i].number == number && table->entry[i].request == request)
			break;
	if (i == SYSCALLS_MAX)
		return;
	if (i == table->used)
		table->used++;
	table->entry[i].number = number;
	table->entry[i].request = request;
	table->entry[i].times++;
}

/* Handles one stop of the child. Returns 1 when tracing is over. */
static int one_stop(pid_t child, int status, struct syscall_table *table, int *counting)
{
	struct __ptrace_syscall_info info;
	int signal = WSTOPSIG(status);

	if (signal != (SIGTRAP | 0x80)) {
		/* Group stops and PTRACE_INTERRUPT carry no signal for the child. */
		ptrace(PTRACE_SYSCALL, child, 0, status >> 16 ? 0 : signal);
		return 0;
	}
	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0 &&
	    info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		if (info.entry.nr == SYS_getsid && info.entry.args[0] == MARK_START) {
			*counting = 1;
		} else if (info.entry.nr == SYS_getsid && info.entry.args[0] == MARK_STOP) {
			table->complete = *counting;
			ptrace(PTRACE_DETACH, child, 0, 0);
			return 1;
		} else if (*counting) {
			count_call(table, info.entry.nr, info.entry.args[1]);
		}
	}
	ptrace(PTRACE_SYSCALL, child, 0, 0);
	return 0;
}

static void trace(pid_t child, struct syscall_table *table)
{
	int status, counting = 0;
	char c = 's';

	if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_INTERRUPT, child, 0, 0)) {
		c = 'f';
	} else if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		ptrace(PTRACE_SYSCALL, child, 0, 0);
	}
	if (write(to_child[1], &c, 1) != 1 || c == 'f')
		return;
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
		if (one_stop(child, status, table, &counting))
			break;
}

int syscalls_run(int (*body)(struct syscall_table *table))
{
	struct syscall_table *table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	char c;
	pid_t child;

	if (table == MAP_FAILED || pipe(to_parent) || pipe(to_child))
		return 1;
	fflush(NULL);
	child = fork();
	if (child < 0)
		return 1;
	if (!child) {
		int ret;

		close(to_parent[0]);
		close(to_child[1]);
		ret = body(table);
		fflush(NULL);
		_exit(ret);
	}
	close(to_parent[1]);
	close(to_child[0]);
	if (read(to_parent[0], &c, 1) == 1)
		trace(child, table);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "the traced program died of signal %d\n", WTERMSIG(status));
		return 1;
	}
	return WEXITSTATUS(status);
}

int syscalls_start(void)
{
	char c = 'r';

	if (write(to_parent[1], &c, 1) != 1 || read(to_child[0], &c, 1) != 1)
		return -EPIPE;
	if (c != 's')
		return -EPERM;
	/* Fails with ESRCH: only the tracer needs to see it. */
	syscall(SYS_getsid, MARK_START);
	return 0;
}

int syscalls_stop(void)
{
	syscall(SYS_getsid, MARK_STOP);
	return 0;
}
