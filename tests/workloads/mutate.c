// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * With $KFD_MUTATE, the seed of the random numbers, a program makes calls that it would not make:
 * beside its own, or instead of them, with words changed in their arguments and in what these point
 * to, once more, interrupted, or with a failing allocation. The fuzzer starts the programs of
 * tests/kselftest in that way: they bring the driver into states that random calls do not reach.
 */
#define _GNU_SOURCE
#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "fail-one.h"
#include "kfd.h"
#include "random.h"

/* Numbers of earlier calls, and the calls, from which new ones are made. */
#define NUMBERS 256
#define HISTORY 16
/* Bytes that a pointer leads to, and how many pointers may follow each other. */
#define POINTED 512
#define DEPTH 3
#define ARGS (1u << _IOC_SIZEBITS)
/* Of an allocation that fails: most calls have fewer. */
#define ALLOCATIONS 48
/* A changed call that waits is interrupted then. */
#define WAIT_MS 20

struct earlier {
	int fd;
	unsigned long request;
	unsigned char args[256];
};

/* Of a thread. */
struct source {
	uint64_t seed;
	/* One in so many calls is changed; 0: none. */
	unsigned int rate;
	uint64_t numbers[NUMBERS];
	unsigned int numbers_count;
	struct earlier history[HISTORY];
	unsigned int history_count;
	unsigned char pointed[DEPTH][POINTED];
	timer_t timer;
	/* The process that has the timer: fork() leaves it behind. */
	pid_t timer_owner;
};

static __thread struct source source;

bool is_mutating(void)
{
	static int enabled = -1;

	if (enabled < 0)
		enabled = getenv("KFD_MUTATE") != NULL;
	return enabled;
}

static struct source *own_source(void)
{
	static const unsigned int rates[] = { 0, 4, 8, 32 };
	static unsigned int threads;
	uint64_t seed;

	if (source.seed)
		return &source;
	seed = strtoull(getenv("KFD_MUTATE"), NULL, 0);
	source.rate = rates[seed % 4];
	source.seed = (seed + 1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED)) * 0x9e3779b97f4a7c15ull;
	return &source;
}

static unsigned int below(struct source *s, unsigned int n)
{
	return random_below(&s->seed, n);
}

static void remember(struct source *s, const struct call *call, const unsigned char *args, size_t size)
{
	struct earlier *e = &s->history[s->history_count++ % HISTORY];

	for (size_t at = 0; at + 4 <= size && at < 128; at += 4) {
		uint64_t number = 0;

		memcpy(&number, args + at, at % 8 || at + 8 > size ? 4 : 8);
		if (number)
			s->numbers[s->numbers_count++ % NUMBERS] = number;
	}
	e->fd = call->fd;
	e->request = call->request;
	memcpy(e->args, args, size < sizeof(e->args) ? size : sizeof(e->args));
}

static uint64_t earlier_number(struct source *s)
{
	unsigned int known = s->numbers_count < NUMBERS ? s->numbers_count : NUMBERS;

	return known ? s->numbers[below(s, known)] : 0;
}

static uint64_t new_number(struct source *s, uint64_t old)
{
	switch (below(s, 6)) {
	case 0:
		return random_nasty(&s->seed);
	case 1:
		return old + (1ull << below(s, 33));
	case 2:
		return old - (1ull << below(s, 33));
	case 3:
		return old ^ 1ull << below(s, 64);
	case 4:
		return below(s, 8);
	default:
		return earlier_number(s);
	}
}

/* Changes a word, or what it points to, of which `depth` further pointers are left. */
static void change(struct source *s, unsigned char *p, size_t size, unsigned int depth)
{
	size_t bytes = below(s, 2) && size >= 8 ? 8 : 4;
	size_t at;
	uint64_t word = 0;

	if (size < 4)
		return;
	at = below(s, (unsigned int)(size / bytes)) * bytes;
	memcpy(&word, p + at, bytes);
	if (bytes == 8 && depth && below(s, 2)) {
		unsigned char *to = s->pointed[depth - 1];

		if (copy_readable(to, (void *)word, POINTED)) {
			/* Mostly the first elements of an array. */
			change(s, to, below(s, 2) ? 64 : POINTED, depth - 1);
			word = kfd_va(to);
			memcpy(p + at, &word, 8);
			return;
		}
	}
	word = new_number(s, word);
	memcpy(p + at, &word, bytes);
}

/* Restricts numbers that would make the call take all memory. */
static void tame(unsigned long request, unsigned char *args)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *alloc = (void *)args;
	union drm_amdgpu_gem_create *create = (void *)args;

	if (request == AMDKFD_IOC_ALLOC_MEMORY_OF_GPU)
		alloc->size = random_tame_size(alloc->size);
	else if (request == DRM_IOCTL_AMDGPU_GEM_CREATE)
		create->in.bo_size = random_tame_size(create->in.bo_size);
}

/* Whether the DRM core handles the request, which allocates what is requested, and warns. */
static bool is_of_drm_core(unsigned long request)
{
	return _IOC_TYPE(request) == 'd' &&
	       (_IOC_NR(request) < DRM_COMMAND_BASE || _IOC_NR(request) >= DRM_COMMAND_END);
}

static void on_timer(int signal)
{
	(void)signal;
}

/* Interrupts this thread after `ms`; 0: no longer. */
static void interrupt(struct source *s, unsigned int ms)
{
	struct itimerspec when = { .it_value = { .tv_nsec = (long)ms * 1000000 } };
	/* Without SA_RESTART. */
	struct sigaction action = { .sa_handler = on_timer };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMAX };

	if (s->timer_owner != getpid()) {
		event._sigev_un._tid = gettid();
		sigaction(SIGRTMAX, &action, NULL);
		if (timer_create(CLOCK_MONOTONIC, &event, &s->timer))
			return;
		s->timer_owner = getpid();
	}
	timer_settime(s->timer, 0, &when, NULL);
}

static int run_changed(struct source *s, int fd, unsigned long request, const unsigned char *args)
{
	unsigned char changed[ARGS];
	size_t size = _IOC_SIZE(request);
	int ret;

	memcpy(changed, args, size);
	if (!is_of_drm_core(request))
		for (unsigned int n = 1 + below(s, 3); n; n--)
			change(s, changed, size, DEPTH);
	tame(request, changed);
	interrupt(s, WAIT_MS);
	ret = ioctl(fd, request, changed);
	ret = ret < 0 ? -errno : ret;
	interrupt(s, 0);
	return ret;
}

static int run_once(struct source *s, struct call *call, const unsigned char *args)
{
	int ret = call->run(call);
	unsigned char after[ARGS];
	size_t size = _IOC_SIZE(call->request);

	if (ret >= 0 && copy_readable(after, call->args, size))
		remember(s, call, after, size);
	else
		remember(s, call, args, size);
	return ret;
}

/* Runs the call with an allocation that fails; if the call fails for that, once more. */
static int run_failing(struct source *s, struct call *call, const unsigned char *args)
{
	int file = fail_one(1 + below(s, ALLOCATIONS));
	int ret = call->run(call);

	if (!end_failing_one(file) || ret >= 0)
		return ret;
	memcpy(call->args, args, _IOC_SIZE(call->request));
	return run_once(s, call, args);
}

int mutate_ioctl(struct call *call)
{
	struct source *s = own_source();
	unsigned char args[ARGS];
	struct earlier *e;
	int ret;

	if (!copy_readable(args, call->args, _IOC_SIZE(call->request)))
		return call->run(call);
	if (!s->rate || below(s, s->rate))
		return run_once(s, call, args);
	switch (below(s, 11)) {
	case 0:
	case 1:
		run_changed(s, call->fd, call->request, args);
		return run_once(s, call, args);
	case 2:
	case 3:
		ret = run_once(s, call, args);
		run_changed(s, call->fd, call->request, args);
		return ret;
	case 4:
		return run_changed(s, call->fd, call->request, args);
	case 5:
		/* One more of which the program does not know. */
		run_once(s, call, args);
		memcpy(call->args, args, _IOC_SIZE(call->request));
		return run_once(s, call, args);
	case 6:
		interrupt(s, 1 + below(s, 4));
		ret = run_once(s, call, args);
		interrupt(s, 0);
		return ret;
	case 7:
	case 8:
	case 9:
		return run_failing(s, call, args);
	default:
		e = &s->history[below(s, HISTORY)];
		if (e->request && _IOC_SIZE(e->request) <= sizeof(e->args))
			run_changed(s, e->fd, e->request, e->args);
		return run_once(s, call, args);
	}
}

int mutate_mmap(struct call *call)
{
	struct source *s = own_source();
	struct call changed = *call;

	if (!s->rate || below(s, s->rate))
		return call->run(call);
	changed.at = NULL;
	if (below(s, 2))
		changed.offset = (off_t)new_number(s, (uint64_t)call->offset);
	else
		changed.size = random_tame_size(new_number(s, call->size));
	if (below(s, 2)) {
		int file = fail_one(1 + below(s, ALLOCATIONS));

		call->run(&changed);
		end_failing_one(file);
	} else {
		call->run(&changed);
	}
	return call->run(call);
}
