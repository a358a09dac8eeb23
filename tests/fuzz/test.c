// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A test of tests/kselftest as a call of a program. Its own calls are changed at random
 * (tests/workloads/mutate.c), and its result does not matter.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "describe.h"

/*
 * New ones at the end: programs of the fuzzer have their numbers. None that changes the device,
 * uses up the memory of the machine, or injects faults.
 */
static const char *const names[] = {
	"topology",	 "monitor",    "power",	     "render",	      "cs",	     "cs-sync",
	"cs-limits",	 "apertures",  "clock",	     "policy",	      "memory",	     "limits",
	"vram",		 "userptr",    "dmabuf",     "dmabuf-share",  "events",	     "smi",
	"queues",	 "cu-mask",    "gws",	     "sdma-copy",     "selfring",    "mappings",
	"processes",	 "namespaces", "contexts",   "profiler",      "compute",     "isolation",
	"observe",	 "cwsr",       "debug",	     "debug-waves",   "fair",	     "death",
	"userptr-load",	 "races",      "stress",     "userq",	      "userq-sync",  "faults",
	"exceptions",	 "sdma-faults", "cs-faults", "userptr-faults", "drm-faults", "debug-faults",
	"svm-attrs",	 "svm",	       "svm-migrate", "svm-retry",    "mes",	     "isolate",
	"evict",	 "drm-fdinfo", "drm-memory", "debug-kill",    "coherence",   "userq-vram",
};

unsigned int tests_count(void)
{
	return COUNT_OF(names);
}

static void exec_test(const struct task *task, const uint64_t *args)
{
	int null = open("/dev/null", O_RDWR);
	const char *name = names[args[0] % COUNT_OF(names)];
	char seed[32], test[32];

	for (int file = 0; file < 3; file++)
		dup2(null, file);
	snprintf(test, sizeof(test), "%u", (unsigned int)args[1]);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)args[2]);
	setenv("KFD_MUTATE", seed, 1);
	setenv("KTAP_REPEATS", "0", 1);
	unsetenv("MODEL_CONTROL");
	cover_pass(task->step);
	execlp(name, name, "-n", test, (char *)NULL);
	_exit(127);
}

long run_test(struct task *task, const uint64_t *args)
{
	pid_t child = fork();
	int status;

	if (!child)
		exec_test(task, args);
	/* A signal of the program may interrupt the wait: the test goes on. */
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status ? -1 : 0;
}

bool has_test(const struct program *p)
{
	for (unsigned int i = 0; i < p->count; i++)
		if (calls[p->steps[i].call]->run == run_test)
			return true;
	return false;
}
