// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests start, exit and kill of HSA and HIP programs at any point: nothing is left over. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ktap.h"
#include "lifecycle/gpu.h"
#include "leaks.h"

#define WORDS 4096u
#define PAGE 4096u
#define MIB (1u << 20)
#define WARM_UP 4

/* Phase of a process, reported to its parent. */
enum phase { BEGIN, INIT, ALLOC, QUEUE, LOAD, RUN, COPY, INVALIDATE, SLEEP, LEAVE, PHASES };
static const char *const phase_names[PHASES] = {
	"before hsa_init", "hsa_init", "allocation",   "queue creation", "loading code",
	"running kernel",  "copying",  "invalidation", "waiting",	 "leaving"
};

struct watched {
	volatile int phase;
};

static struct watched *shared_page(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(p != MAP_FAILED);
	memset(p, 0, bytes);
	return p;
}

static void expect_filled(const uint32_t *words, uint32_t value, const char *where)
{
	unsigned int wrong = 0;

	for (uint32_t i = 0; i < WORDS; i++)
		wrong += words[i] != value + i;
	EXPECT(wrong == 0, "%s: %u of %u words are wrong", where, wrong, WORDS);
}

/* A complete program: uses everything once and checks results. */
static void short_life(struct watched *w, uint32_t value)
{
	uint32_t *vram, *host, *mine, *locked = NULL;
	struct gpu g;

	w->phase = INIT;
	gpu_open(&g);
	w->phase = ALLOC;
	vram = gpu_alloc(&g, g.vram, WORDS * 4);
	host = gpu_alloc(&g, g.host, WORDS * 4);
	mine = pages(WORDS * 4);
	HSA(hsa_amd_memory_lock(mine, WORDS * 4, &g.gpu, 1, (void **)&locked));
	w->phase = QUEUE;
	gpu_make_queue(&g);
	w->phase = LOAD;
	gpu_load(&g);
	w->phase = RUN;
	gpu_fill(&g, vram, WORDS, value);
	gpu_fill(&g, locked, WORDS, value + 1);
	expect_filled(mine, value + 1, "the process's own memory");
	w->phase = COPY;
	gpu_copy(&g, host, g.cpu, vram, g.gpu, WORDS * 4);
	expect_filled(host, value, "a copy of VRAM");
	w->phase = LEAVE;
	/* Some leave freeing of memory to the library, some all of the cleanup to the kernel. */
	if (value % 3 == 0) {
		HSA(hsa_amd_memory_unlock(mine));
		HSA(hsa_amd_memory_pool_free(vram));
		HSA(hsa_amd_memory_pool_free(host));
	}
	if (value % 3 < 2)
		gpu_close(&g);
}

/* Starts `short_life` in a child process. */
static pid_t start_life(struct watched *w, uint32_t value)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		short_life(w, value);
		ktap_end();
	}
	return child;
}

static void expect_exit(pid_t child, const char *what)
{
	int status = 0;

	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x", what,
	       status);
}

/* Two at a time, from the first ioctl to the last reference. */
static void lives(long count)
{
	struct watched *w = shared_page();
	pid_t other = 0;

	for (long i = 0; i < count; i++) {
		pid_t child = start_life(w, (uint32_t)i);

		if (other)
			expect_exit(other, "a process");
		other = child;
	}
	if (other)
		expect_exit(other, "a process");
}

/* Number of processes: $LIVES, by default 200. */
static long cycles(void)
{
	const char *text = getenv("LIVES");
	long count = text ? atol(text) : 200;

	return count > 0 ? count : 200;
}

TEST_TIMEOUT(starts_and_exits, 900)
{
	long count = cycles();
	struct timespec a, b;

	lives(WARM_UP);
	leaks_start();
	clock_gettime(CLOCK_MONOTONIC, &a);
	lives(count);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ktap_note("%ld processes in %ld s", count, (long)(b.tv_sec - a.tv_sec));
	leaks_expect_none("starts and exits", count);
}

/* A program to be killed anywhere: each phase takes a while, and the last one never ends. */
static void long_life(struct watched *w)
{
	uint32_t *flags, *mine, *locked = NULL;
	char *vram, *host;
	hsa_signal_t never;
	struct gpu g;

	w->phase = INIT;
	gpu_open(&g);
	w->phase = ALLOC;
	for (int i = 0; i < 8; i++) {
		vram = gpu_alloc(&g, g.vram, 16 * MIB);
		host = gpu_alloc(&g, g.host, 16 * MIB);
	}
	mine = pages(4 * MIB);
	HSA(hsa_amd_memory_lock(mine, 4 * MIB, &g.gpu, 1, (void **)&locked));
	w->phase = QUEUE;
	for (int i = 0; i < 3; i++)
		gpu_make_queue(&g);
	w->phase = LOAD;
	gpu_load(&g);
	flags = gpu_alloc(&g, g.host, PAGE);
	flags[0] = flags[1] = 0;
	never = gpu_signal(1);
	w->phase = RUN;
	gpu_launch(&g, &g.spin, 64, &flags[0], (uint64_t)(uintptr_t)&flags[1], never);
	for (int i = 0; i < 40; i++)
		usleep(10000);
	w->phase = COPY;
	for (int i = 0; i < 8; i++)
		gpu_copy(&g, i & 1 ? host : vram, i & 1 ? g.cpu : g.gpu, i & 1 ? vram : host,
			 i & 1 ? g.gpu : g.cpu, 16 * MIB);
	w->phase = INVALIDATE;
	for (int i = 0; i < 40; i++) {
		/* All other pages must stay unchanged: the kernel continues meanwhile. */
		madvise((char *)mine + MIB, MIB, MADV_DONTNEED);
		mprotect((char *)mine + 2 * MIB, PAGE, PROT_READ);
		mprotect((char *)mine + 2 * MIB, PAGE, PROT_READ | PROT_WRITE);
		memset((char *)mine + MIB, i, MIB);
		usleep(5000);
	}
	w->phase = SLEEP;
	gpu_wait(never, 1000);
}

/* Kills a long-lived process `us` after it entered `phase`; returns its phase at that time. */
static int kill_in(enum phase phase, long us)
{
	struct watched *w = shared_page();
	int status, at, waited = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		setpgid(0, 0);
		long_life(w);
		ktap_end();
	}
	while (w->phase < (int)phase && waited++ < 60000 && waitpid(child, &status, WNOHANG) == 0)
		usleep(1000);
	EXPECT(w->phase >= (int)phase, "the process did not reach %s", phase_names[phase]);
	usleep((useconds_t)us);
	at = w->phase;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "exited early with status %#x",
	       status);
	munmap(w, PAGE);
	return at;
}

TEST_TIMEOUT(twenty_kills_at_random_times, 600)
{
	/* Approximate duration of each phase in us: kills are spread over it. */
	static const long lasts[PHASES] = { 1000,   900000, 300000, 150000, 60000,
					    400000, 300000, 400000, 200000, 0 };
	unsigned int hits[PHASES] = { 0 };
	unsigned long seed = (unsigned long)time(NULL);

	lives(WARM_UP);
	leaks_start();
	ktap_note("seed %lu", seed);
	srandom((unsigned int)seed);
	for (int i = 0; i < 22; i++) {
		/* Twice in each phase, then anywhere. */
		enum phase phase = i < 2 * LEAVE ? (enum phase)(i % LEAVE) :
						   (enum phase)(random() % LEAVE);
		int at = kill_in(phase, random() % (lasts[phase] + 1));

		hits[at]++;
	}
	for (int i = 0; i < PHASES; i++)
		if (hits[i])
			ktap_note("%u killed in: %s", hits[i], phase_names[i]);
	leaks_expect_none("kills", 22);
	/* The GPU still works for others. */
	lives(2);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * Runs a HIP program and kills it after `ms`, or waits for its exit if 0. Returns whether it was
 * killed before it exited.
 */
static bool run_hip(long ms)
{
	int status = 0;
	long end;
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execlp("vecadd", "vecadd", "64", "8", (char *)NULL);
		_exit(127);
	}
	for (end = now_ms() + ms; !ms || now_ms() < end; usleep(5000)) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		ASSERT(ended >= 0);
		if (!ended)
			continue;
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		       "vecadd ended with status %#x", status);
		return false;
	}
	kill(child, SIGKILL);
	ASSERT(waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/*
 * Run times vary a lot: a kill that was too late counts as a regular exit. Kills three, one in each
 * third of the run time; with reduced $LIVES one at any time.
 */
TEST_TIMEOUT(hip_program_exit_and_kill, 600)
{
	long start = now_ms(), took;
	int killed = 0, ended = 1, kills = cycles() < 200 ? 1 : 3;

	EXPECT(!run_hip(0));
	took = now_ms() - start;
	ktap_note("a HIP program takes %ld ms", took);
	leaks_start();
	srandom((unsigned int)time(NULL));
	for (int i = 0; i < 2 * kills && killed < kills; i++) {
		long ms = 1 + took * killed / kills + random() % (took / kills);

		start = now_ms();
		if (run_hip(ms)) {
			ktap_note("killed after %ld ms", ms);
			killed++;
		} else {
			took = now_ms() - start;
			ended++;
		}
	}
	ktap_note("%d exited, %d killed", ended, killed);
	EXPECT(killed > 0);
	leaks_expect_none("HIP programs", ended + killed);
}

struct load {
	struct gpu *g;
	uint32_t *mine, *locked;
	volatile int stop;
	unsigned int rounds;
};

/* Fills userptr memory with the GPU and checks it with the CPU, repeatedly. */
static void *keep_filling(void *data)
{
	struct load *l = data;

	while (!l->stop) {
		gpu_fill(l->g, l->locked, WORDS, l->rounds * 7);
		expect_filled(l->mine, l->rounds * 7, "memory filled under load");
		l->rounds++;
	}
	return NULL;
}

static void under_load(void *data)
{
	struct load l = { 0 };
	pthread_t thread;
	struct gpu g;

	(void)data;
	gpu_open(&g);
	gpu_make_queue(&g);
	gpu_load(&g);
	l.g = &g;
	l.mine = pages(WORDS * 4);
	HSA(hsa_amd_memory_lock(l.mine, WORDS * 4, &g.gpu, 1, (void **)&l.locked));
	ASSERT(pthread_create(&thread, NULL, keep_filling, &l) == 0);
	for (int i = 0; i < 30; i++) {
		void *other = pages(64 * PAGE), *there = NULL;
		pid_t child;

		/*
		 * A short-lived child: pages of the parent become COW and must be copied before the
		 * GPU writes.
		 */
		child = fork();
		if (!child)
			_exit(l.mine[0] == 0xffffffff);
		ASSERT(child > 0);
		HSA(hsa_amd_memory_lock(other, 64 * PAGE, &g.gpu, 1, &there));
		madvise((char *)other + 8 * PAGE, 8 * PAGE, MADV_DONTNEED);
		mprotect(other, PAGE, PROT_READ);
		mprotect(other, PAGE, PROT_READ | PROT_WRITE);
		if (i & 1) {
			/*
			 * Unmapped while in use by the GPU: queues are restored once the lock is
			 * released.
			 */
			munmap((char *)other + 32 * PAGE, 32 * PAGE);
			HSA(hsa_amd_memory_unlock(other));
			munmap(other, 32 * PAGE);
		} else {
			HSA(hsa_amd_memory_unlock(other));
			munmap(other, 64 * PAGE);
		}
		expect_exit(child, "a child");
	}
	l.stop = 1;
	pthread_join(thread, NULL);
	ktap_note("%u GPU rounds meanwhile", l.rounds);
	EXPECT(l.rounds > 0);
	HSA(hsa_amd_memory_unlock(l.mine));
	gpu_close(&g);
}

TEST_TIMEOUT(forks_and_unmaps_under_load, 300)
{
	lives(WARM_UP);
	leaks_start();
	EXPECT_OK(ktap_in_child(under_load, NULL));
	leaks_expect_none("forks and unmaps", 30);
}

/* Unloads and reloads the module. Last, because the other tests need it. */
TEST(module_reload)
{
	const char *path = getenv("RKFD_MODULE");
	int fd;

	if (!path || access(path, R_OK))
		SKIP("RKFD_MODULE does not name a module file");
	ASSERT(syscall(SYS_delete_module, "rkfd", O_NONBLOCK) == 0, "%s", strerror(errno));
	EXPECT(access("/dev/kfd", F_OK) != 0, "/dev/kfd is still there");
	EXPECT(access("/sys/module/amdgpu", F_OK) != 0, "/sys/module/amdgpu is still there");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT(syscall(SYS_finit_module, fd, "", 0) == 0, "%s", strerror(errno));
	close(fd);
	lives(1);
}
