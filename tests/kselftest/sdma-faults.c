// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests faulting SDMA queues: the process gets an event, memory and other queues are unaffected. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "fixture.h"

#define RING 4096u
#define NOWHERE 0x7000deadb000ull

struct victim {
	struct kfd k;
	struct sdma_queue q;
	struct kfd_bo *page;
	uint32_t *words, event;
};

static void victim_open(struct victim *v)
{
	memset(v, 0, sizeof(*v));
	fixture_open(&v->k);
	/* The C driver up to 7.2 also sends SIGSEGV. */
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&v->k, KFD_IOC_EVENT_MEMORY, false, &v->event));
	ASSERT_OK(kfd_bo_create(&v->k, 4096, KFD_FLAGS_GTT, &v->page));
	v->words = v->page->va;
	ASSERT_OK(sdma_queue_create(&v->k, &v->q, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
}

static void put(struct victim *v, const uint32_t *packets, const uint32_t *end)
{
	ASSERT_OK(sdma_queue_put(&v->q, packets, end));
	sdma_queue_ring(&v->q);
}

static void expect_fault(struct victim *v, uint64_t va)
{
	struct kfd_event_data data = { .event_id = v->event };
	uint32_t result = 99;

	ASSERT_OK(kfd_event_wait(&v->k, &data, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(data.memory_exception_data.gpu_id, v->k.node.gpu_id);
	EXPECT_EQ(data.memory_exception_data.va, va);
}

static bool works(struct victim *v)
{
	static uint32_t value = 0x900d;
	uint32_t packets[8] = { 0 }, *p = packets;
	volatile uint32_t *word = &v->words[1000];

	sdma_fence(&p, kfd_va((void *)word), ++value);
	put(v, packets, p);
	return becomes(word, value, 20000);
}

TEST_TIMEOUT(copy_to_unmapped_raises_memory_event, 90)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	struct victim v;

	victim_open(&v);
	sdma_copy(&p, NOWHERE, kfd_va(v.words), 4096);
	put(&v, packets, p);
	expect_fault(&v, NOWHERE);
}

TEST_TIMEOUT(copy_from_unmapped_raises_memory_event, 90)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	struct victim v;

	victim_open(&v);
	sdma_copy(&p, kfd_va(v.words), NOWHERE, 4096);
	put(&v, packets, p);
	expect_fault(&v, NOWHERE);
}

TEST_TIMEOUT(copy_to_read_only_raises_memory_event, 90)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	struct kfd_bo *bo;
	struct victim v;

	victim_open(&v);
	ASSERT_OK(kfd_bo_create(&v.k, 4096, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &bo));
	sdma_fill(&p, kfd_va(bo->va), 77, 64);
	put(&v, packets, p);
	expect_fault(&v, kfd_va(bo->va));
	EXPECT_EQ(*(uint32_t *)bo->va, 0);
}

TEST_TIMEOUT(unmap_takes_effect_at_once, 90)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	struct kfd_bo *bo;
	struct victim v;

	victim_open(&v);
	ASSERT_OK(kfd_bo_create(&v.k, 4096, KFD_FLAGS_GTT, &bo));
	sdma_fill(&p, kfd_va(bo->va), 5, 64);
	put(&v, packets, p);
	ASSERT(works(&v));
	EXPECT_EQ(*(uint32_t *)bo->va, 5);
	ASSERT_OK(kfd_bo_unmap_gpu(&v.k, bo));
	p = packets;
	sdma_fill(&p, kfd_va(bo->va), 6, 64);
	put(&v, packets, p);
	expect_fault(&v, kfd_va(bo->va));
	EXPECT_EQ(*(uint32_t *)bo->va, 5);
}

static void fault_and_leave(void *data)
{
	uint32_t packets[8] = { 0 }, *p = packets;
	struct victim v;

	(void)data;
	victim_open(&v);
	sdma_fill(&p, NOWHERE, 1, 1 << 20);
	put(&v, packets, p);
	expect_fault(&v, NOWHERE);
}

/* Queues of other processes continue, also on the same engine. */
TEST_TIMEOUT(other_processes_survive_fault, 180)
{
	struct victim v;

	victim_open(&v);
	for (int i = 0; i < 3; i++) {
		EXPECT(works(&v));
		EXPECT_OK(ktap_in_child(fault_and_leave, NULL));
		EXPECT(works(&v));
	}
}
