// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KTAP test runner. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../workloads/cover.h"
#include "../workloads/reports.h"
#include "ktap.h"

#define EXIT_FAILED 1
#define EXIT_SKIPPED 4
#define MAX_TOLD 12

extern const struct ktap_test __start_ktap_tests[], __stop_ktap_tests[];

struct shared {
	unsigned int failures;
	char reason[256];
};

static struct shared *shared;
/* Failures of this process if it is one of ktap_in_child(), which has begun with none. */
static unsigned int own_failures;
static bool in_child;
static int kmsg = -1;

const char *ktap_errno_name(long ret)
{
	static char text[32];
	const char *name;

	if (ret >= 0) {
		snprintf(text, sizeof(text), "%ld", ret);
		return text;
	}
	if (ret == -ENOTSUPP)
		return "ENOTSUPP";
	name = strerrorname_np((int)-ret);
	if (name)
		return name;
	snprintf(text, sizeof(text), "%ld", ret);
	return text;
}

void ktap_failed(const char *file, int line, const char *what, const char *more, ...)
{
	char text[512];
	va_list list;

	__atomic_fetch_add(&own_failures, 1, __ATOMIC_RELAXED);
	/* Limit the output: more failures add no information. */
	if (__atomic_fetch_add(&shared->failures, 1, __ATOMIC_RELAXED) >= MAX_TOLD)
		return;
	va_start(list, more);
	vsnprintf(text, sizeof(text), more, list);
	va_end(list);
	printf("# %s:%d: failed: %s%s%s\n", file, line, what, text[0] ? ": " : "", text);
	fflush(stdout);
}

bool ktap_expect_ret(const char *file, int line, const char *call, long got, long wanted)
{
	char name[32];

	if (got == wanted)
		return true;
	snprintf(name, sizeof(name), "%s", ktap_errno_name(wanted));
	ktap_failed(file, line, call, "expected %s, got %s", name, ktap_errno_name(got));
	return false;
}

bool ktap_expect_eq(const char *file, int line, const char *a, uint64_t x, const char *b, uint64_t y)
{
	if (x == y)
		return true;
	ktap_failed(file, line, a, "expected %s = %#llx, got %#llx", b, (unsigned long long)y, (unsigned long long)x);
	return false;
}

/* Ends the process, with `status` if nothing has failed. */
__attribute__((noreturn)) static void end_process(int status)
{
	fflush(stdout);
	cover_collect_own(cover_own());
	_exit(ktap_failures() ? EXIT_FAILED : status);
}

void ktap_end(void)
{
	end_process(0);
}

void ktap_skip(const char *reason, ...)
{
	va_list list;

	va_start(list, reason);
	vsnprintf(shared->reason, sizeof(shared->reason), reason, list);
	va_end(list);
	end_process(EXIT_SKIPPED);
}

void ktap_note(const char *text, ...)
{
	va_list list;

	fputs("# ", stdout);
	va_start(list, text);
	vprintf(text, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

int ktap_in_child(void (*fn)(void *), void *data)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		in_child = true;
		own_failures = 0;
		fn(data);
		ktap_end();
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFSIGNALED(status)) {
		ktap_note("failed: a child died of signal %d", WTERMSIG(status));
		return -EIO;
	}
	return WEXITSTATUS(status);
}

unsigned int ktap_failures(void)
{
	return in_child ? own_failures : shared->failures;
}

void ktap_detach(void)
{
	static struct shared own;

	shared = &own;
	own_failures = 0;
	in_child = true;
}

/* Reads the kernel log since the last call; prints and counts complaints. */
static unsigned int kernel_complaints(void)
{
	const char *text, *mark;
	unsigned int found = 0;
	char line[8192];
	ssize_t n;

	while ((n = read(kmsg, line, sizeof(line) - 1)) > 0 || errno == EPIPE) {
		/* Records were overwritten: the boot's console still has them. */
		if (n <= 0) {
			printf("# records of the kernel log were lost\n");
			errno = 0;
			continue;
		}
		line[n] = 0;
		text = strchr(line, ';');
		mark = text ? kernel_report(text) : NULL;
		/* An allocation that was made to fail warns with a trace. */
		if (!mark || (!strcmp(mark, REPORT_TRACE) && getenv("KFD_FAIL_NTH")))
			continue;
		if (found++ < 8)
			printf("# failed: the kernel says: %.*s\n", (int)strcspn(text + 1, "\n"), text + 1);
	}
	return found;
}

double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits for a child; kills its process group on a timeout. */
static int wait_for(pid_t child, unsigned int seconds, bool *late)
{
	double end = seconds_now() + seconds;
	useconds_t pause = 500;
	int status = 0;

	*late = false;
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (seconds_now() > end && !*late) {
			*late = true;
			kill(-child, SIGKILL);
			kill(child, SIGKILL);
			end += 30;
		} else if (seconds_now() > end) {
			printf("# failed: process %d does not die\n", child);
			return SIGKILL;
		}
		usleep(pause);
		if (pause < 20000)
			pause += pause / 4;
	}
	kill(-child, SIGKILL);
	return status;
}

bool ktap_is_rkfd(void)
{
	return access("/sys/module/rkfd", F_OK) == 0;
}

unsigned int ktap_time_factor(void)
{
	const char *factor = getenv("KTAP_TIME_FACTOR");
	int n = factor ? atoi(factor) : 1;

	return n > 0 ? (unsigned int)n : 1;
}

unsigned int ktap_repeats(unsigned int all, unsigned int least)
{
	const char *percent = getenv("KTAP_REPEATS");
	unsigned long n = percent ? all * strtoul(percent, NULL, 10) / 100 : all;

	return n > least ? (unsigned int)n : least;
}

/* Runs one test. Returns 0 (passed), EXIT_SKIPPED or EXIT_FAILED. */
static int run_one(const struct ktap_test *test)
{
	unsigned int seconds = test->seconds * ktap_time_factor();
	bool late;
	int status;
	pid_t child;

	memset(shared, 0, sizeof(*shared));
	fflush(stdout);
	child = fork();
	if (child < 0)
		return EXIT_FAILED;
	if (!child) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cover_own();
		test->run();
		ktap_end();
	}
	setpgid(child, child);
	status = wait_for(child, seconds, &late);
	if (late)
		printf("# failed: not done after %u s\n", seconds);
	else if (WIFSIGNALED(status))
		printf("# failed: died of signal %d\n", WTERMSIG(status));
	if (kernel_complaints() || late || WIFSIGNALED(status) || shared->failures)
		return EXIT_FAILED;
	return WEXITSTATUS(status);
}

static bool wanted(const struct ktap_test *test, int argc, char **argv)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], test->name))
			return true;
	return false;
}

/*
 * Looks up a test in the list of $KTAP_DIFFER (DRIVER PROGRAM.TEST REASON, DRIVER being $DRIVER):
 * tests that cannot be the same on this driver. Copies the reason to shared->reason.
 */
static bool differs(const char *program, const char *test)
{
	const char *list = getenv("KTAP_DIFFER"), *driver = getenv("DRIVER");
	char line[512], name[160], *at;
	bool found = false;
	FILE *f;

	if (!list || !driver)
		return false;
	f = fopen(list, "re");
	if (!f)
		return false;
	snprintf(name, sizeof(name), "%s.%s", program, test);
	while (!found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		at = line;
		if (strcmp(strsep(&at, " "), driver) || !at || strcmp(strsep(&at, " "), name) || !at)
			continue;
		snprintf(shared->reason, sizeof(shared->reason), "%s", at + strspn(at, " "));
		found = true;
	}
	fclose(f);
	return found;
}

int ktap_main(int argc, char **argv)
{
	unsigned int number = 0, count = 0, failed = 0;
	const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		for (const struct ktap_test *t = __start_ktap_tests; t < __stop_ktap_tests; t++)
			puts(t->name);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "-n")) {
		unsigned long tests = (unsigned long)(__stop_ktap_tests - __start_ktap_tests);

		argc = 2;
		argv[1] = (char *)__start_ktap_tests[strtoul(argv[2], NULL, 10) % tests].name;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0 || lseek(kmsg, 0, SEEK_END) < 0) {
		printf("Bail out! /dev/kmsg: %s\n", strerror(errno));
		return 1;
	}
	for (const struct ktap_test *t = __start_ktap_tests; t < __stop_ktap_tests; t++)
		count += wanted(t, argc, argv);
	printf("KTAP version 1\n1..%u\n", count);
	for (const struct ktap_test *t = __start_ktap_tests; t < __stop_ktap_tests; t++) {
		struct timespec start, end;
		double seconds;
		int result;

		if (!wanted(t, argc, argv))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		result = differs(program, t->name) ? EXIT_SKIPPED : run_one(t);
		clock_gettime(CLOCK_MONOTONIC, &end);
		seconds = (double)(end.tv_sec - start.tv_sec) +
			  (double)(end.tv_nsec - start.tv_nsec) / 1e9;
		number++;
		if (result == EXIT_SKIPPED) {
			printf("ok %u %s.%s # SKIP %s\n", number, program, t->name, shared->reason);
		} else if (result) {
			printf("not ok %u %s.%s\n", number, program, t->name);
			failed++;
		} else {
			printf("ok %u %s.%s\n", number, program, t->name);
		}
		if (seconds >= 1)
			ktap_note("took %.1f s", seconds);
		fflush(stdout);
	}
	return failed ? 1 : 0;
}

__attribute__((weak)) int main(int argc, char **argv)
{
	return ktap_main(argc, argv);
}
