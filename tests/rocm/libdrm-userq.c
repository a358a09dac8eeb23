// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Compute user queues of the render node by libdrm's API, as graphics drivers use them.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include "ktap.h"
#include "pm4.h"

#define PAGE 4096u
#define RING_BYTES 4096u
/* A doorbell of the page that is routed to the CP. */
#define DOORBELL 4u
#define SECOND 1000000000ll

struct buffer {
	amdgpu_bo_handle bo;
	amdgpu_va_handle range;
	uint64_t va;
	uint32_t *words;
};

struct queue {
	struct buffer ring, rptr, wptr, eop;
	amdgpu_bo_handle doorbells;
	uint64_t *doorbell;
	uint32_t id, next;
};

static amdgpu_device_handle dev;
/* Syncobj of the page tables. */
static uint32_t mapped;
static uint64_t point;

static amdgpu_bo_handle allocate(uint64_t bytes, uint32_t heap)
{
	struct amdgpu_bo_alloc_request request = {
		.alloc_size = bytes,
		.phys_alignment = PAGE,
		.preferred_heap = heap,
	};
	amdgpu_bo_handle bo;

	ASSERT_OK(amdgpu_bo_alloc(dev, &request, &bo));
	return bo;
}

static uint32_t handle_of(amdgpu_bo_handle bo)
{
	uint32_t handle;

	ASSERT_OK(amdgpu_bo_export(bo, amdgpu_bo_handle_type_kms, &handle));
	return handle;
}

static void buffer(struct buffer *b, uint32_t heap)
{
	uint64_t flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
			 AMDGPU_VM_PAGE_EXECUTABLE;
	void *p;

	b->bo = allocate(PAGE, heap);
	ASSERT_OK(amdgpu_va_range_alloc(dev, amdgpu_gpu_va_range_general, PAGE, PAGE, 0, &b->va,
					&b->range, 0));
	ASSERT_OK(amdgpu_bo_va_op_raw2(dev, b->bo, 0, PAGE, b->va, flags, AMDGPU_VA_OP_MAP, mapped,
				       ++point, 0, 0));
	ASSERT_OK(amdgpu_cs_syncobj_timeline_wait(dev, &mapped, &point, 1, INT64_MAX,
						  DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, NULL));
	ASSERT_OK(amdgpu_bo_cpu_map(b->bo, &p));
	memset(p, 0, PAGE);
	b->words = p;
}

static void end_buffer(struct buffer *b)
{
	EXPECT_OK(amdgpu_bo_cpu_unmap(b->bo));
	EXPECT_OK(amdgpu_bo_va_op(b->bo, 0, PAGE, b->va, 0, AMDGPU_VA_OP_UNMAP));
	EXPECT_OK(amdgpu_va_range_free(b->range));
	EXPECT_OK(amdgpu_bo_free(b->bo));
}

/* Opens the first card; skips without compute user queues. */
static void open_card(void)
{
	struct drm_amdgpu_info_device info;
	uint32_t major, minor;
	glob_t nodes;
	int fd;

	ASSERT(!glob("/dev/dri/renderD*", 0, NULL, &nodes), "no render node");
	fd = open(nodes.gl_pathv[0], O_RDWR | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", nodes.gl_pathv[0], strerror(errno));
	globfree(&nodes);
	ASSERT_OK(amdgpu_device_initialize(fd, &major, &minor, &dev));
	close(fd);
	ASSERT_OK(amdgpu_query_info(dev, AMDGPU_INFO_DEV_INFO, sizeof(info), &info));
	if (!(info.userq_ip_mask & 1u << AMDGPU_HW_IP_COMPUTE))
		SKIP("no user queues");
	ASSERT_OK(amdgpu_cs_create_syncobj(dev, &mapped));
}

static void create(struct queue *q)
{
	struct drm_amdgpu_userq_mqd_compute_gfx11 mqd = { 0 };
	void *p;

	*q = (struct queue){ 0 };
	buffer(&q->ring, AMDGPU_GEM_DOMAIN_GTT);
	buffer(&q->rptr, AMDGPU_GEM_DOMAIN_GTT);
	buffer(&q->wptr, AMDGPU_GEM_DOMAIN_GTT);
	buffer(&q->eop, AMDGPU_GEM_DOMAIN_GTT);
	q->doorbells = allocate(PAGE, AMDGPU_GEM_DOMAIN_DOORBELL);
	ASSERT_OK(amdgpu_bo_cpu_map(q->doorbells, &p));
	q->doorbell = (uint64_t *)p + DOORBELL;
	mqd.eop_va = q->eop.va;
	ASSERT_OK(amdgpu_create_userqueue(dev, AMDGPU_HW_IP_COMPUTE, handle_of(q->doorbells),
					  DOORBELL, q->ring.va, RING_BYTES, q->wptr.va, q->rptr.va,
					  &mqd, 0, &q->id));
}

static void end(struct queue *q)
{
	EXPECT_OK(amdgpu_free_userqueue(dev, q->id));
	EXPECT_OK(amdgpu_bo_cpu_unmap(q->doorbells));
	EXPECT_OK(amdgpu_bo_free(q->doorbells));
	end_buffer(&q->ring);
	end_buffer(&q->rptr);
	end_buffer(&q->wptr);
	end_buffer(&q->eop);
}

/* Appends packets with a fence behind them to the ring. */
static void submit(struct queue *q, const uint32_t *words, uint32_t count)
{
	uint32_t fence[16], n = pm4_release_mem(fence, 0, 0, 0, 0);

	n += pm4_signal(fence + n);
	for (uint32_t i = 0; i < count; i++)
		q->ring.words[q->next++ % (RING_BYTES / 4)] = words[i];
	for (uint32_t i = 0; i < n; i++)
		q->ring.words[q->next++ % (RING_BYTES / 4)] = fence[i];
	__atomic_store_n((uint64_t *)q->wptr.words, q->next, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(q->doorbell, q->next, __ATOMIC_RELAXED);
}

/* Attaches a fence to a syncobj, and as that of a store to a buffer. */
static int attach(struct queue *q, uint32_t syncobj, uint32_t bo)
{
	struct drm_amdgpu_userq_signal args = {
		.queue_id = q->id,
		.syncobj_handles = (uintptr_t)&syncobj,
		.num_syncobj_handles = 1,
		.bo_write_handles = (uintptr_t)&bo,
		.num_bo_write_handles = 1,
	};

	return amdgpu_userq_signal(dev, &args);
}

static int64_t in_seconds(int64_t seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec + seconds) * SECOND + now.tv_nsec;
}

TEST_TIMEOUT(signals_syncobj, 120)
{
	struct buffer data;
	uint32_t syncobj, words[8];
	struct queue q;

	open_card();
	create(&q);
	buffer(&data, AMDGPU_GEM_DOMAIN_VRAM);
	ASSERT_OK(amdgpu_cs_create_syncobj(dev, &syncobj));
	for (uint32_t i = 1; i <= 200; i++) {
		bool busy = true;

		submit(&q, words, pm4_write_data(words, data.va, i));
		ASSERT_OK(attach(&q, syncobj, handle_of(data.bo)));
		ASSERT_OK(amdgpu_cs_syncobj_wait(dev, &syncobj, 1, in_seconds(20), 0, NULL));
		ASSERT_OK(amdgpu_bo_wait_for_idle(data.bo, 20 * SECOND, &busy));
		ASSERT(!busy, "the buffer is busy");
		ASSERT_EQ(data.words[0], i);
	}
	EXPECT_OK(amdgpu_cs_destroy_syncobj(dev, syncobj));
	end(&q);
	end_buffer(&data);
	EXPECT_OK(amdgpu_device_deinitialize(dev));
}

/* A queue waits for another one, where WAIT says. */
TEST_TIMEOUT(waits_for_another_queue, 120)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t syncobj, words[32], bo, n;
	struct buffer data;
	struct queue a, b;

	open_card();
	create(&a);
	create(&b);
	buffer(&data, AMDGPU_GEM_DOMAIN_GTT);
	bo = handle_of(data.bo);
	ASSERT_OK(amdgpu_cs_create_syncobj(dev, &syncobj));
	n = pm4_wait(words, data.va, 1);
	n += pm4_write_data(words + n, data.va + 4, 2);
	submit(&a, words, n);
	ASSERT_OK(attach(&a, syncobj, bo));

	struct drm_amdgpu_userq_wait wait = {
		.waitq_id = b.id,
		.syncobj_handles = (uintptr_t)&syncobj,
		.num_syncobj_handles = 1,
		.bo_read_handles = (uintptr_t)&bo,
		.num_bo_read_handles = 1,
		.num_fences = 4,
		.out_fences = (uintptr_t)info,
	};

	ASSERT_OK(amdgpu_userq_wait(dev, &wait));
	ASSERT_EQ(wait.num_fences, 1);
	n = pm4_wait(words, info[0].va, (uint32_t)info[0].value);
	n += pm4_write_data(words + n, data.va + 8, 3);
	submit(&b, words, n);
	ASSERT_OK(attach(&b, syncobj, bo));
	usleep(100000);
	EXPECT_RET(amdgpu_cs_syncobj_wait(dev, &syncobj, 1, in_seconds(0), 0, NULL), -ETIME);
	EXPECT_EQ(data.words[2], 0);
	__atomic_store_n(&data.words[0], 1, __ATOMIC_RELEASE);
	ASSERT_OK(amdgpu_cs_syncobj_wait(dev, &syncobj, 1, in_seconds(20), 0, NULL));
	EXPECT_EQ(data.words[1], 2);
	EXPECT_EQ(data.words[2], 3);
	end(&b);
	end(&a);
	end_buffer(&data);
	EXPECT_RET(amdgpu_free_userqueue(dev, a.id), -ENOENT);
	EXPECT_OK(amdgpu_device_deinitialize(dev));
}
