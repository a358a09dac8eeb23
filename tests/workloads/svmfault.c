// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Demo of shared virtual memory: one wave computes y = 2 x + y in memory of mmap() that no ioctl
 * names. Its first access faults and is repeated while the driver moves the memory to VRAM and maps
 * it; then the CPU reads the result, which moves the memory back. Prints the steps in each layer.
 * Exits with 0 only if every result is right and each step was recorded, in this order, or if the
 * GPU has no retry faults: then it prints that it is skipped, as KTAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "journal.h"
#include "kfd.h"

#define COUNT 64u
#define BYTES (16 * KFD_PAGE)
#define WAIT_MS 60000u

struct demo {
	struct kfd k;
	struct kfd_code code;
	struct kfd_kernel kernel;
	struct kfd_bo *kernarg;
	struct kfd_queue q;
	struct kfd_signal signal;
	struct aql_dispatch packet;
	float *x, *y;
	/* The GPU has no retry faults. */
	bool skipped;
};

static int retry_mode(struct kfd *k)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = 1 };

	return kfd_ioctl(k->fd, AMDKFD_IOC_SET_XNACK_MODE, &args);
}

/* What the vector add of the other demo shows in detail. */
static int prepare(struct demo *d)
{
	const uint32_t grid[3] = { COUNT, 1, 1 };
	const uint16_t group[3] = { COUNT, 1, 1 };
	struct kfd *k = &d->k;

	JOURNAL_STEP("set_xnack_mode", retry_mode(k), "xnack=1");
	JOURNAL_STEP("code", kfd_kernels(k, &d->code) ?: kfd_code_kernel(&d->code, "saxpy", &d->kernel),
	     "kernel=saxpy");
	JOURNAL_STEP("kernarg", kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &d->kernarg), "va=%p",
	     d->kernarg->va);
	JOURNAL_STEP("hdp_flush", kfd_hdp_flush(k), "va=%p", k->hdp->va);
	JOURNAL_STEP("signal", kfd_signal_create(k, 1, &d->signal), "event=%u", d->signal.event_id);
	JOURNAL_STEP("create_queue", kfd_queue_create(k, &d->q, 64), "queue=%u", d->q.id);
	kfd_fill_dispatch(&d->packet, &d->kernel, grid, group, d->kernarg->va, &d->signal);
	return 0;
}

static int map_plain(struct demo *d)
{
	void *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		return -errno;
	d->x = start;
	d->y = d->x + COUNT;
	return 0;
}

static void fill(struct demo *d)
{
	uint64_t *args = d->kernarg->va;
	const float factor = 2.0f;

	for (uint32_t i = 0; i < COUNT; i++) {
		d->x[i] = (float)i;
		d->y[i] = 1.0f;
	}
	args[0] = kfd_va(d->x);
	args[1] = kfd_va(d->y);
	memcpy(args + 2, &factor, sizeof(factor));
}

static int launch(struct demo *d)
{
	uint64_t index;

	JOURNAL_STEP("mmap", map_plain(d), "va=%p bytes=%lu", (void *)d->x, BYTES);
	journal_begin("cpu_writes");
	fill(d);
	journal_end("words=%u", COUNT * 2);
	journal_begin("packet_written");
	index = kfd_queue_write(&d->q, &d->packet);
	journal_end("index=%llu", (unsigned long long)index);
	journal_begin("doorbell_rung");
	kfd_queue_ring(&d->q, index);
	journal_end("address=%p value=%llu", (void *)d->q.doorbell, (unsigned long long)index);
	JOURNAL_STEP("wait_events", kfd_signal_wait(&d->k, &d->signal, WAIT_MS),
	     "event=%u signal_value=%lld", d->signal.event_id, (long long)d->signal.s->value);
	return 0;
}

/* The first of these accesses faults. */
static uint32_t wrong_results(struct demo *d)
{
	uint32_t wrong = 0;

	journal_begin("cpu_reads");
	for (uint32_t i = 0; i < COUNT; i++)
		wrong += d->y[i] != 2.0f * (float)i + 1.0f;
	journal_end("results=%u wrong=%u", COUNT, wrong);
	return wrong;
}

static int demo(struct demo *d)
{
	JOURNAL_STEP("open", kfd_open(&d->k), "file=/dev/kfd version=%u.%u", d->k.major, d->k.minor);
	if (!(d->k.node.capability & SVM_CAPABLE) || is_gfx12(&d->k.node)) {
		d->skipped = true;
		return 0;
	}
	return prepare(d) ?: launch(d) ?: (int)wrong_results(d);
}

int main(void)
{
	/*
	 * The steps of the driver. The wave goes on as soon as the PTE is written, which may be
	 * before the driver records it.
	 */
	static const char *const gpu[] = { "svm:fault",	   "svm:migrate_to_vram", "sdma_job",
					   "svm:migrated", "svm:mapped",	  "svm:acknowledged" };
	static const char *const cpu[] = { "svm:migrated", "event:interrupt", "svm:migrate_to_system",
					   "svm:unmapped", "sdma_job",	      "svm:migrated" };
	static struct demo d;
	const char *missing = NULL;
	int traced = journal_trace_start("rkfd"), ret;

	ret = demo(&d);
	if (!traced)
		journal_trace_stop();
	if (d.skipped) {
		printf("KTAP version 1\n1..1\n");
		printf("ok 1 svmfault # SKIP the GPU has no retry faults\n");
		return 0;
	}
	journal_print();
	if (!traced)
		missing = journal_misses(gpu, 6) ?: journal_misses(cpu, 6);
	else
		printf("(no tracepoints of the driver: %s)\n", strerror(-traced));
	if (missing)
		fprintf(stderr, "svmfault: no step '%s' of the driver in its place\n", missing);
	if (ret || missing || kfd_queue_destroy(&d.q))
		return 1;
	printf("\nsvmfault: %u results right, one fault of the GPU and one of the CPU, PASS\n", COUNT);
	return 0;
}
