// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests doorbells that the GPU writes: kernels and SDMA queues ring queues of their process through
 * a doorbell BO.
 */
#define _GNU_SOURCE
#include "../workloads/sdma-queue.h"
#include "fixture.h"

#define DOORBELL                                                               \
	(KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)

/* A queue that rings doorbells, another one that is mapped, and the doorbells of the process. */
struct bench {
	struct fixture f;
	struct kfd_queue other;
	struct kfd_signal rung;
	struct kfd_bo *doorbells;
};

/* Returns the GPU address of the doorbell with this mmap() offset. */
static uint64_t doorbell(struct bench *b, uint64_t offset)
{
	return kfd_va(b->doorbells->va) + (offset & (KFD_DOORBELL_SLICE - 1));
}

/* Writes a packet of the fill kernel and not the doorbell; returns the index of the packet. */
static uint64_t fill_unrung(struct bench *b, struct kfd_queue *q, unsigned int slot, uint32_t value)
{
	volatile uint64_t *real = q->doorbell, elsewhere = 0;

	q->doorbell = &elsewhere;
	fixture_fill_start(&b->f, q, &b->rung, slot, b->f.data->va, 64, value);
	q->doorbell = real;
	return elsewhere;
}

/*
 * Writes a packet of a kernel that stores `value` to `where`, and not the doorbell; returns the
 * packet's index.
 */
static uint64_t poke_unrung(struct bench *b, uint64_t where, uint64_t value)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct fixture *f = &b->f;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "poke64", &kernel));
	memcpy(f->kernarg->va, &where, 8);
	memcpy((char *)f->kernarg->va + 8, &value, 8);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	return kfd_queue_write(&f->q, &packet);
}

/* Dispatches that kernel. */
static void poke(struct bench *b, uint64_t where, uint64_t value)
{
	kfd_queue_ring(&b->f.q, poke_unrung(b, where, value));
}

/* Expects the effects of the fill kernel's packet. */
static void expect_fill(struct bench *b, uint32_t value)
{
	const uint32_t *words = b->f.data->va;

	EXPECT_OK(kfd_signal_wait(&b->f.k, &b->rung, WAIT_MS));
	EXPECT_EQ(words[0], value);
	EXPECT_EQ(words[63], value);
}

/*
 * Waits until the other queue is mapped. CREATE_QUEUE, of any queue, returns before the CP has
 * mapped the queues of the new runlist, and a queue starts with the write index in memory: a packet
 * written too early runs without its doorbell.
 */
static void until_mapped(struct bench *b)
{
	fixture_fill_start(&b->f, &b->other, &b->rung, 1, b->f.data->va, 64, 1);
	expect_fill(b, 1);
}

static void bench(struct bench *b)
{
	fixture_launch(&b->f);
	ASSERT_OK(kfd_queue_create(&b->f.k, &b->other, 64));
	ASSERT_OK(kfd_signal_create(&b->f.k, 0, &b->rung));
	ASSERT_OK(kfd_bo_alloc(&b->f.k, KFD_DOORBELL_SLICE, DOORBELL, &b->doorbells));
	ASSERT_OK(kfd_bo_map_gpu(&b->f.k, b->doorbells));
	until_mapped(b);
}

/* A kernel rings another AQL queue, more than once. */
TEST(kernel_rings_queue)
{
	struct bench b;

	bench(&b);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t index = fill_unrung(&b, &b.other, 1, 100 + i);

		EXPECT_RET(kfd_signal_wait(&b.f.k, &b.rung, 50), -ETIME);
		poke(&b, doorbell(&b, b.other.doorbell_offset), index);
		EXPECT_OK(kfd_signal_wait(&b.f.k, &b.f.signal, WAIT_MS));
		expect_fill(&b, 100 + i);
	}
	EXPECT(fixture_works(&b.f));
}

/* A kernel rings its own queue, for the packet behind its own. */
TEST(kernel_rings_own_queue)
{
	struct bench b;
	uint64_t index;

	bench(&b);
	EXPECT(fixture_works(&b.f));
	index = poke_unrung(&b, doorbell(&b, b.f.q.doorbell_offset),
			    b.f.q.q->write_dispatch_id + 1);
	EXPECT_EQ(fill_unrung(&b, &b.f.q, 1, 7), index + 1);
	kfd_queue_ring(&b.f.q, index);
	expect_fill(&b, 7);
	EXPECT_OK(kfd_signal_wait(&b.f.k, &b.f.signal, WAIT_MS));
	EXPECT(fixture_works(&b.f));
}

/* An SDMA queue rings an AQL queue by WRITE and by COPY, and a kernel rings an SDMA queue. */
TEST(sdma_rings_and_is_rung)
{
	uint32_t packets[64], *p = packets;
	struct sdma_queue sdma;
	uint64_t index, *source;
	uint32_t *words;
	struct bench b;

	bench(&b);
	ASSERT_OK(sdma_queue_create(&b.f.k, &sdma, KFD_IOC_QUEUE_TYPE_SDMA, 0, 4096));
	until_mapped(&b);
	index = fill_unrung(&b, &b.other, 1, 21);
	*p++ = SDMA_WRITE;
	sdma_put64(&p, doorbell(&b, b.other.doorbell_offset));
	*p++ = 1;
	sdma_put64(&p, index);
	ASSERT_OK(sdma_queue_put(&sdma, packets, p));
	sdma_queue_ring(&sdma);
	expect_fill(&b, 21);

	index = fill_unrung(&b, &b.other, 1, 22);
	words = b.f.data->va;
	source = (uint64_t *)(words + 1024);
	*source = index;
	p = packets;
	sdma_copy(&p, doorbell(&b, b.other.doorbell_offset), kfd_va(source), 8);
	ASSERT_OK(sdma_queue_put(&sdma, packets, p));
	sdma_queue_ring(&sdma);
	expect_fill(&b, 22);

	p = packets;
	b.rung.s->value = 1;
	sdma_write(&p, kfd_va(words), 2, 23);
	sdma_signal(&p, &b.rung);
	ASSERT_OK(sdma_queue_put(&sdma, packets, p));
	__atomic_store_n(sdma.wptr, sdma.written, __ATOMIC_RELEASE);
	poke(&b, doorbell(&b, sdma.doorbell_offset), sdma.written);
	EXPECT_OK(kfd_signal_wait(&b.f.k, &b.rung, WAIT_MS));
	EXPECT_EQ(words[0], 23);
	EXPECT_OK(sdma_queue_destroy(&sdma));
}
