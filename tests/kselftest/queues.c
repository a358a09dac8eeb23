// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests CREATE_QUEUE, DESTROY_QUEUE and UPDATE_QUEUE: effects, and every argument check. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "pm4.h"
#include "queue-calls.h"

/* With those that run more than the runlist of one page has room for, and fewer than the limits. */
#define DISABLED_QUEUES (memory_fails() ? 2u : gpu_is_gfx12() ? 100u : 160u)

/* Buffers of a queue, and valid arguments to create it. */
struct plan {
	struct kfd k;
	struct kfd_queue q;
	struct kfd_ioctl_create_queue_args args;
};

static void plan(struct plan *p)
{
	fixture_open(&p->k);
	ASSERT_OK(kfd_queue_prepare(&p->k, &p->q, 64, &p->args));
}

/* Each case changes one member and expects an errno. */
#define REFUSED(member, value, wanted)                                                   \
	do {                                                                             \
		struct kfd_ioctl_create_queue_args args_ = p.args;                       \
		args_.member = (value);                                                  \
		EXPECT_RET(create(&p.k, args_), wanted);                                 \
	} while (0)

TEST(create_returns_doorbell_offset)
{
	struct plan p;

	plan(&p);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
	EXPECT_EQ(p.q.id, 0);
	EXPECT_EQ(p.args.doorbell_offset >> 62, 3);
	EXPECT_EQ(p.args.doorbell_offset >> 46 & 0xffff, p.k.node.gpu_id & 0xffff);
	EXPECT_EQ(p.args.doorbell_offset % 8, 0);
	EXPECT_OK(destroy(&p.k, p.q.id));
	EXPECT_RET(destroy(&p.k, p.q.id), -EINVAL);
}

TEST(create_checks_arguments)
{
	struct plan p;

	plan(&p);
	REFUSED(queue_percentage, 101, -EINVAL);
	REFUSED(queue_percentage, 0xff, -EINVAL);
	REFUSED(queue_priority, 16, -EINVAL);
	REFUSED(queue_priority, ~0u, -EINVAL);
	REFUSED(ring_size, 4096 + 64, -EINVAL);
	REFUSED(ring_size, 3 << 20, -EINVAL);
	REFUSED(metadata_ring_size, 3, -EINVAL);
	REFUSED(queue_type, 5, -ENOTSUPP);
	REFUSED(queue_type, ~0u, -ENOTSUPP);
	REFUSED(gpu_id, NO_SUCH_GPU, -EINVAL);
	REFUSED(gpu_id, 0, -EINVAL);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

TEST(create_refuses_kernel_addresses)
{
	struct plan p;

	plan(&p);
	REFUSED(ring_base_address, KERNEL_ADDRESS, -EFAULT);
	REFUSED(read_pointer_address, KERNEL_ADDRESS, -EFAULT);
	REFUSED(write_pointer_address, KERNEL_ADDRESS, -EFAULT);
	REFUSED(eop_buffer_address, KERNEL_ADDRESS, -EFAULT);
	REFUSED(ctx_save_restore_address, KERNEL_ADDRESS, -EFAULT);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

/* With several invalid members the errno is that of the first check. */
TEST(create_checks_in_order)
{
	struct kfd_ioctl_create_queue_args args;
	struct plan p;

	plan(&p);
	args = p.args;
	args.queue_type = 99;
	args.gpu_id = NO_SUCH_GPU;
	EXPECT_RET(create(&p.k, args), -ENOTSUPP);
	args.ctx_save_restore_address = KERNEL_ADDRESS;
	EXPECT_RET(create(&p.k, args), -EFAULT);
	args.metadata_ring_size = 3;
	EXPECT_RET(create(&p.k, args), -EINVAL);
	args.metadata_ring_size = 0;
	args.ring_base_address = KERNEL_ADDRESS;
	args.ring_size = 5000;
	EXPECT_RET(create(&p.k, args), -EFAULT);
	args.queue_priority = 16;
	EXPECT_RET(create(&p.k, args), -EINVAL);
}

TEST(create_without_vm_is_esrch)
{
	struct kfd_ioctl_create_queue_args args = { 0 };
	struct kfd k;

	fixture_open_only(&k);
	args.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	args.ring_size = 4096;
	args.queue_percentage = 100;
	args.gpu_id = k.node.gpu_id;
	EXPECT_RET(create(&k, args), -ESRCH);
	args.gpu_id = NO_SUCH_GPU;
	EXPECT_RET(create(&k, args), -EINVAL);
}

TEST(create_refuses_unmapped_buffers)
{
	static char plain[8192] __attribute__((aligned(4096)));
	struct plan p;

	plan(&p);
	REFUSED(ring_base_address, kfd_va(plain), -EINVAL);
	REFUSED(ring_base_address, 0, -EINVAL);
	REFUSED(read_pointer_address, kfd_va(plain), -EINVAL);
	REFUSED(read_pointer_address, 0, -EINVAL);
	REFUSED(write_pointer_address, kfd_va(plain), -EINVAL);
	REFUSED(write_pointer_address, 0, -EINVAL);
	REFUSED(ctx_save_restore_address, kfd_va(plain), -EINVAL);
	REFUSED(ctx_save_restore_address, 0, -EINVAL);
	REFUSED(eop_buffer_address, kfd_va(plain), -EINVAL);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

TEST(create_refuses_wrong_buffer_sizes)
{
	struct kfd_bo *big;
	struct plan p;

	plan(&p);
	REFUSED(ring_size, p.args.ring_size * 2, -EINVAL);
	/* Half of the ring's BO is a wrong size too; sizes below a page are not compared. */
	ASSERT_OK(kfd_bo_create(&p.k, 16384, KFD_FLAGS_GTT, &big));
	REFUSED(ring_base_address, kfd_va(big->va), -EINVAL);
	REFUSED(ring_base_address, kfd_va(big->va) + 4096, -EINVAL);
	REFUSED(read_pointer_address, kfd_va(big->va), -EINVAL);
	REFUSED(write_pointer_address, kfd_va(big->va) + 4096, -EINVAL);
	REFUSED(ctl_stack_size, p.args.ctl_stack_size + 4096, -EINVAL);
	REFUSED(ctl_stack_size, 0, -EINVAL);
	REFUSED(ctx_save_restore_size, p.args.ctx_save_restore_size - 1, -EINVAL);
	REFUSED(ctx_save_restore_size, 0, -EINVAL);
	/* Larger than the BO. */
	REFUSED(ctx_save_restore_size, p.args.ctx_save_restore_size + 4096, -EINVAL);
	REFUSED(ctx_save_restore_address, kfd_va(big->va), -EINVAL);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

/* The registers of an XCC take the page of its save area, which begins behind that of the last. */
TEST(save_areas_begin_at_pages)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo *area;
	struct plan p;

	plan(&p);
	if (p.k.node.num_xcc < 2)
		SKIP("the node has one XCC");
	args = p.args;
	args.ctx_save_restore_size += 256;
	ASSERT_OK(kfd_bo_create(&p.k, kfd_cwsr_bytes(&p.k.node) + KFD_PAGE, KFD_FLAGS_GTT, &area));
	args.ctx_save_restore_address = kfd_va(area->va);
	EXPECT_RET(create(&p.k, args), -EINVAL);
	EXPECT_OK(kfd_bo_free(&p.k, area));
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

/* MQDs have no room for the low bits of an address. The C driver writes it there nevertheless. */
TEST(buffers_are_aligned)
{
	struct kfd_bo *eop;
	struct plan p;

	plan(&p);
	ASSERT_OK(kfd_bo_create(&p.k, KFD_PAGE, KFD_FLAGS_GTT, &eop));
	p.args.eop_buffer_size = KFD_PAGE;
	if (ktap_is_rkfd()) {
		REFUSED(ring_base_address, p.args.ring_base_address + 128, -EINVAL);
		REFUSED(read_pointer_address, p.args.read_pointer_address + 2, -EINVAL);
		REFUSED(write_pointer_address, p.args.write_pointer_address + 4, -EINVAL);
		REFUSED(ctx_save_restore_address, p.args.ctx_save_restore_address + 256, -EINVAL);
		REFUSED(eop_buffer_address, kfd_va(eop->va) + 128, -EINVAL);
	}
	p.args.eop_buffer_address = kfd_va(eop->va);
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

TEST(create_with_eop_buffer)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo *eop;
	struct plan p;

	plan(&p);
	ASSERT_OK(kfd_bo_create(&p.k, 4096, KFD_FLAGS_GTT, &eop));
	args = p.args;
	args.eop_buffer_address = kfd_va(eop->va);
	args.eop_buffer_size = 2048;
	EXPECT_RET(create(&p.k, args), -EINVAL);
	args.eop_buffer_size = 8192;
	EXPECT_RET(create(&p.k, args), -EINVAL);
	args.eop_buffer_size = 4096;
	ASSERT_OK(kfd_queue_start(&p.q, &args));
	EXPECT_OK(destroy(&p.k, p.q.id));
	EXPECT_OK(kfd_bo_free(&p.k, eop));
}

TEST(unknown_engine_is_einval)
{
	struct kfd_ioctl_create_queue_args args;
	struct plan p;

	plan(&p);
	args = p.args;
	args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	args.sdma_engine_id = p.k.node.num_sdma_engines + p.k.node.num_sdma_xgmi_engines;
	EXPECT_RET(create(&p.k, args), -EINVAL);
	args.sdma_engine_id = ~0u;
	EXPECT_RET(create(&p.k, args), -EINVAL);
}

/* Rings below 1024 bytes count as 1024. */
TEST(small_rings_are_rounded_up)
{
	struct plan p;

	plan(&p);
	p.args.ring_size = 64;
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
	EXPECT_EQ(p.args.ring_size, KFD_MIN_QUEUE_RING_SIZE);
	EXPECT_OK(destroy(&p.k, p.q.id));
	p.args.ring_size = 0;
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
	EXPECT_OK(destroy(&p.k, p.q.id));
}

TEST(priorities_and_percentages)
{
	struct plan p;

	plan(&p);
	for (uint32_t priority = 0; priority <= 15; priority++) {
		p.args.queue_priority = priority;
		ASSERT_OK(kfd_queue_start(&p.q, &p.args));
		EXPECT_OK(destroy(&p.k, p.q.id));
	}
	for (uint32_t percent = 0; percent <= 100; percent += 25) {
		p.args.queue_percentage = percent;
		ASSERT_OK(kfd_queue_start(&p.q, &p.args));
		EXPECT_OK(destroy(&p.k, p.q.id));
	}
}

/* A running PM4 queue; its indices and doorbell count dwords. */
static void plan_pm4(struct plan *p)
{
	struct kfd_bo *eop;

	plan(p);
	ASSERT_OK(kfd_bo_create(&p->k, 4096, KFD_FLAGS_GTT, &eop));
	p->args.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE;
	p->args.eop_buffer_address = kfd_va(eop->va);
	p->args.eop_buffer_size = 4096;
	ASSERT_OK(kfd_queue_start(&p->q, &p->args));
	ASSERT_OK(kfd_queue_map_doorbell(&p->q));
}

static void submit_pm4(struct kfd_queue *q, const uint32_t *words, uint32_t count)
{
	uint32_t *ring = q->ring->va, dwords = q->packets * sizeof(struct aql_dispatch) / 4;
	uint64_t wptr = q->q->write_dispatch_id;

	for (uint32_t i = 0; i < count; i++)
		ring[(wptr + i) & (dwords - 1)] = words[i];
	__atomic_store_n(&q->q->write_dispatch_id, wptr + count, __ATOMIC_RELEASE);
	kfd_queue_ring(q, wptr + count);
}

TEST(create_pm4_queue)
{
	struct plan p;

	plan_pm4(&p);
	EXPECT_OK(destroy(&p.k, p.q.id));
}

/* The interrupt of RELEASE_MEM carries the event's id; the data is the event's mailbox. */
TEST(pm4_queue_signals_event)
{
	volatile uint64_t *data;
	struct kfd_signal one, two;
	struct kfd_bo *buffer;
	uint64_t clock = 0;
	struct plan p;

	plan_pm4(&p);
	ASSERT_OK(kfd_bo_create(&p.k, 4096, KFD_FLAGS_GTT, &buffer));
	ASSERT_OK(kfd_signal_create(&p.k, 0, &one));
	ASSERT_OK(kfd_signal_create(&p.k, 0, &two));
	data = buffer->va;
	/* More dwords in all than the ring has. */
	for (uint32_t i = 0; i < 100; i++) {
		struct kfd_signal *signal = i % 2 ? &one : &two, *other = i % 2 ? &two : &one;
		uint32_t words[16];

		pm4_release_mem(words, PM4_CLOCK, kfd_va((void *)data), 0, 0);
		pm4_release_mem(words + 8, PM4_DATA | PM4_INTERRUPT, signal->s->event_mailbox_ptr,
				signal->event_id, signal->event_id);
		submit_pm4(&p.q, words, 16);
		ASSERT_EQ(event_result(&p.k, signal->event_id, WAIT_MS),
			  KFD_IOC_WAIT_RESULT_COMPLETE);
		ASSERT_EQ(event_result(&p.k, other->event_id, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
		EXPECT(*data > clock, "clock %llu after %llu", (unsigned long long)*data,
		       (unsigned long long)clock);
		clock = *data;
	}
	EXPECT_OK(destroy(&p.k, p.q.id));
}

/*
 * An id beyond the event page signals the events whose mailboxes are not empty. Two ids do not:
 * gfx9 ignores 0, which firmware sends without a request, gfx12 those with the flag of the kernel's
 * fences on queues of MES.
 */
TEST(pm4_queue_with_invalid_event_id)
{
	static const uint32_t ids[] = { 0xfffff, 0, 0x1000001 };
	struct kfd_signal one, two;
	struct plan p;

	plan_pm4(&p);
	ASSERT_OK(kfd_signal_create(&p.k, 0, &one));
	ASSERT_OK(kfd_signal_create(&p.k, 0, &two));
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		bool ignored = ids[i] == (is_gfx12(&p.k.node) ? 0x1000001 : 0);
		uint32_t words[16];

		pm4_release_mem(words, PM4_DATA | PM4_INTERRUPT, two.s->event_mailbox_ptr, 1, ids[i]);
		pm4_release_mem(words + 8, PM4_DATA | PM4_INTERRUPT, one.s->event_mailbox_ptr,
				one.event_id, one.event_id);
		submit_pm4(&p.q, words, 8);
		if (!ignored)
			EXPECT_EQ(event_result(&p.k, two.event_id, WAIT_MS),
				  KFD_IOC_WAIT_RESULT_COMPLETE);
		EXPECT_EQ(event_result(&p.k, one.event_id, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
		/* Interrupts are handled in order. */
		submit_pm4(&p.q, words + 8, 8);
		EXPECT_EQ(event_result(&p.k, one.event_id, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
		EXPECT_EQ(event_result(&p.k, two.event_id, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	}
	EXPECT_OK(destroy(&p.k, p.q.id));
}

TEST(destroy_unknown_queue_is_einval)
{
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(destroy(&k, 0), -EINVAL);
	EXPECT_RET(destroy(&k, 12345), -EINVAL);
	EXPECT_RET(destroy(&k, ~0u), -EINVAL);
}

TEST(queue_id_is_lowest_free)
{
	struct kfd_queue q[4];
	struct kfd k;

	fixture_open(&k);
	for (uint32_t i = 0; i < 4; i++) {
		ASSERT_OK(kfd_queue_create(&k, &q[i], 64));
		EXPECT_EQ(q[i].id, i);
	}
	for (int i = 0; i < 4; i++)
		for (int n = 0; n < i; n++)
			EXPECT(q[i].doorbell_offset != q[n].doorbell_offset);
	ASSERT_OK(kfd_queue_destroy(&q[1]));
	ASSERT_OK(kfd_queue_create(&k, &q[1], 64));
	EXPECT_EQ(q[1].id, 1);
}

TEST(dispatches)
{
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 200; i++)
		ASSERT(fixture_works(&f), "round %d", i);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST(two_queues_of_a_process)
{
	uint32_t *words;
	struct kfd_signal second;
	struct kfd_queue q;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &q, 128));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &second));
	words = f.data->va;
	for (uint32_t i = 1; i <= 50; i++) {
		fixture_fill_start(&f, &f.q, &f.signal, 0, words, 1024, i);
		fixture_fill_start(&f, &q, &second, 1, words + 1024, 1024, ~i);
		ASSERT_OK(kfd_signal_wait(&f.k, &second, WAIT_MS));
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		ASSERT_EQ(words[0], i);
		ASSERT_EQ(words[1023], i);
		ASSERT_EQ(words[1024], ~i);
		ASSERT_EQ(words[2047], ~i);
	}
	EXPECT_OK(kfd_queue_destroy(&q));
	ASSERT(fixture_works(&f));
}

TEST(update_errors)
{
	struct kfd_queue unknown;
	struct fixture f;
	static char plain[8192] __attribute__((aligned(4096)));
	uint64_t ring;

	fixture_launch(&f);
	ring = kfd_va(f.q.ring->va);
	unknown = f.q;
	unknown.id = 77;
	EXPECT_RET(update(f.q.k, f.q.id, ring, 4096, 101, 7), -EINVAL);
	EXPECT_RET(update(f.q.k, f.q.id, ring, 4096, 100, 16), -EINVAL);
	EXPECT_RET(update(f.q.k, f.q.id, KERNEL_ADDRESS, 4096, 100, 7), -EFAULT);
	EXPECT_RET(update(f.q.k, f.q.id, ring, 4095, 100, 7), -EINVAL);
	EXPECT_RET(update(unknown.k, unknown.id, ring, 4096, 100, 7), -EFAULT);
	EXPECT_RET(update(f.q.k, f.q.id, kfd_va(plain), 4096, 100, 7), -EFAULT);
	EXPECT_RET(update(f.q.k, f.q.id, ring, 8192, 100, 7), -EFAULT);
	/* No rejected update changed the queue. */
	EXPECT(fixture_works(&f));
	EXPECT_OK(update(f.q.k, f.q.id, ring, 4096, 100, 15));
	EXPECT(fixture_works(&f));
	EXPECT_OK(update(f.q.k, f.q.id, ring, 4096, 100, 0));
	EXPECT(fixture_works(&f));
}

/* At 0 % a queue is inactive; its packets run once it is active again. */
TEST(paused_queue_waits)
{
	uint32_t *words;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	ASSERT(fixture_works(&f));
	ASSERT_OK(update(f.q.k, f.q.id, kfd_va(f.q.ring->va), 4096, 0, 7));
	words[0] = 0;
	fixture_fill_start(&f, &f.q, &f.signal, 0, words, 64, 4711);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 300), -ETIME);
	EXPECT_EQ(words[0], 0);
	ASSERT_OK(update(f.q.k, f.q.id, kfd_va(f.q.ring->va), 4096, 100, 7));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(words[0], 4711);
	/* Without a ring it is inactive as well. */
	ASSERT_OK(update(f.q.k, f.q.id, 0, 0, 100, 7));
	fixture_fill_start(&f, &f.q, &f.signal, 0, words, 64, 4712);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 300), -ETIME);
	ASSERT_OK(update(f.q.k, f.q.id, kfd_va(f.q.ring->va), 4096, 100, 7));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(words[0], 4712);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* A queue created inactive starts when it is updated. */
TEST(create_paused_queue)
{
	volatile uint64_t *real, elsewhere = 0;
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q;
	uint32_t *words;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	ASSERT_OK(kfd_queue_prepare(&f.k, &q, 64, &args));
	args.queue_percentage = 0;
	ASSERT_OK(kfd_queue_start(&q, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&q));
	/* The doorbell has no effect yet: the packet is written, the ring is set later. */
	real = q.doorbell;
	q.doorbell = &elsewhere;
	fixture_fill_start(&f, &q, &f.signal, 0, words, 64, 5);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 200), -ETIME);
	ASSERT_OK(update(q.k, q.id, kfd_va(q.ring->va), 4096, 100, 7));
	*real = elsewhere;
	q.doorbell = real;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(words[63], 5);
	EXPECT_OK(kfd_queue_destroy(&q));
}

/* Writes the packet of many workgroups, which write to half `n` of the data; returns its index. */
static uint64_t put_many(struct fixture *f, struct kfd_queue *q, struct kfd_signal *signal,
			 unsigned int n)
{
	const uint32_t grid[3] = { 131072 * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	char *kernarg = (char *)f->kernarg->va + 256 * n;
	uint64_t at = kfd_va(f->data->va) + 4 * 131072 * n;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "hw_id", &kernel));
	memcpy(kernarg, &at, 8);
	signal->s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, signal);
	return kfd_queue_write(q, &packet);
}

/* Work of the highest priority ends before work of the lowest that was started earlier. */
TEST_TIMEOUT(high_priority_finishes_first, 120)
{
	static const uint32_t priorities[2] = { 0, 15 };
	struct kfd_signal signals[2];
	struct kfd_queue queues[2];
	uint64_t packets[2];
	struct fixture f;

	fixture_load(&f);
	for (unsigned int n = 0; n < 2; n++) {
		struct kfd_ioctl_create_queue_args args;

		ASSERT_OK(kfd_queue_prepare(&f.k, &queues[n], 64, &args));
		args.queue_priority = priorities[n];
		ASSERT_OK(kfd_queue_start(&queues[n], &args));
		ASSERT_OK(kfd_queue_map_doorbell(&queues[n]));
		/* AMD_QUEUE_PROPERTIES_ENABLE_PROFILING: end_ts of signals. */
		queues[n].q->queue_properties |= 1u << 3;
		ASSERT_OK(kfd_signal_create(&f.k, 1, &signals[n]));
		packets[n] = put_many(&f, &queues[n], &signals[n], n);
	}
	for (unsigned int n = 0; n < 2; n++)
		kfd_queue_ring(&queues[n], packets[n]);
	for (unsigned int n = 0; n < 2; n++)
		EXPECT_OK(kfd_signal_wait(&f.k, &signals[n], 60000));
	EXPECT(signals[1].s->end_ts < signals[0].s->end_ts, "low: %llu, high: %llu",
	       (unsigned long long)signals[0].s->end_ts, (unsigned long long)signals[1].s->end_ts);
}

/* Inactive queues need no HQD, so that the limit per process is reached fast. */
TEST_TIMEOUT(queue_limit_is_enospc, 120)
{
	struct plan p;
	uint32_t created = 0;
	int ret;

	plan(&p);
	p.args.queue_percentage = 0;
	while (created < 1100) {
		struct kfd_ioctl_create_queue_args args = p.args;

		ret = kfd_ioctl(p.k.fd, AMDKFD_IOC_CREATE_QUEUE, &args);
		if (ret)
			break;
		EXPECT_EQ(args.queue_id, created);
		created++;
	}
	EXPECT_RET(ret, -ENOSPC);
	EXPECT_EQ(created, is_gfx12(&p.k.node) ? 127 : 255);
	for (uint32_t i = 0; i < created; i++)
		ASSERT_OK(destroy(&p.k, i));
	p.args.queue_percentage = 100;
	ASSERT_OK(kfd_queue_start(&p.q, &p.args));
}

/* Disabled queues take no room in the runlist from those that run, and can be enabled. */
TEST_TIMEOUT(disabled_queues_take_no_room, 120)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue second, disabled;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_OK(kfd_queue_prepare(&f.k, &disabled, 64, &args));
	args.queue_percentage = 0;
	for (unsigned int i = 0; i < DISABLED_QUEUES; i++) {
		struct kfd_ioctl_create_queue_args again = args;

		ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_CREATE_QUEUE, &again));
	}
	ASSERT_OK(kfd_queue_start(&disabled, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&disabled));
	/* A change for which no memory is allocated. */
	EXPECT_OK(kfd_queue_destroy(&second));
	EXPECT(fixture_works(&f));
	ASSERT_OK(fixture_update_queue(&disabled, 100));
	EXPECT_OK(fixture_fill(&f, &disabled, f.data->va, 64, 7));
}

/* Barrier packets: AND waits for all of its signals, OR for one. */
TEST(barrier_packets)
{
	struct kfd_signal dep[2], done;
	struct aql_barrier packet;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_signal_create(&f.k, 1, &dep[0]));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &dep[1]));
	ASSERT_OK(kfd_signal_create(&f.k, 1, &done));
	memset(&packet, 0, sizeof(packet));
	packet.header = AQL_HEADER(AQL_BARRIER_AND, true);
	packet.dep_signal[0] = kfd_va(dep[0].s);
	packet.dep_signal[3] = kfd_va(dep[1].s);
	packet.completion_signal = kfd_va(done.s);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	EXPECT_RET(kfd_signal_wait(&f.k, &done, 200), -ETIME);
	__atomic_store_n(&dep[0].s->value, 0, __ATOMIC_RELEASE);
	EXPECT_RET(kfd_signal_wait(&f.k, &done, 200), -ETIME);
	__atomic_store_n(&dep[1].s->value, 0, __ATOMIC_RELEASE);
	ASSERT_OK(kfd_signal_wait(&f.k, &done, WAIT_MS));
	EXPECT_EQ(done.s->value, 0);

	dep[0].s->value = dep[1].s->value = done.s->value = 1;
	packet.header = AQL_HEADER(AQL_BARRIER_OR, true);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	EXPECT_RET(kfd_signal_wait(&f.k, &done, 200), -ETIME);
	__atomic_store_n(&dep[1].s->value, 0, __ATOMIC_RELEASE);
	ASSERT_OK(kfd_signal_wait(&f.k, &done, WAIT_MS));
	/* Without signals there is nothing to wait for. */
	memset(packet.dep_signal, 0, sizeof(packet.dep_signal));
	packet.header = AQL_HEADER(AQL_BARRIER_AND, true);
	done.s->value = 1;
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT_OK(kfd_signal_wait(&f.k, &done, WAIT_MS));
	EXPECT(fixture_works(&f));
}

/* Vendor packet of format 1: jumps to a PM4 IB, as the runtime does to invalidate caches. */
TEST(vendor_packet_runs_pm4)
{
	struct {
		uint16_t header, format;
		uint32_t pm4[4], dw_cnt_remain, reserved[8];
		uint64_t completion_signal;
	} packet;
	struct kfd_signal done;
	struct kfd_bo *buffer;
	uint32_t *ib;
	struct fixture f;

	_Static_assert(sizeof(packet) == 64, "AMD vendor packet");
	fixture_launch(&f);
	ASSERT_OK(kfd_signal_create(&f.k, 1, &done));
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_FLAGS_GTT, &buffer));
	ib = buffer->va;
	/* ACQUIRE_MEM of the whole range: sent by the runtime after loading code. */
	ib[0] = 0xc0055800;
	ib[1] = 0x28840000;
	ib[2] = ~0u;
	ib[3] = 0xff;
	ib[4] = ib[5] = 0;
	ib[6] = 4;
	if (is_gfx12(&f.k.node)) {
		/* gcr_cntl has a dword of its own: write back and invalidate all caches. */
		ib[0] = 0xc0065800;
		ib[1] = 0;
		ib[7] = 0xc3f1;
	}
	memset(&packet, 0, sizeof(packet));
	packet.header = AQL_HEADER(AQL_VENDOR, true);
	packet.format = 1;
	packet.pm4[0] = 0xc0023f00;
	packet.pm4[1] = (uint32_t)kfd_va(ib);
	packet.pm4[2] = (uint32_t)(kfd_va(ib) >> 32);
	packet.pm4[3] = (is_gfx12(&f.k.node) ? 8 : 7) | 1 << 23;
	packet.dw_cnt_remain = 10;
	packet.completion_signal = kfd_va(done.s);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT_OK(kfd_signal_wait(&f.k, &done, WAIT_MS));
	EXPECT(fixture_works(&f));
}

/* Several packets per doorbell, more in all than the ring holds, in order. */
TEST(several_packets_per_doorbell)
{
	uint32_t *words;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	for (uint32_t round = 0; round < 20; round++) {
		const uint32_t grid[3] = { 64, 1, 1 };
		const uint16_t group[3] = { 64, 1, 1 };
		struct aql_dispatch packet;
		struct kfd_kernel kernel;
		uint64_t index = 0;

		ASSERT_OK(fixture_kernel(&f, "fill", &kernel));
		f.signal.s->value = 16;
		for (uint32_t i = 0; i < 16; i++) {
			char *kernarg = (char *)f.kernarg->va + i * 256;
			uint64_t to = kfd_va(words);
			uint32_t value = round * 100 + i;

			memcpy(kernarg, &to, 8);
			memcpy(kernarg + 8, &value, 4);
			kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f.signal);
			index = kfd_queue_write(&f.q, &packet);
		}
		kfd_queue_ring(&f.q, index);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		ASSERT_EQ(f.signal.s->value, 0);
		/* The barrier bit in each packet makes the last one finish last. */
		ASSERT_EQ(words[0], round * 100 + 15);
		ASSERT_EQ(f.q.q->read_dispatch_id, (uint64_t)(round + 1) * 16);
	}
}

#define FLIGHTS 24u
#define AHEAD 8u

/*
 * Packets without the barrier bit are in flight together: each waits for one 8 positions later, the
 * last ones for the host. The one with the barrier bit starts behind all of them.
 */
TEST(packets_wait_for_later_ones)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *started, *flags;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	struct kfd_signal last;
	uint64_t index = 0;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_signal_create(&f.k, 1, &last));
	ASSERT_OK(fixture_kernel(&f, "relay", &kernel));
	started = f.data->va;
	flags = started + 16;
	f.signal.s->value = FLIGHTS;
	for (uint32_t i = 0; i <= FLIGHTS; i++) {
		const uint64_t args[3] = { kfd_va((void *)started), kfd_va((void *)&flags[i + AHEAD]),
					   kfd_va((void *)&flags[i]) };
		char *kernarg = (char *)f.kernarg->va + i * 64;

		memcpy(kernarg, args, sizeof(args));
		kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg,
				  i == FLIGHTS ? &last : &f.signal);
		packet.header = AQL_HEADER(AQL_KERNEL_DISPATCH, i == FLIGHTS);
		index = kfd_queue_write(&f.q, &packet);
	}
	kfd_queue_ring(&f.q, index);
	EXPECT(becomes(started, FLIGHTS, WAIT_MS), "%u of %u dispatches are in flight", *started,
	       FLIGHTS);
	EXPECT_RET(kfd_signal_wait(&f.k, &last, 200), -ETIME);
	EXPECT_EQ(*started, FLIGHTS);
	EXPECT_EQ(f.signal.s->value, FLIGHTS);
	for (uint32_t i = 0; i < AHEAD; i++)
		flags[FLIGHTS + i] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(becomes(started, FLIGHTS + 1, WAIT_MS), "%u", *started);
	EXPECT(last.s->value == 1);
	flags[FLIGHTS + AHEAD] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &last, WAIT_MS));
}
