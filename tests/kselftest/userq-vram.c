// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user queues of the render node while buffers of their file are evicted. With little VRAM
 * (512 MiB).
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "userq.h"

#define MIB (1ull << 20)
#define CHUNK (32 * MIB)
#define MAX_CHUNKS 40u
#define VRAM (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
	      KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)

static uint64_t evictions(int fd)
{
	struct drm_amdgpu_info request = { .return_size = 8, .query = AMDGPU_INFO_NUM_EVICTIONS };
	uint64_t count = 0;

	request.return_pointer = kfd_va(&count);
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	return count;
}

/* Opens the device and a queue; skips with much VRAM. Returns the bytes of VRAM. */
static uint64_t open_queue(struct cs *cs, struct uq *q)
{
	struct kfd k = { 0 };
	uint64_t bytes;

	ASSERT_OK(kfd_topology_find_gpu(&k.node));
	uq_open(q, cs);
	k.drm = cs->fd;
	bytes = vram_bytes(&k);
	if (bytes > 1024 * MIB)
		SKIP("more VRAM than needed");
	return bytes;
}

/* Another file fills VRAM: a buffer of the queue's address space is evicted. */
TEST_TIMEOUT(eviction, 300)
{
	struct cs_bo vram, fill;
	struct cs cs, other;
	uint64_t before, bytes;
	struct uq q;

	bytes = open_queue(&cs, &q);
	uq_bo_new(&cs, &vram, 4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	pattern((uint32_t *)vram.words, vram.size, 3);
	EXPECT(uq_works(&q));
	cs_open(&other);
	before = evictions(cs.fd);
	for (uint64_t used = 0; used < bytes; used += CHUNK) {
		uint32_t words[8];

		cs_bo_new(&other, &fill, CHUNK, AMDGPU_GEM_DOMAIN_VRAM);
		fill.words[0] = 1;
		uq_put(&q, words, pm4_write_data(words, vram.va + 4 * (used / CHUNK), 7));
		uq_ring(&q);
	}
	EXPECT(evictions(cs.fd) > before, "nothing was evicted");
	EXPECT(uq_works(&q));
	close(other.fd);
	EXPECT(uq_works(&q));
	EXPECT_EQ(vram.words[0], 7);
	EXPECT_EQ(vram.words[1000], pattern_word(1000, 3));
}

static void *open_late(void *arg)
{
	usleep(300000);
	uq_open_gate(arg, 1);
	return NULL;
}

/* An eviction waits for the fences of the file: its queue is not stopped in the middle of a job. */
TEST_TIMEOUT(eviction_with_a_fence, 300)
{
	struct cs_bo vram, fill;
	struct cs cs, other;
	pthread_t thread;
	uint64_t before, bytes;
	uint32_t sync;
	struct uq q;

	bytes = open_queue(&cs, &q);
	uq_bo_new(&cs, &vram, 4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	pattern((uint32_t *)vram.words, vram.size, 3);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	cs_open(&other);
	before = evictions(cs.fd);
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	ASSERT(!pthread_create(&thread, NULL, open_late, &cs));
	for (uint64_t used = 0; used < bytes; used += CHUNK) {
		cs_bo_new(&other, &fill, CHUNK, AMDGPU_GEM_DOMAIN_VRAM);
		fill.words[0] = 1;
		if (evictions(cs.fd) > before)
			EXPECT_OK(uq_wait_ms(&cs, sync, 0));
	}
	EXPECT(evictions(cs.fd) > before, "nothing was evicted");
	pthread_join(thread, NULL);
	EXPECT_OK(uq_wait_ms(&cs, sync, WAIT_MS));
	EXPECT_EQ(cs.data.words[UQ_DONE], 1);
	EXPECT(uq_works(&q));
	EXPECT_EQ(vram.words[1000], pattern_word(1000, 3));
	close(other.fd);
}

/* Stores a number in each chunk by the queue. */
static void store_in_all(struct uq *q, struct cs_bo *chunks, uint32_t count, uint32_t base)
{
	uint32_t words[8];

	for (uint32_t i = 0; i < count; i++) {
		uq_put(q, words, pm4_write_data(words, chunks[i].va + 4 * i, base + i));
		uq_ring(q);
	}
}

static volatile bool done;

static void *fill_again(void *data)
{
	uint64_t bytes = *(uint64_t *)data;

	while (!done) {
		int fd = cs_open_file(), ret = 0;

		/* ENOMEM while the buffer of the queue is in use. */
		for (uint64_t used = 0; used < bytes && !done && ret != -ENOMEM; used += CHUNK) {
			uint32_t handle;

			ret = cs_bo_create(fd, CHUNK, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle);
			EXPECT(!ret || ret == -ENOMEM, "%s", strerror(-ret));
		}
		close(fd);
	}
	return NULL;
}

/*
 * A program may ring the doorbell after USERQ_SIGNAL, which reads the write pointer. An eviction
 * meanwhile, of a buffer that gets the fence, does not wait for it.
 */
TEST_TIMEOUT(doorbell_after_the_signal, 300)
{
	double end = seconds_now() + 15;
	struct cs_bo vram;
	pthread_t thread;
	uint64_t before, bytes;
	uint32_t sync;
	struct cs cs;
	struct uq q;

	bytes = open_queue(&cs, &q);
	uq_bo_new(&cs, &vram, 96 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	before = evictions(cs.fd);
	ASSERT(!pthread_create(&thread, NULL, fill_again, &bytes));
	for (uint32_t value = 1; seconds_now() < end; value++) {
		double start = seconds_now();

		uq_open_gate(&cs, value);
		uq_put_job(&q, value);
		__atomic_store_n((volatile uint64_t *)q.wptr.words, q.next, __ATOMIC_RELEASE);
		ASSERT_OK(uq_signal(&q, &sync, 1, NULL, &vram.handle));
		uq_ring(&q);
		ASSERT_OK(uq_wait_ms(&cs, sync, 20000 * ktap_time_factor()));
		ASSERT_EQ(cs.data.words[UQ_DONE], value);
		ASSERT(seconds_now() - start < 8 * ktap_time_factor(), "round %u", value);
	}
	EXPECT(evictions(cs.fd) > before, "nothing was evicted");
	done = true;
	pthread_join(thread, NULL);
	EXPECT(uq_works(&q));
}

/* The queue of a file whose buffers exceed VRAM runs: some are in system memory. */
TEST_TIMEOUT(more_than_vram, 300)
{
	struct cs_bo chunks[MAX_CHUNKS];
	uint32_t count;
	uint64_t before;
	struct cs cs;
	struct uq q;

	count = (uint32_t)(open_queue(&cs, &q) / CHUNK) + 2;
	ASSERT(count <= MAX_CHUNKS, "%u", count);
	before = evictions(cs.fd);
	for (uint32_t i = 0; i < count; i++)
		uq_bo_new(&cs, &chunks[i], CHUNK, AMDGPU_GEM_DOMAIN_VRAM);
	EXPECT(evictions(cs.fd) > before, "nothing was evicted");
	for (uint32_t round = 1; round <= 3; round++) {
		store_in_all(&q, chunks, count, round * 100);
		ASSERT(uq_works(&q));
		for (uint32_t i = 0; i < count; i++)
			EXPECT_EQ(chunks[i].words[i], round * 100 + i);
	}
}

/* A process of KFD with buffers in VRAM runs beside it. */
TEST_TIMEOUT(kfd_beside_more_than_vram, 300)
{
	struct cs_bo chunks[MAX_CHUNKS];
	struct fixture f;
	struct kfd_bo *bo;
	uint32_t count;
	struct cs cs;
	struct uq q;

	count = (uint32_t)(open_queue(&cs, &q) / CHUNK) + 2;
	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, CHUNK, VRAM, &bo));
	pattern(bo->va, CHUNK, 5);
	EXPECT(fixture_works(&f));
	for (uint32_t i = 0; i < count; i++)
		uq_bo_new(&cs, &chunks[i], CHUNK, AMDGPU_GEM_DOMAIN_VRAM);
	for (uint32_t round = 1; round <= 3; round++) {
		store_in_all(&q, chunks, count, round * 100);
		EXPECT(uq_works(&q));
		EXPECT(fixture_works(&f));
	}
	for (uint32_t i = 0; i < count; i++)
		EXPECT_EQ(chunks[i].words[i], 300 + i);
	EXPECT_EQ(((uint32_t *)bo->va)[1000], pattern_word(1000, 5));
}
