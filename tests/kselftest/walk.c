// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A random walk over events that end processes and devices: programs start, exit and are killed,
 * the device is suspended, reset, unbound and removed. After each step programs must work, and
 * whenever none runs the driver's counters must be those of the start.
 *
 * $WALK_SEED selects the walk (default: random, and printed), $WALK_STEPS its length (default 25).
 * $WALK_WEIGHTS has the weight of each kind of step, for some of them: "kill=40 reset=4".
 * With $WALK_VERBOSE each step is printed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "fixture.h"
#include "leaks.h"

#define MAX_PROGRAMS 5u
/* Time within which programs exit after `stop`. */
#define END_MS 60000u
#define MAX_BO (1u << 20)

/* Shared with the programs. */
struct control {
	bool stop;
	/* Counts the steps that programs do not survive. */
	uint32_t ends;
};

struct program {
	pid_t pid;
	uint32_t kind;
	/* `ends` when it started. */
	uint32_t born;
	FILE *output;
};

static struct control *control;
static struct program programs[MAX_PROGRAMS];
static uint32_t running, killed_programs, count_of[8];
static uint64_t state;

static uint32_t below(uint32_t bound)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((state >> 33) * bound >> 31);
}

static bool stops(void)
{
	return __atomic_load_n(&control->stop, __ATOMIC_RELAXED);
}

/* Starts a queue, in a secondary process at times. */
static void launch(struct fixture *f)
{
	if (below(3))
		fixture_launch(f);
	else
		fixture_launch_context(f);
}

/* Fills buffers of random kind and size by a kernel, some of them in a queue of their own. */
static void fill_buffers(void)
{
	struct kfd_queue other;
	struct fixture f;

	launch(&f);
	while (!stops()) {
		uint32_t bytes = KFD_PAGE << below(9), value = below(~0u);
		bool second = !below(4);
		struct kfd_bo *bo;
		uint32_t *words;

		ASSERT_OK(kfd_bo_create(&f.k, bytes, below(2) ? KFD_FLAGS_VRAM : KFD_FLAGS_GTT, &bo));
		words = bo->va;
		if (second)
			ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
		ASSERT_OK(fixture_fill(&f, second ? &other : &f.q, words, bytes / 4, value));
		for (uint32_t i = 0; i < bytes / 4; i += 509)
			ASSERT_EQ(words[i], value);
		if (second)
			ASSERT_OK(kfd_queue_destroy(&other));
		ASSERT_OK(kfd_bo_free(&f.k, bo));
	}
}

/* Has a pattern in VRAM, and no work. */
static void keep_contents(void)
{
	struct fixture f;
	struct kfd_bo *bo;

	launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, MAX_BO, KFD_FLAGS_VRAM, &bo));
	pattern(bo->va, MAX_BO, (uint32_t)getpid());
	while (!stops())
		usleep(20000);
	ASSERT(has_pattern(bo->va, MAX_BO, (uint32_t)getpid()));
	ASSERT(fixture_works(&f));
}

/* Writes by DMA engines. */
static void run_jobs(void)
{
	struct cs cs;

	cs_open(&cs);
	for (uint32_t i = 1; !stops(); i++) {
		uint64_t job;

		ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va + 4 * (i % 64), i), &job));
		if (i % 8)
			continue;
		cs_done(&cs, 0, job);
		ASSERT_EQ(cs.data.words[i % 64], i);
	}
}

/* Forks children that end while it works. */
static void fork_children(void)
{
	struct fixture f;

	fixture_launch(&f);
	while (!stops()) {
		pid_t child = fork_child();

		if (!child)
			_exit(0);
		ASSERT(fixture_works(&f));
		ASSERT(waitpid(child, NULL, 0) == child);
	}
}

static void (*const kinds[])(void) = { fill_buffers, keep_contents, run_jobs, fork_children };
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void start(void)
{
	struct program *p = &programs[running];

	if (running == MAX_PROGRAMS)
		return;
	*p = (struct program){ .kind = below(KINDS), .born = control->ends, .output = tmpfile() };
	ASSERT(p->output != NULL);
	p->pid = fork_child();
	if (!p->pid) {
		ktap_detach();
		dup2(fileno(p->output), STDOUT_FILENO);
		kinds[p->kind]();
		ktap_end();
	}
	running++;
}

/* Takes a program that has ended off the list. It has no failures if the device has stayed. */
static void ended(uint32_t n, int status, bool killed)
{
	struct program p = programs[n];
	char line[256];

	programs[n] = programs[--running];
	if (!killed && p.born == control->ends &&
	    !EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "program %u: status %#x", p.kind,
		    status)) {
		rewind(p.output);
		while (fgets(line, sizeof(line), p.output))
			fputs(line, stdout);
	}
	fclose(p.output);
}

static void kill_one(void)
{
	uint32_t n;
	int status;

	if (!running)
		return;
	n = below(running);
	kill(programs[n].pid, SIGKILL);
	ASSERT(waitpid(programs[n].pid, &status, 0) == programs[n].pid);
	killed_programs += WIFSIGNALED(status);
	ended(n, status, WIFSIGNALED(status));
}

/* Waits until all programs end. */
static void end_all(void)
{
	__atomic_store_n(&control->stop, true, __ATOMIC_RELAXED);
	for (uint32_t ms = 0; running && ms < END_MS * ktap_time_factor(); ms += 10) {
		for (uint32_t n = running; n-- > 0;) {
			int status;

			if (waitpid(programs[n].pid, &status, WNOHANG) == programs[n].pid)
				ended(n, status, false);
		}
		usleep(10000);
	}
	EXPECT(!running, "%u programs do not end", running);
	while (running)
		kill_one();
	control->stop = false;
}

/* Same; then the counters are those of the start. */
static void stop_all(void)
{
	end_all();
	leaks_expect_counters("without programs");
}

/* The programs may fail from here on. */
static void break_all(void)
{
	control->ends++;
}

/*
 * After the device came back. A program that has lost its queue waits for its signal until a
 * timeout of 20 s: at most of the steps all are killed.
 */
static void expect_back(void)
{
	bool kill_all = below(16);

	while (running && (kill_all || below(2)))
		kill_one();
	stop_all();
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_expect_counters("after the device came back");
}

static void sleep_and_wake(void)
{
	EXPECT_OK(try_to_sleep("devices"));
}

static void reset(void)
{
	break_all();
	device_reset();
	expect_back();
}

static void unbind(void)
{
	break_all();
	ASSERT_OK(device_unbind());
	if (below(2))
		end_all();
	ASSERT_OK(device_bind());
	expect_back();
}

static void remove_device(void)
{
	break_all();
	ASSERT_OK(device_remove());
	ASSERT_OK(device_rescan());
	expect_back();
}

static struct {
	const char *name;
	uint32_t weight;
	void (*run)(void);
} steps[] = {
	{ "start", 40, start },	    { "kill", 25, kill_one },	{ "stop", 6, stop_all },
	{ "suspend", 3, sleep_and_wake }, { "reset", 3, reset },	{ "unbind", 2, unbind },
	{ "remove", 2, remove_device },
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_weights(void)
{
	const char *text = getenv("WALK_WEIGHTS");
	char name[16];
	unsigned int weight;
	int length;

	for (; text && sscanf(text, " %15[a-z]=%u%n", name, &weight, &length) == 2; text += length) {
		size_t n = 0;

		while (n < STEPS && strcmp(steps[n].name, name))
			n++;
		ASSERT(n < STEPS, "no step %s", name);
		steps[n].weight = weight;
	}
	ASSERT(!text || !*text, "a weight: %s", text);
}

static void step(uint64_t at)
{
	uint32_t total = 0, chosen;
	size_t n = 0;

	for (size_t i = 0; i < STEPS; i++)
		total += steps[i].weight;
	chosen = below(total);
	while (chosen >= steps[n].weight)
		chosen -= steps[n++].weight;
	if (getenv("WALK_VERBOSE"))
		ktap_note("step %llu: %s, %u programs", (unsigned long long)at, steps[n].name, running);
	steps[n].run();
	count_of[n]++;
	usleep(below(60000));
}

TEST_TIMEOUT(walk, 20000)
{
	uint64_t count = number("WALK_STEPS", 25);
	uint64_t seed = number("WALK_SEED", (uint64_t)getpid() ^ (uint64_t)(seconds_now() * 1e6));
	unsigned int before;

	ktap_note("WALK_SEED=%llu", (unsigned long long)seed);
	state = seed;
	read_weights();
	control = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(control != MAP_FAILED);
	device_need_reset();
	need_sleep();
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_start();
	for (uint64_t i = 0; i < count; i++) {
		before = ktap_failures();
		step(i);
		ASSERT(ktap_failures() == before, "at step %llu", (unsigned long long)i);
	}
	stop_all();
	for (size_t i = 0; i < STEPS; i++)
		ktap_note("%s: %u", steps[i].name, count_of[i]);
	ktap_note("programs killed: %u", killed_programs);
}
