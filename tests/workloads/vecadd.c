// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Demo: c = a + b over 1,048,576 floats in 4096 workgroups of 256, dispatched through a doorbell of
 * /dev/kfd, completion by an event. Prints the steps of the dispatch in each layer; then dispatches
 * 100 more times and counts their system calls. Exits with 0 only if every sum is right and the
 * wait was the only system call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "journal.h"
#include "kfd.h"
#include "syscalls.h"

#define GROUP 256u
#define WAIT_MS 60000u

static unsigned int groups = 4096, relaunches = 100;

struct demo {
	struct kfd k;
	struct kfd_bo *a, *b, *c, *kernarg;
	struct kfd_code code;
	struct kfd_kernel kernel;
	struct kfd_queue q;
	struct kfd_signal signal;
	struct aql_dispatch packet;
};

static float *floats(struct kfd_bo *bo)
{
	return bo->va;
}

/* Values with exact sums, comparable for equality. */
static void fill_inputs(struct demo *d)
{
	for (uint32_t i = 0; i < groups * GROUP; i++) {
		floats(d->a)[i] = (float)(i & 0xffff) * 0.5f;
		floats(d->b)[i] = (float)(i >> 4);
		floats(d->c)[i] = -1.0f;
	}
}

static uint32_t wrong_sums(struct demo *d)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < groups * GROUP; i++) {
		if (floats(d->c)[i] == floats(d->a)[i] + floats(d->b)[i])
			continue;
		if (wrong++ < 4)
			fprintf(stderr, "vecadd: c[%u] is %f, not %f\n", i, floats(d->c)[i],
				floats(d->a)[i] + floats(d->b)[i]);
	}
	return wrong;
}

static int open_device(struct demo *d)
{
	struct kfd *k = &d->k;

	JOURNAL_STEP("open+get_version", kfd_open_device(k), "file=/dev/kfd fd=%d version=%u.%u", k->fd,
	     k->major, k->minor);
	JOURNAL_STEP("topology", kfd_topology_find_gpu(&k->node),
	     "node=%d gpu_id=%u gfx=%u cus=%u xcc=%u vram_mib=%llu", k->node.index, k->node.gpu_id,
	     k->node.gfx_target_version, k->node.simd_count / k->node.simd_per_cu, k->node.num_xcc,
	     (unsigned long long)k->node.vram_bytes >> 20);
	JOURNAL_STEP("open_render_node", kfd_open_render(k), "file=/dev/dri/renderD%u fd=%d",
	     k->node.drm_render_minor, k->drm);
	JOURNAL_STEP("get_apertures", kfd_get_apertures(k), "gpuvm=%#llx-%#llx lds=%#llx scratch=%#llx",
	     (unsigned long long)k->apertures.gpuvm_base,
	     (unsigned long long)k->apertures.gpuvm_limit,
	     (unsigned long long)k->apertures.lds_base,
	     (unsigned long long)k->apertures.scratch_base);
	JOURNAL_STEP("acquire_vm", kfd_acquire_vm(k), "gpu_id=%u", k->node.gpu_id);
	return 0;
}

static int allocate(struct demo *d)
{
	size_t bytes = (size_t)groups * GROUP * sizeof(float);
	struct kfd *k = &d->k;

	JOURNAL_STEP("alloc+map_a", kfd_bo_create(k, bytes, KFD_FLAGS_VRAM, &d->a),
	     "kind=vram bytes=%zu va=%p handle=%#llx", bytes, d->a->va,
	     (unsigned long long)d->a->handle);
	JOURNAL_STEP("alloc+map_b", kfd_bo_create(k, bytes, KFD_FLAGS_VRAM, &d->b),
	     "kind=vram bytes=%zu va=%p handle=%#llx", bytes, d->b->va,
	     (unsigned long long)d->b->handle);
	JOURNAL_STEP("alloc+map_c", kfd_bo_create(k, bytes, KFD_FLAGS_GTT, &d->c),
	     "kind=gtt bytes=%zu va=%p handle=%#llx", bytes, d->c->va,
	     (unsigned long long)d->c->handle);
	JOURNAL_STEP("alloc+map_kernarg", kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &d->kernarg),
	     "kind=gtt bytes=%lu va=%p", KFD_PAGE, d->kernarg->va);
	fill_inputs(d);
	((uint64_t *)d->kernarg->va)[0] = kfd_va(d->a->va);
	((uint64_t *)d->kernarg->va)[1] = kfd_va(d->b->va);
	((uint64_t *)d->kernarg->va)[2] = kfd_va(d->c->va);
	JOURNAL_STEP("load_code", kfd_kernels(k, &d->code), "bytes=%zu va=%p", d->code.image_size,
	     d->code.bo->va);
	JOURNAL_STEP("find_kernel", kfd_code_kernel(&d->code, "vecadd", &d->kernel),
	     "name=vecadd descriptor=%#llx", (unsigned long long)d->kernel.descriptor);
	/* Inputs and code are in VRAM. */
	JOURNAL_STEP("hdp_flush", kfd_hdp_flush(k), "va=%p", d->k.hdp->va);
	JOURNAL_STEP("event_page", kfd_event_create(k, KFD_IOC_EVENT_SIGNAL, true, &(uint32_t){ 0 }),
	     "va=%p slots=4096", k->event_page->va);
	JOURNAL_STEP("create_event+signal", kfd_signal_create(k, 1, &d->signal),
	     "event=%u signal=%p mailbox=%#llx", d->signal.event_id, (void *)d->signal.s,
	     (unsigned long long)d->signal.s->event_mailbox_ptr);
	return 0;
}

static int create_queue(struct demo *d)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue *q = &d->q;

	JOURNAL_STEP("queue_memory", kfd_queue_prepare(&d->k, q, 64, &args),
	     "ring=%p bytes=%u descriptor=%p cwsr=%p cwsr_bytes=%zu", q->ring->va, args.ring_size,
	     q->descriptor->va, q->cwsr->va, q->cwsr->size);
	JOURNAL_STEP("create_queue", kfd_queue_start(q, &args), "queue=%u doorbell_offset=%#llx", q->id,
	     (unsigned long long)q->doorbell_offset);
	JOURNAL_STEP("mmap_doorbell", kfd_queue_map_doorbell(q), "slice=%p doorbell=%p",
	     (void *)d->k.doorbells, (void *)q->doorbell);
	return 0;
}

static void prepare_packet(struct demo *d)
{
	const uint32_t grid[3] = { groups * GROUP, 1, 1 };
	const uint16_t group[3] = { GROUP, 1, 1 };

	kfd_fill_dispatch(&d->packet, &d->kernel, grid, group, d->kernarg->va, &d->signal);
}

static int first_launch(struct demo *d)
{
	uint64_t index;

	prepare_packet(d);
	journal_begin("packet_written");
	index = kfd_queue_write(&d->q, &d->packet);
	journal_end("index=%llu header=%#06x grid=%u group=%u kernarg=%#llx signal=%#llx",
		    (unsigned long long)index, d->packet.header, d->packet.grid_size[0],
		    d->packet.workgroup_size[0], (unsigned long long)d->packet.kernarg_address,
		    (unsigned long long)d->packet.completion_signal);
	journal_begin("doorbell_rung");
	kfd_queue_ring(&d->q, index);
	journal_end("address=%p value=%llu", (void *)d->q.doorbell, (unsigned long long)index);
	JOURNAL_STEP("wait_events", kfd_signal_wait(&d->k, &d->signal, WAIT_MS),
	     "event=%u signal_value=%lld", d->signal.event_id, (long long)d->signal.s->value);
	return 0;
}

/* Dispatches repeatedly; each workgroup must rewrite one element that was overwritten before. */
static uint32_t launch_again(struct demo *d)
{
	uint32_t bad = 0;

	for (unsigned int n = 0; n < relaunches; n++) {
		uint32_t at = n * 7 % GROUP;
		uint64_t index;

		for (unsigned int g = 0; g < groups; g++)
			floats(d->c)[g * GROUP + at] = -2.0f;
		d->signal.s->value = 1;
		index = kfd_queue_write(&d->q, &d->packet);
		kfd_queue_ring(&d->q, index);
		if (kfd_signal_wait(&d->k, &d->signal, WAIT_MS))
			return bad + 1;
		for (unsigned int g = 0; g < groups; g++) {
			uint32_t i = g * GROUP + at;

			bad += floats(d->c)[i] != floats(d->a)[i] + floats(d->b)[i];
		}
	}
	return bad;
}

static const char *call_name(uint64_t number, uint64_t request)
{
	static char text[64];

	if (number == SYS_ioctl && request == AMDKFD_IOC_WAIT_EVENTS)
		return "ioctl(/dev/kfd, WAIT_EVENTS)";
	if (number == SYS_ioctl)
		snprintf(text, sizeof(text), "ioctl(request %#llx)", (unsigned long long)request);
	else
		snprintf(text, sizeof(text), "system call %llu", (unsigned long long)number);
	return text;
}

/* Prints the table; returns the number of system calls other than the wait. */
static uint64_t print_calls(const struct syscall_table *table)
{
	uint64_t others = 0;

	printf("\nsystem calls during %u launches:\n%10s  %s\n", relaunches, "times", "call");
	for (uint32_t i = 0; i < table->used; i++) {
		bool wait = table->entry[i].number == SYS_ioctl &&
			    table->entry[i].request == AMDKFD_IOC_WAIT_EVENTS;

		printf("%10llu  %s\n", (unsigned long long)table->entry[i].times,
		       call_name(table->entry[i].number, table->entry[i].request));
		if (!wait)
			others += table->entry[i].times;
	}
	if (!table->used)
		printf("%10s  none at all\n", "");
	return others;
}

static int relaunch(struct demo *d, struct syscall_table *table)
{
	uint64_t start, took, others;
	uint32_t bad;
	int ret = syscalls_start();

	if (ret)
		return journal_failed("tracing the launches", ret);
	bad = launch_again(d);
	syscalls_stop();
	others = print_calls(table);
	printf("rkfd-demo: relaunch launches=%u other_system_calls=%llu wrong=%u\n", relaunches,
	       (unsigned long long)others, bad);
	if (!table->complete) {
		fprintf(stderr, "vecadd: the trace of the launches is incomplete\n");
		return 1;
	}
	if (others || bad)
		return 1;
	/* Once more without the tracer, to measure the time. */
	start = journal_now();
	d->signal.s->value = 1;
	kfd_queue_ring(&d->q, kfd_queue_write(&d->q, &d->packet));
	ret = kfd_signal_wait(&d->k, &d->signal, WAIT_MS);
	took = journal_now() - start;
	if (ret)
		return journal_failed("the last launch", ret);
	printf("a warm launch, from packet to wake-up: %.1f us\n", (double)took / 1e3);
	return 0;
}

static int tear_down(struct demo *d)
{
	int ret = kfd_queue_destroy(&d->q);

	if (!ret)
		ret = kfd_bo_free(&d->k, d->c);
	if (!ret)
		ret = kfd_bo_free(&d->k, d->b);
	if (!ret)
		ret = kfd_bo_free(&d->k, d->a);
	return ret;
}

static int demo(struct syscall_table *table)
{
	static struct demo d;
	int traced = journal_trace_start("rkfd");
	uint32_t wrong;
	int ret;

	ret = open_device(&d);
	if (!ret)
		ret = allocate(&d);
	if (!ret)
		ret = create_queue(&d);
	if (!ret)
		ret = first_launch(&d);
	if (!ret) {
		journal_begin("check");
		wrong = wrong_sums(&d);
		journal_end("sums=%u wrong=%u", groups * GROUP, wrong);
		ret = wrong ? 1 : 0;
	}
	if (!traced)
		journal_trace_stop();
	journal_print();
	if (traced)
		printf("(no tracepoints of the driver: %s)\n", strerror(-traced));
	if (ret) {
		if (d.q.inactive.s)
			fprintf(stderr, "vecadd: the queue's error word is %#llx\n",
				(unsigned long long)d.q.inactive.s->value);
		return 1;
	}
	ret = relaunch(&d, table);
	wrong = wrong_sums(&d);
	if (ret || wrong)
		return 1;
	ret = tear_down(&d);
	if (ret)
		return journal_failed("tear down", ret);
	printf("\nvecadd: %u sums right, %u launches, PASS\n", groups * GROUP, relaunches + 2);
	return 0;
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "g:n:h")) != -1) {
		switch (option) {
		case 'g':
			groups = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			relaunches = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		default:
			fprintf(stderr,
				"usage: vecadd [-g groups of 256 (4096)] "
				"[-n launches after the first (100)]\n");
			return 2;
		}
	}
	return syscalls_run(demo);
}
