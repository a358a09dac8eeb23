// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the HIP features that depend on the driver, in KTAP. Without arguments runs all cases at
 * full size but those of shared memory, which run by name; arguments name cases, -l lists them, -s
 * BYTES limits the largest copy. The cases are in hiptest/.
 */
#include "hiptest/hiptest.h"

#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

#define MAX_TOLD 12

struct Case {
	const char *name;
	void (*run)();
	unsigned int seconds;
	bool by_name;
};

#define CASE(name) { #name, name, 120, false }
#define LONG_CASE(name) { #name, name, 600, false }
#define NAMED_CASE(name) { #name, name, 600, true }
static const Case cases[] = {
	LONG_CASE(lds),
	CASE(dynamic_lds),
	CASE(atomics),
	CASE(atomics_lds),
	CASE(atomics_host),
	CASE(divergence),
	CASE(grid3d),
	CASE(last_block),
	CASE(scratch),
	CASE(scratch_streams),
	CASE(registers),
	CASE(calls),
	CASE(waves),
	CASE(math),
	CASE(half_floats),
	CASE(integers),
	CASE(groups),
	CASE(cooperative),
	CASE(streams),
	CASE(events),
	CASE(ordering),
	CASE(host_functions),
	CASE(priorities),
	CASE(launches),
	LONG_CASE(copy_sizes),
	CASE(copy_offsets),
	CASE(copy_2d),
	LONG_CASE(fill),
	CASE(symbols),
	CASE(host_register),
	LONG_CASE(register_fork),
	CASE(managed),
	LONG_CASE(beyond_memory),
	CASE(available),
	CASE(pools),
	CASE(virtual_memory),
	LONG_CASE(processes),
	LONG_CASE(ipc_memory),
	LONG_CASE(ipc_event),
	LONG_CASE(fault_store),
	LONG_CASE(fault_load),
	NAMED_CASE(managed_turns),
	NAMED_CASE(managed_prefetch),
	NAMED_CASE(managed_advice),
	NAMED_CASE(managed_streams),
	NAMED_CASE(managed_beyond_vram),
	NAMED_CASE(managed_fork),
	NAMED_CASE(managed_processes),
	NAMED_CASE(pageable),
	NAMED_CASE(pageable_maps),
};

size_t size_limit = 256 * MiB;

static unsigned int failed_count, case_number;
static const char *case_name;
static char first[252];

bool failed(const char *file, int line, const char *what, const char *more, ...)
{
	char text[400];
	va_list list;

	/* Limit the output: more failures add no information. */
	if (failed_count++ >= MAX_TOLD)
		return false;
	va_start(list, more);
	vsnprintf(text, sizeof(text), more, list);
	va_end(list);
	printf("# %s:%d: failed: %s%s%s\n", file, line, what, text[0] ? ": " : "", text);
	if (failed_count == 1)
		snprintf(first, sizeof(first), "%s:%d: %.80s: %.100s", file, line, what, text);
	fflush(stdout);
	return false;
}

void note(const char *text, ...)
{
	va_list list;

	fputs("# ", stdout);
	va_start(list, text);
	vprintf(text, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

unsigned int failures()
{
	return failed_count;
}

const char *first_failure()
{
	return first;
}

double seconds_now()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void hip_result(const char *file, int line, const char *call, hipError_t got, hipError_t wanted,
		bool must)
{
	/* Clear the error, which the next launch would return again; in HIP 7 also later ones. */
	if (got != hipSuccess)
		(void)hipGetLastError();
	if (got == wanted)
		return;
	failed(file, line, call, "expected %s, got %s", hipGetErrorName(wanted),
	       hipGetErrorName(got));
	if (must)
		throw Ended();
}

int attribute(hipDeviceAttribute_t which)
{
	int value = 0;

	HIP(hipDeviceGetAttribute(&value, which, 0));
	return value;
}

unsigned long long topology(const char *file, const char *name)
{
	std::string path = "/sys/class/kfd/kfd/topology/nodes/1/" + std::string(file);
	FILE *from = fopen(path.c_str(), "r");
	unsigned long long value, found = 0;
	bool has = false;
	char key[64];

	ASSERT(from);
	while (fscanf(from, "%63s %llu", key, &value) == 2) {
		if (!strcmp(key, name)) {
			found = value;
			has = true;
		}
	}
	fclose(from);
	ASSERT(has, "no %s in %s", name, path.c_str());
	return found;
}

void launched()
{
	HIP(hipGetLastError());
	HIP(hipDeviceSynchronize());
}

/* A hung case ends the program: later cases would wait for the same GPU. */
static void late(int)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "# failed: not done in time\nnot ok %u hiptest.%s\n",
			 case_number, case_name);

	(void)!write(1, text, (size_t)n);
	_exit(1);
}

/* Runs one case; returns whether it passed. */
static bool run(const Case &one)
{
	std::string skip;
	double start = seconds_now();

	failed_count = 0;
	case_name = one.name;
	case_number++;
	alarm(one.seconds);
	try {
		one.run();
	} catch (const Ended &) {
	} catch (const Skipped &skipped) {
		skip = skipped.reason;
	}
	alarm(0);
	note("%s took %.1f s", one.name, seconds_now() - start);
	if (failed_count)
		printf("not ok %u hiptest.%s\n", case_number, one.name);
	else if (!skip.empty())
		printf("ok %u hiptest.%s # SKIP %s\n", case_number, one.name, skip.c_str());
	else
		printf("ok %u hiptest.%s\n", case_number, one.name);
	fflush(stdout);
	return !failed_count;
}

static bool wanted(const Case &one, const std::vector<std::string> &names)
{
	for (const std::string &name : names)
		if (name == one.name)
			return true;
	return names.empty() && !one.by_name;
}

int main(int argc, char **argv)
{
	std::vector<std::string> names;
	unsigned int count = 0, bad = 0;
	double start = seconds_now();

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		std::string word = argv[i];

		if (word == "--helper" && i + 1 < argc)
			return helper_main(atoi(argv[i + 1]));
		if (word == "-l") {
			for (const Case &one : cases)
				puts(one.name);
			return 0;
		}
		if (word == "-s" && i + 1 < argc)
			size_limit = strtoull(argv[++i], NULL, 0);
		else
			names.push_back(word);
	}
	for (const Case &one : cases)
		count += wanted(one, names);
	if (!count) {
		fprintf(stderr, "usage: hiptest [-l] [-s BYTES] [CASE...]\n");
		return 2;
	}
	signal(SIGALRM, late);
	printf("KTAP version 1\n1..%u\n", count);
	for (const Case &one : cases)
		if (wanted(one, names) && !run(one))
			bad++;
	note("hiptest took %.1f s", seconds_now() - start);
	return bad != 0;
}
