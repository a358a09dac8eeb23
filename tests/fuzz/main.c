// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * fuzz-cover [OPTION...] [FILE...]: runs the programs of the files, then random changes of those
 * that cover new edges of the driver. See Documentation/testing.rst.
 *
 *   --seconds N   how long to fuzz after the files (default 0: only replay them)
 *   --seed N      seed of the random numbers (default: random)
 *   --repeat N    run the programs of the files N times (default 2: what is in use is compared with
 *                 that after the first time)
 *   --verbose     print each program before it runs, so that the last one before a crash is known
 *   --edges N     number of edges of the module, for the report
 *   --dump        print the covered edges at the end, `~ ` and the offset in the module's text
 *   --print       print the programs of the files as the fuzzer reads them, and end
 *
 * Lines of the output: `< ` the program that runs, `+ ` a program that covers new edges, `! ` one
 * with a finding.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define MAX_CORPUS 20000
/* Programs between two comparisons of what is in use. */
#define LEDGER_EVERY 200
#define MINIMISE_RUNS 16
#define REPORT_SECONDS 30

/* The number of the test that runs: the programs of the files, then random ones. */
static const char *const test_names[] = { "fuzz-cover.corpus", "fuzz-cover.mutations" };
static unsigned int test = 1;

static char *corpus[MAX_CORPUS];
static unsigned int corpus_count;
static uint64_t programs, done, succeeded, late;
static unsigned long edges_of_module;
static bool verbose, has_cover, dump;
static struct timespec start;

/* Texts of the last programs, for a finding that is noticed late. */
static char *recent[LEDGER_EVERY];
static unsigned int recent_count;

static double elapsed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
}

/* Prints each line of a program's text after `prefix`, and an empty line. */
static void print_lines(char prefix, const char *text)
{
	while (*text) {
		int length = (int)strcspn(text, "\n");

		printf("%c %.*s\n", prefix, length, text);
		text += length + (text[length] == '\n');
	}
	printf("%c\n", prefix);
}

static void report(void)
{
	double s = elapsed();

	printf("# fuzz: %.0f s, %llu programs, %llu calls (%.0f/s), %llu of them succeeded, %llu programs late, corpus %u, edges %u",
	       s, (unsigned long long)programs, (unsigned long long)done, (double)done / s,
	       (unsigned long long)succeeded, (unsigned long long)late, corpus_count, cover_total());
	if (edges_of_module)
		printf(" of %lu (%.1f %%)", edges_of_module,
		       100. * cover_total() / (double)edges_of_module);
	printf("\n");
}

static void end(void)
{
	report();
	if (dump)
		cover_dump(stdout);
}

/* Ends the run with a finding, and prints the last program, or all that may have caused it. */
static void finding(const char *what, bool all)
{
	printf("# finding: %s\n", what);
	for (unsigned int i = all ? 0 : recent_count - 1; i < recent_count; i++)
		print_lines('!', recent[i]);
	end();
	printf("not ok %u %s\n", test, test_names[test - 1]);
	exit(1);
}

static void forget(void)
{
	while (recent_count)
		free(recent[--recent_count]);
}

static void check_ledger(void)
{
	if (ledger_is_started() && !ledger_is_clean())
		finding("more is in use than before these programs", true);
	forget();
}

static void run(const struct program *p)
{
	static char text[TEXT_MAX];
	struct result result;
	double began = elapsed();

	program_print(p, text, sizeof(text));
	if (verbose)
		print_lines('<', text);
	recent[recent_count++] = strdup(text);
	execute(p, &result);
	inject_end(p);
	programs++;
	done += result.done;
	succeeded += result.succeeded;
	late += result.late;
	if (verbose)
		printf("# %u of %u calls succeeded, %.0f ms\n", result.succeeded, result.done,
		       1000 * (elapsed() - began));
	if (result.hung)
		finding("a call that cannot be killed", false);
	if (log_has_report())
		finding("an error report of the kernel", false);
	if (recent_count == LEDGER_EVERY)
		check_ledger();
}

/* Whether the last program covers all `count` edges again. */
static bool covers(const struct edge *wanted, unsigned int count)
{
	const struct edge *edges;
	unsigned int found = cover_new(&edges);

	if (found < count)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		unsigned int n = 0;

		while (n < found && edges[n].offset != wanted[i].offset)
			n++;
		if (n == found)
			return false;
	}
	return true;
}

/* Removes calls without which the program covers the same new edges. */
static void minimise(struct program *p, const struct edge *wanted, unsigned int count)
{
	static struct program shorter;
	unsigned int last = 0, runs = 0;

	for (unsigned int i = 0; i < count; i++)
		if (wanted[i].step > last)
			last = wanted[i].step;
	/* What follows the last new edge is of no use. */
	while (p->count > last + 1)
		remove_step(p, p->count - 1);
	for (unsigned int length = p->count / 2; length; length /= 2) {
		for (unsigned int i = 0; i + length <= p->count && runs < MINIMISE_RUNS;) {
			shorter = *p;
			for (unsigned int n = 0; n < length && shorter.count > 1; n++)
				remove_step(&shorter, i);
			run(&shorter);
			runs++;
			if (covers(wanted, count))
				*p = shorter;
			else
				i += length;
			cover_take(false);
		}
	}
}

static void keep(const struct program *p, bool print)
{
	static char text[TEXT_MAX];

	if (corpus_count == MAX_CORPUS)
		return;
	program_print(p, text, sizeof(text));
	corpus[corpus_count++] = strdup(text);
	if (print)
		print_lines('+', text);
}

/* Runs a program, and keeps it if it covers new edges. */
static void try(struct program *p, bool is_new)
{
	static struct edge wanted[4096];
	const struct edge *edges;
	unsigned int count;

	run(p);
	if (!has_cover)
		return;
	count = cover_new(&edges);
	if (!count)
		return;
	/* A test takes too long to be repeated and changed further. */
	if (!is_new || has_test(p)) {
		cover_take(true);
		if (!has_test(p))
			keep(p, false);
		return;
	}
	if (count <= 4096) {
		memcpy(wanted, edges, count * sizeof(*edges));
		cover_take(false);
		/* Edges that depend on the moment are covered, but are no reason to keep it. */
		run(p);
		if (!covers(wanted, count)) {
			cover_take(true);
			return;
		}
		cover_take(false);
		minimise(p, wanted, count);
		run(p);
		count = cover_new(&edges);
	}
	cover_take(true);
	keep(p, true);
}

static void read_file(const char *path, void (*use)(struct program *p))
{
	static struct program p;
	FILE *f = fopen(path, "re");
	char *text = NULL, *at;
	size_t size = 0;
	long used;

	if (!f || getdelim(&text, &size, 0, f) < 0) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(2);
	}
	fclose(f);
	for (at = text; (used = program_parse(&p, at)) > 0; at += used)
		use(&p);
	if (used < 0) {
		fprintf(stderr, "%s: %.200s: not a program\n", path, at);
		exit(2);
	}
	free(text);
}

static void print(struct program *p)
{
	static char text[TEXT_MAX];

	program_print(p, text, sizeof(text));
	printf("%s\n", text);
}

static void replay(struct program *p)
{
	try(p, false);
}

/* Half of the time goes to tests. */
static void fuzz_once(void)
{
	static struct program p, other;
	static double of_tests, of_others;
	double began = elapsed();

	other.count = 0;
	if (of_tests < of_others) {
		generate_tests(&p);
	} else if (corpus_count && below(20)) {
		/* Half of the time one of the newest. */
		unsigned int tail = corpus_count < 50 ? corpus_count : 50;
		unsigned int i = below(2) ? below(corpus_count) : corpus_count - 1 - below(tail);

		program_parse(&p, corpus[i]);
		program_parse(&other, corpus[below(corpus_count)]);
		mutate(&p, &other);
	} else {
		generate(&p);
	}
	if (p.count)
		try(&p, true);
	*(has_test(&p) ? &of_tests : &of_others) += elapsed() - began;
}

static void fuzz(double seconds)
{
	double next = elapsed() + REPORT_SECONDS;

	test = 2;
	if (!has_cover) {
		printf("ok 2 %s # SKIP the kernel has no KCOV\n", test_names[1]);
		return;
	}
	while (elapsed() < seconds) {
		fuzz_once();
		if (elapsed() > next) {
			report();
			next = elapsed() + REPORT_SECONDS;
		}
	}
	check_ledger();
	printf("ok 2 %s\n", test_names[1]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' }, { "seed", required_argument, NULL, 'S' },
		{ "repeat", required_argument, NULL, 'r' },  { "verbose", no_argument, NULL, 'v' },
		{ "edges", required_argument, NULL, 'e' },   { "nothing", no_argument, NULL, 'n' },
		{ "print", no_argument, NULL, 'p' },         { "dump", no_argument, NULL, 'd' },
		{ 0 },
	};
	unsigned long repeat = 2;
	double seconds = 0;
	int option;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			seconds = atof(optarg);
			break;
		case 'S':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			repeat = strtoul(optarg, NULL, 0);
			break;
		case 'v':
			verbose = true;
			break;
		case 'e':
			edges_of_module = strtoul(optarg, NULL, 0);
			break;
		case 'd':
			dump = true;
			break;
		case 'n':
			return 0;
		case 'p':
			calls_init();
			for (int i = optind; i < argc; i++)
				read_file(argv[i], print);
			return 0;
		default:
			return 2;
		}
	}
	seed |= !seed;
	printf("KTAP version 1\n1..%u\n# fuzz: seed %#llx\n", seconds > 0 ? 2 : 1,
	       (unsigned long long)seed);
	calls_init();
	has_cover = cover_init(TASKS);
	execute_init();
	files_init();
	inject_init();
	fail_init();
	clock_gettime(CLOCK_MONOTONIC, &start);
	log_has_report();
	for (unsigned long n = 0; n < repeat; n++) {
		for (int i = optind; i < argc; i++)
			read_file(argv[i], replay);
		/* The first use of the driver allocates what stays. */
		if (!n) {
			forget();
			ledger_start();
		}
	}
	check_ledger();
	report();
	printf("ok 1 %s\n", test_names[0]);
	if (seconds > 0)
		fuzz(seconds);
	end();
	return 0;
}
