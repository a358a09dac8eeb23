// SPDX-License-Identifier: GPL-2.0 OR MIT
/* See cases.h. */
#include "cases.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program_name, *case_name;
static unsigned int number, failures;

void case_failed(const char *text, ...)
{
	va_list args;

	failures++;
	printf("# failed: ");
	va_start(args, text);
	vprintf(text, args);
	va_end(args);
	printf("\n");
}

void case_abort(const char *call, const char *error)
{
	printf("# failed: %s: %s\nnot ok %u %s.%s\n", call, error, number, program_name, case_name);
	fflush(stdout);
	_exit(1);
}

void case_check(int status, const char *call)
{
	char text[32];

	if (!status)
		return;
	snprintf(text, sizeof(text), "status %d", status);
	case_abort(call, text);
}

static void late(int signal)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "# failed: not done in time\nnot ok %u %s.%s\n", number, program_name,
			 case_name);

	(void)signal;
	(void)!write(1, text, (size_t)n);
	_exit(1);
}

/* That of ktap.c would link its harness, which needs TESTs. */
static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int cases_main(int argc, char **argv, const char *program, const struct one_case *cases, unsigned int count,
	       unsigned int seconds)
{
	unsigned int chosen = 0, bad = 0;

	program_name = program;
	for (unsigned int i = 0; i < count; i++)
		chosen += wanted(cases[i].name, argc, argv);
	if (!chosen) {
		fprintf(stderr, "usage: %s [CASE...]\n", program);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGALRM, late);
	printf("KTAP version 1\n1..%u\n", chosen);
	for (unsigned int i = 0; i < count; i++) {
		double start = seconds_now();

		if (!wanted(cases[i].name, argc, argv))
			continue;
		number++;
		case_name = cases[i].name;
		failures = 0;
		alarm(seconds);
		cases[i].run();
		alarm(0);
		printf("# %s took %.1f s\n", case_name, seconds_now() - start);
		printf("%s %u %s.%s\n", failures ? "not ok" : "ok", number, program, case_name);
		bad += failures != 0;
	}
	return bad != 0;
}
