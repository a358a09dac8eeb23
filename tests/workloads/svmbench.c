// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Measures shared virtual memory: guest instructions per retry fault that maps 4 KiB and 2 MiB of
 * memory that is present, and per page that is migrated to VRAM, for the first time and later, and
 * back. Runs on a guest with one processor, whose clock counts instructions (scripts/vm --count). A
 * thread of the idle class takes the time that the driver waits without polling, which does not
 * count.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "kfd.h"

#define HUGE (2ul << 20)
#define MEMORY (8ul << 20)
#define ROUNDS 4u
#define WAIT_MS 600000u

struct bench {
	struct kfd k;
	struct kfd_code code;
	struct kfd_kernel kernel;
	struct kfd_bo *kernarg, *order;
	struct kfd_queue q;
	struct kfd_signal signal;
	char *memory;
};

static void must(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "svmbench: %s: %s\n", what, strerror(-ret));
	exit(1);
}
#define MUST(call) must(call, #call)

/* The thread of the idle class. */
static clockid_t idle_clock;

static void *idle(void *arg)
{
	const struct sched_param none = { 0 };

	(void)arg;
	must(-pthread_setschedparam(pthread_self(), SCHED_IDLE, &none), "SCHED_IDLE");
	for (volatile int forever = 1; forever;)
		;
	return NULL;
}

/* Instructions of all others. */
static uint64_t busy(void)
{
	struct timespec t;

	if (clock_gettime(idle_clock, &t))
		must(-22, "clock of a thread");
	return journal_now() - ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

struct call {
	struct kfd_ioctl_svm_args args;
	struct kfd_ioctl_svm_attribute attrs[2];
};

static int set(struct bench *b, uint32_t type, uint32_t value)
{
	struct call call = {
		.args = { .start_addr = kfd_va(b->memory),
			  .size = MEMORY,
			  .op = KFD_IOCTL_SVM_OP_SET_ATTR,
			  .nattr = 2 },
		.attrs = { { type, value }, { KFD_IOCTL_SVM_ATTR_ACCESS, b->k.node.gpu_id } }
	};

	return kfd_ioctl(b->k.fd,
			 _IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, _IOC_NR(AMDKFD_IOC_SVM),
			      sizeof(call)),
			 &call);
}

/* The GPU writes to one word in each `step` bytes. */
static void touch(struct bench *b, size_t step)
{
	const uint32_t count = (uint32_t)(MEMORY / step), lanes = count < 64 ? count : 64;
	const uint32_t grid[3] = { count, 1, 1 };
	const uint16_t group[3] = { (uint16_t)lanes, 1, 1 };
	uint64_t *args = b->kernarg->va;
	uint32_t *order = b->order->va;
	struct aql_dispatch packet;

	for (uint32_t i = 0; i < count; i++)
		order[i] = (uint32_t)(i * step / 4);
	args[0] = kfd_va(b->memory);
	args[1] = kfd_va(order);
	b->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &b->kernel, grid, group, args, &b->signal);
	kfd_queue_ring(&b->q, kfd_queue_write(&b->q, &packet));
	MUST(kfd_signal_wait(&b->k, &b->signal, WAIT_MS));
}

static void faults(struct bench *b, const char *size, size_t step, uint32_t granularity)
{
	uint64_t sum = 0, start;

	MUST(set(b, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0));
	MUST(set(b, KFD_IOCTL_SVM_ATTR_GRANULARITY, granularity));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		/* The pages stay, their PTEs go. */
		if (mprotect(b->memory, MEMORY, PROT_READ) ||
		    mprotect(b->memory, MEMORY, PROT_READ | PROT_WRITE))
			must(-1, "mprotect");
		start = busy();
		touch(b, step);
		sum += busy() - start;
	}
	printf("bench: retry fault of %-5s            instructions=%llu faults=%lu\n", size,
	       (unsigned long long)(sum / (ROUNDS * (MEMORY / step))), ROUNDS * (MEMORY / step));
}

/* Migrates the memory to VRAM and back, and adds the instructions of both. */
static void migrate(struct bench *b, uint64_t *there, uint64_t *back)
{
	uint64_t start = busy();

	MUST(set(b, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, b->k.node.gpu_id));
	*there += busy() - start;
	start = busy();
	MUST(set(b, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0));
	*back += busy() - start;
}

static void per_page(const char *what, uint64_t sum, unsigned long pages)
{
	printf("bench: page migrated to %-14s instructions=%llu pages=%lu\n", what,
	       (unsigned long long)(sum / pages), pages);
}

static void migrations(struct bench *b)
{
	const unsigned long pages = MEMORY / KFD_PAGE;
	uint64_t first = 0, there = 0, back = 0;

	MUST(set(b, KFD_IOCTL_SVM_ATTR_GRANULARITY, 9));
	migrate(b, &first, &back);
	back = 0;
	for (unsigned int round = 0; round < ROUNDS; round++)
		migrate(b, &there, &back);
	per_page("VRAM first", first, pages);
	per_page("VRAM", there, ROUNDS * pages);
	per_page("system memory", back, ROUNDS * pages);
}

int main(void)
{
	struct kfd_ioctl_set_xnack_mode_args retry = { .xnack_enabled = 1 };
	static struct bench b;
	pthread_t thread;
	char *start;

	MUST(kfd_open(&b.k));
	if (kfd_ioctl(b.k.fd, AMDKFD_IOC_SET_XNACK_MODE, &retry)) {
		printf("bench: no retry faults\n");
		return 0;
	}
	MUST(kfd_kernels(&b.k, &b.code));
	MUST(kfd_code_kernel(&b.code, "scatter", &b.kernel));
	MUST(kfd_bo_create(&b.k, KFD_PAGE, KFD_FLAGS_GTT, &b.kernarg));
	MUST(kfd_bo_create(&b.k, MEMORY / KFD_PAGE * 4, KFD_FLAGS_GTT, &b.order));
	MUST(kfd_hdp_flush(&b.k));
	MUST(kfd_signal_create(&b.k, 1, &b.signal));
	MUST(kfd_queue_create(&b.k, &b.q, 64));
	start = mmap(NULL, MEMORY + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (start == MAP_FAILED)
		must(-12, "mmap");
	b.memory = (char *)(((uintptr_t)start + HUGE - 1) & ~(HUGE - 1));
	madvise(b.memory, MEMORY, MADV_NOHUGEPAGE);
	memset(b.memory, 1, MEMORY);
	MUST(-pthread_create(&thread, NULL, idle, NULL));
	MUST(-pthread_getcpuclockid(thread, &idle_clock));
	faults(&b, "4 KiB", KFD_PAGE, 0);
	faults(&b, "2 MiB", HUGE, 9);
	migrations(&b);
	return 0;
}
