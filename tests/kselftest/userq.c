// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user queues of the render node: creation, packets, arguments.
 *
 * Expected results are those of the C driver (amdgpu/amdgpu_userq.c, mes_userqueue.c) with its
 * parameter user_queue=1.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "queue-calls.h"
#include "userq.h"

TEST(executes_packets)
{
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	EXPECT(q.id != 0);
	EXPECT(uq_works(&q));
	EXPECT_OK(uq_free(&cs, q.id));
	uq_release(&q);
}

/* The read pointer is reported in dwords, and wraps; the write pointer does not. */
TEST(ring_wraps)
{
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	while (q.next < 4 * UQ_RING_BYTES / 4)
		ASSERT(uq_works(&q));
	EXPECT(becomes(q.rptr.words, (uint32_t)(q.next % (UQ_RING_BYTES / 4)), WAIT_MS),
	       "%u of %llu", q.rptr.words[0], (unsigned long long)q.next);
}

/* Packets written before the queue exists are executed once it is mapped. */
TEST(packets_of_before)
{
	uint32_t words[8];
	struct cs cs;
	struct uq q;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	uq_put(&q, words, pm4_write_data(words, cs.data.va, 5));
	*(volatile uint64_t *)q.wptr.words = q.next;
	ASSERT_OK(uq_start(&q));
	EXPECT(becomes(cs.data.words, 5, WAIT_MS));
	EXPECT(uq_works(&q));
}

TEST(several_queues)
{
	enum { QUEUES = 4 };
	struct uq q[QUEUES];
	struct cs cs;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	for (int i = 0; i < QUEUES; i++) {
		uq_prepare(&q[i], &cs);
		ASSERT_OK(uq_start(&q[i]));
		for (int j = 0; j < i; j++)
			EXPECT(q[i].id != q[j].id);
	}
	for (int i = 0; i < QUEUES; i++)
		EXPECT(uq_works(&q[i]));
	EXPECT_OK(uq_free(&cs, q[1].id));
	for (int i = 0; i < QUEUES; i++)
		EXPECT(i == 1 || uq_works(&q[i]));
}

/* The lowest free id, from 1. A file has its own. */
TEST(ids)
{
	struct uq q[3], other;
	struct cs cs, cs2;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	for (int i = 0; i < 3; i++) {
		uq_prepare(&q[i], &cs);
		ASSERT_OK(uq_start(&q[i]));
		EXPECT_EQ(q[i].id, i + 1);
	}
	uq_open(&other, &cs2);
	EXPECT_EQ(other.id, 1);
	EXPECT_OK(uq_free(&cs, 2));
	EXPECT_RET(uq_free(&cs, 2), -ENOENT);
	EXPECT_OK(uq_start(&q[1]));
	EXPECT_EQ(q[1].id, 2);
	EXPECT_RET(uq_free(&cs, 0), -ENOENT);
	EXPECT_RET(uq_free(&cs, 4), -ENOENT);
	EXPECT_RET(uq_free(&cs, ~0u), -ENOENT);
	EXPECT(uq_works(&other));
}

static int info(int fd, uint32_t query, uint32_t kind, void *out, uint32_t size)
{
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(out), .return_size = size,
					   .query = query };

	request.query_hw_ip.type = kind;
	return kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request);
}

TEST(queries)
{
	struct drm_amdgpu_info_uq_metadata area;
	struct drm_amdgpu_info_hw_ip ip;
	int fd = cs_open_file();

	uq_need(fd, AMDGPU_HW_IP_COMPUTE);
	memset(&area, 0xff, sizeof(area));
	EXPECT_OK(info(fd, AMDGPU_INFO_UQ_FW_AREAS, AMDGPU_HW_IP_COMPUTE, &area, sizeof(area)));
	EXPECT_EQ(area.compute.eop_size, UQ_EOP_BYTES);
	EXPECT_EQ(area.compute.eop_alignment, 256);
	EXPECT_EQ(area.gfx.csa_size, 0);
	EXPECT_OK(info(fd, AMDGPU_INFO_UQ_FW_AREAS, AMDGPU_HW_IP_DMA, &area, sizeof(area)));
	EXPECT_EQ(area.sdma.csa_size, 32);
	EXPECT_EQ(area.sdma.csa_alignment, 4);
	EXPECT_RET(info(fd, AMDGPU_INFO_UQ_FW_AREAS, AMDGPU_HW_IP_UVD, &area, sizeof(area)),
		   -EINVAL);
	/* Two pipes, of four queues each, half of which are the kernel's. */
	EXPECT_OK(info(fd, AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_COMPUTE, &ip, sizeof(ip)));
	EXPECT_EQ(ip.userq_num_slots, 4);
	/* Two engines, of eight queues each, two of which are the kernel's. */
	EXPECT_OK(info(fd, AMDGPU_INFO_HW_IP_INFO, AMDGPU_HW_IP_DMA, &ip, sizeof(ip)));
	EXPECT_EQ(ip.userq_num_slots, 12);
}

static int start_with(struct uq *q, struct drm_amdgpu_userq_in args)
{
	union drm_amdgpu_userq arg = { .in = args };

	return kfd_ioctl(q->cs->fd, DRM_IOCTL_AMDGPU_USERQ, &arg);
}

/* Expects an error for arguments of which one is changed. */
#define BAD(q, field, value, ret)                                 \
	({                                                        \
		struct drm_amdgpu_userq_in bad_ = (q)->args;      \
		bad_.field = (value);                             \
		EXPECT_RET(start_with((q), bad_), (ret));         \
	})

TEST(bad_arguments)
{
	struct cs cs;
	struct uq q;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	BAD(&q, op, 0, -EINVAL);
	BAD(&q, op, 3, -EINVAL);
	BAD(&q, flags, 8, -EINVAL);
	BAD(&q, flags, 1u << 31, -EINVAL);
	BAD(&q, ip_type, AMDGPU_HW_IP_UVD, -EINVAL);
	BAD(&q, ip_type, AMDGPU_HW_IP_NUM, -EINVAL);
	BAD(&q, ip_type, ~0u, -EINVAL);
	BAD(&q, queue_va, 0, -EINVAL);
	BAD(&q, queue_va, ~0ull, -EINVAL);
	BAD(&q, queue_size, 0, -EINVAL);
	BAD(&q, queue_size, 2048, -EINVAL);
	BAD(&q, queue_size, 6144, -EINVAL);
	BAD(&q, rptr_va, 0, -EINVAL);
	BAD(&q, wptr_va, 0, -EINVAL);
	BAD(&q, rptr_va, q.rptr.va + 4, -EINVAL);
	BAD(&q, wptr_va, q.wptr.va + 4, -EINVAL);
	/* The C driver has these types where its firmware has, and does not check the rest. */
	if (ktap_is_rkfd()) {
		struct cs_bo ring;

		BAD(&q, flags, AMDGPU_USERQ_CREATE_FLAGS_QUEUE_SECURE, -EINVAL);
		BAD(&q, ip_type, AMDGPU_HW_IP_GFX, -EINVAL);
		BAD(&q, ip_type, AMDGPU_HW_IP_DMA, -EINVAL);
		uq_bo_new(&cs, &ring, 2 * UQ_RING_BYTES, AMDGPU_GEM_DOMAIN_GTT);
		BAD(&q, queue_va, ring.va + 128, -EINVAL);
		q.compute.eop_va = q.eop.va + 128;
		EXPECT_RET(uq_start(&q), -EINVAL);
		q.compute.eop_va = q.eop.va;
	}
	ASSERT_OK(uq_start(&q));
	EXPECT(uq_works(&q));
}

/* Ring, pointers and EOP buffer have to be mapped, as a whole. */
TEST(bad_memory)
{
	const uint64_t nowhere = 0x7000000000ull;
	struct cs_bo large;
	struct cs cs;
	struct uq q;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	BAD(&q, queue_va, nowhere, -EINVAL);
	BAD(&q, queue_size, 2 * UQ_RING_BYTES, -EINVAL);
	BAD(&q, rptr_va, nowhere, -EINVAL);
	BAD(&q, wptr_va, nowhere, -EINVAL);
	BAD(&q, mqd, 0, -EFAULT);
	BAD(&q, mqd, 4096, -EFAULT);
	BAD(&q, mqd_size, 0, -EINVAL);
	BAD(&q, mqd_size, 16, -EINVAL);
	q.compute.eop_va = nowhere;
	EXPECT_RET(uq_start(&q), -EINVAL);
	q.compute.eop_va = q.eop.va + KFD_PAGE - UQ_EOP_BYTES + 256;
	EXPECT_RET(uq_start(&q), -EINVAL);
	q.compute.eop_va = 0;
	EXPECT_RET(uq_start(&q), -EINVAL);
	q.compute.eop_va = q.eop.va;
	/* MES reads the write pointer through the GART, which has one page of its BO. */
	uq_bo_new(&cs, &large, 2 * KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT);
	BAD(&q, wptr_va, large.va, -EINVAL);
	ASSERT_OK(uq_start(&q));
	EXPECT(uq_works(&q));
}

TEST(bad_doorbells)
{
	struct uq q, second;
	uint32_t gtt;
	struct cs cs;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	BAD(&q, doorbell_handle, 0, -EINVAL);
	BAD(&q, doorbell_handle, 0xffff, -EINVAL);
	ASSERT_OK(cs_bo_create(cs.fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &gtt));
	BAD(&q, doorbell_handle, gtt, -EINVAL);
	BAD(&q, doorbell_offset, KFD_PAGE / 8, -EINVAL);
	BAD(&q, doorbell_offset, ~0u, -EINVAL);
	ASSERT_OK(uq_start(&q));
	/* Taken. */
	uq_prepare(&second, &cs);
	BAD(&second, doorbell_handle, q.doorbells, -EBUSY);
	ASSERT_OK(uq_start(&second));
	EXPECT(uq_works(&q));
	EXPECT(uq_works(&second));
}

TEST(high_priority_needs_privilege)
{
	static const uint32_t priorities[] = {
		AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_NORMAL_LOW,
		AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_LOW,
		AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_NORMAL_HIGH,
		AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_HIGH,
	};
	struct cs cs;
	struct uq q;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	for (int i = 0; i < 4; i++) {
		q.args.flags = priorities[i];
		ASSERT_OK(uq_start(&q));
		EXPECT(uq_works(&q));
		EXPECT_OK(uq_free(&cs, q.id));
		*(volatile uint64_t *)q.wptr.words = q.next = 0;
	}
	ASSERT(seteuid(65534) == 0);
	EXPECT_RET(uq_start(&q), -EACCES);
	q.args.flags = AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_NORMAL_HIGH;
	EXPECT_OK(uq_start(&q));
}

/* Only the id is allowed. */
TEST(free_with_other_arguments)
{
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	q.args = (struct drm_amdgpu_userq_in){ .op = AMDGPU_USERQ_OP_FREE, .queue_id = q.id };
	BAD(&q, ip_type, AMDGPU_HW_IP_COMPUTE, -EINVAL);
	BAD(&q, doorbell_handle, 1, -EINVAL);
	BAD(&q, doorbell_offset, 1, -EINVAL);
	BAD(&q, flags, 1, -EINVAL);
	BAD(&q, queue_va, 1, -EINVAL);
	BAD(&q, queue_size, 1, -EINVAL);
	BAD(&q, rptr_va, 1, -EINVAL);
	BAD(&q, wptr_va, 1, -EINVAL);
	BAD(&q, mqd, 1, -EINVAL);
	BAD(&q, mqd_size, 1, -EINVAL);
	EXPECT(uq_works(&q));
	EXPECT_OK(start_with(&q, q.args));
}

/* Opens another file, and returns the system memory that the GPU uses. */
static uint64_t gtt_usage(struct kfd *k)
{
	*k = (struct kfd){ .drm = cs_open_file() };
	uq_need(k->drm, AMDGPU_HW_IP_COMPUTE);
	return amdgpu_info(k, AMDGPU_INFO_GTT_USAGE);
}

/* The file is closed with its queues. */
TEST(close_frees_queues)
{
	struct kfd k;
	uint64_t before = gtt_usage(&k);

	for (int i = 0; i < 3; i++) {
		struct cs cs;
		struct uq q;

		uq_open(&q, &cs);
		EXPECT(uq_works(&q));
		EXPECT_EQ(q.id, 1);
		/* Mappings of the CPU would keep it open. */
		uq_unmap(&q);
		munmap((void *)cs.code.words, cs.code.size);
		munmap((void *)cs.data.words, cs.data.size);
		close(cs.fd);
	}
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, before);
}

TEST(exit_frees_queues)
{
	struct kfd k;
	uint64_t before = gtt_usage(&k);

	for (int i = 0; i < 3; i++)
		EXPECT_OK(ktap_in_child(uq_lives, NULL));
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, before);
}

TEST(doorbell_buffers)
{
	struct drm_amdgpu_gem_create_in info = { 0 };
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO };
	uint32_t handle;
	struct cs cs;
	struct uq q;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(&q, &cs);
	op.handle = q.doorbells;
	op.value = kfd_va(&info);
	EXPECT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	EXPECT_EQ(info.domains, AMDGPU_GEM_DOMAIN_DOORBELL);
	EXPECT_EQ(info.bo_size, KFD_PAGE);
	/* More than the BAR has. */
	EXPECT_RET(cs_bo_create(cs.fd, 1ull << 30, AMDGPU_GEM_DOMAIN_DOORBELL, 0, &handle),
		   -ENOMEM);
}

/* Starts two queues of a file. The first works. */
static void start_two(struct uq *a, struct uq *b, struct cs *cs)
{
	uq_open_two(a, b, cs);
	EXPECT(uq_works(a));
}

/* Queue `a` of a file does not run any more; `b` does, and `a` can be freed. */
static void expect_stopped(struct uq *a, struct uq *b)
{
	struct cs *cs = a->cs;
	uint32_t words[8];

	EXPECT(uq_works(b));
	cs->data.words[0] = 0;
	uq_put(a, words, pm4_write_data(words, cs->data.va, 77));
	uq_ring(a);
	usleep(200000);
	EXPECT_EQ(cs->data.words[0], 0);
	EXPECT_OK(uq_free(cs, a->id));
	EXPECT(uq_works(b));
}

TEST(unmapped_memory_stops_a_queue)
{
	struct uq a, b;
	struct cs cs;

	start_two(&a, &b, &cs);
	ASSERT_OK(cs_va(cs.fd, a.eop.handle, AMDGPU_VA_OP_UNMAP, 0, a.eop.va, 0, a.eop.size));
	expect_stopped(&a, &b);
}

/* Closing a buffer unmaps it. */
TEST(closed_memory_stops_a_queue)
{
	struct uq a, b;
	struct cs cs;

	start_two(&a, &b, &cs);
	EXPECT_OK(cs_bo_close(cs.fd, a.eop.handle));
	expect_stopped(&a, &b);
}

/* Starts a queue of each interface in one address space. */
static void start_both(struct fixture *f, struct uq *q, struct cs *cs)
{
	fixture_launch(f);
	cs_open_on(cs, f->k.drm);
	uq_need(cs->fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(q, cs);
	ASSERT_OK(uq_start(q));
}

/* Queues of both interfaces in one address space. */
TEST(shares_the_address_space_with_kfd)
{
	struct fixture f;
	uint32_t words[8];
	struct cs cs;
	struct uq q;

	start_both(&f, &q, &cs);
	EXPECT(fixture_works(&f));
	EXPECT(uq_works(&q));
	uq_put(&q, words, pm4_write_data(words, kfd_va(f.data->va), 0x1234));
	uq_ring(&q);
	EXPECT(becomes(f.data->va, 0x1234, WAIT_MS));
	EXPECT(fixture_works(&f));
	EXPECT_OK(uq_free(&cs, q.id));
	EXPECT(fixture_works(&f));
}

/* A range with memory that a queue of KFD uses is not cleared, and queues in it go on. */
TEST(busy_range_does_not_stop_queues)
{
	struct cs_bo ring;
	struct fixture f;
	struct cs cs;
	struct uq q;

	start_both(&f, &q, &cs);
	EXPECT(uq_works(&q));
	uq_bo_new(&cs, &ring, f.q.ring->size, AMDGPU_GEM_DOMAIN_GTT);
	ASSERT_OK(update(&f.k, f.q.id, ring.va, (uint32_t)ring.size, 100, 7));
	EXPECT_RET(cs_va(cs.fd, 0, AMDGPU_VA_OP_CLEAR, 0, q.ring.va, 0,
			 ring.va + ring.size - q.ring.va), -EBUSY);
	EXPECT(uq_works(&q));
	EXPECT_RET(cs_va(cs.fd, q.eop.handle, AMDGPU_VA_OP_REPLACE,
			 AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, ring.va, 0, KFD_PAGE),
		   -EBUSY);
	EXPECT_RET(cs_va(cs.fd, ring.handle, AMDGPU_VA_OP_UNMAP, 0, ring.va, 0, ring.size), -EBUSY);
	EXPECT(uq_works(&q));
	EXPECT_OK(kfd_queue_destroy(&f.q));
	EXPECT_OK(cs_va(cs.fd, 0, AMDGPU_VA_OP_CLEAR, 0, ring.va, 0, ring.size));
	EXPECT(uq_works(&q));
	EXPECT_OK(cs_va(cs.fd, 0, AMDGPU_VA_OP_CLEAR, 0, q.ring.va, 0, q.ring.size));
	EXPECT_OK(uq_free(&cs, q.id));
}

/* More queues than the hardware has: they take turns. */
TEST(oversubscription)
{
	enum { QUEUES = 12 };
	struct uq q[QUEUES];
	uint32_t words[8];
	struct cs cs;

	cs_open(&cs);
	uq_need(cs.fd, AMDGPU_HW_IP_COMPUTE);
	for (uint32_t i = 0; i < QUEUES; i++) {
		uq_prepare(&q[i], &cs);
		ASSERT_OK(uq_start(&q[i]));
	}
	for (uint32_t round = 1; round <= 5; round++) {
		for (uint32_t i = 0; i < QUEUES; i++) {
			uint32_t n = pm4_write_data(words, cs.data.va + 64 + 4 * i, round);

			uq_put(&q[i], words, n);
			uq_ring(&q[i]);
		}
		for (uint32_t i = 0; i < QUEUES; i++)
			ASSERT(becomes(&cs.data.words[16 + i], round, WAIT_MS), "queue %u", i);
	}
}
