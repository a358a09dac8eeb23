// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the end of jobs through libdrm: waits, syncobjs, fence handles, busy BOs, exit with pending
 * jobs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <xf86drm.h>

#include "../workloads/kfd.h"
#include "drm.h"
#include "growth.h"

TEST(wait_any_and_all)
{
	struct amdgpu_cs_fence fences[3];
	union drm_amdgpu_wait_fences none = { 0 };
	uint32_t status = 9, first = 9;
	struct bench b;

	open_bench(&b);
	EXPECT_RET(kfd_ioctl(b.g.fd, DRM_IOCTL_AMDGPU_WAIT_FENCES, &none), -EINVAL);
	for (uint32_t i = 0; i < 3; i++) {
		ASSERT_OK(stream_submit(&b.s[i], gated(&b, &b.s[i], i, 16 + i, 1)));
		fences[i] = stream_fence(&b.s[i], b.s[i].seq);
	}
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, false, SECOND / 10, &status, &first));
	EXPECT_EQ(status, 0);
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, true, SECOND / 10, &status, &first));
	EXPECT_EQ(status, 0);
	/* Only the first job has no other in front of it on any engine. */
	b.words[0] = 1;
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, false, WAIT_NS, &status, &first));
	EXPECT(status == 1 && first == 0, "status %u, first %u", status, first);
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, true, SECOND / 10, &status, &first));
	EXPECT_EQ(status, 0);
	EXPECT_RET(stream_wait(&b.s[1], b.s[1].seq, 0), -ETIMEDOUT);
	b.words[1] = b.words[2] = 1;
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, true, WAIT_NS, &status, &first));
	EXPECT_EQ(status, 1);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(b.words[16 + i], 1);
		EXPECT_OK(stream_wait(&b.s[i], b.s[i].seq, 0));
	}
	fences[1].fence += 1;
	EXPECT_RET(amdgpu_cs_wait_fences(fences, 3, true, 0, &status, &first), -EINVAL);
	EXPECT_RET(amdgpu_cs_wait_fences(fences, 3, false, 0, &status, &first), -EINVAL);
}

static uint32_t syncobj(struct gpu *g)
{
	uint32_t handle;

	ASSERT_OK(amdgpu_cs_create_syncobj(g->dev, &handle));
	return handle;
}

/* Submits one job with the packets up to `end` and one more chunk. */
static int submit_with(struct stream *s, const uint32_t *end, uint32_t id, const void *data,
		       uint32_t bytes)
{
	struct drm_amdgpu_cs_chunk_data ib = { 0 };
	struct drm_amdgpu_cs_chunk chunks[2] = { 0 };

	ib.ib_data.ip_type = AMDGPU_HW_IP_DMA;
	ib.ib_data.va_start = s->ib.va + s->slot * s->slot_dw * 4;
	ib.ib_data.ib_bytes = (uint32_t)(end - stream_begin(s)) * 4;
	chunks[0].chunk_id = AMDGPU_CHUNK_ID_IB;
	chunks[0].length_dw = sizeof(struct drm_amdgpu_cs_chunk_ib) / 4;
	chunks[0].chunk_data = kfd_va(&ib);
	chunks[1].chunk_id = id;
	chunks[1].length_dw = bytes / 4;
	chunks[1].chunk_data = kfd_va(data);
	s->slot = (s->slot + 1) % s->slots;
	return amdgpu_cs_submit_raw(s->gpu->dev, s->ctx, s->list, 2, chunks, &s->seq);
}

static int64_t until(uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)((uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec + ns);
}

TEST(syncobj_in_and_out)
{
	struct drm_amdgpu_cs_chunk_sem sem;
	struct bench b;
	uint32_t empty;

	open_bench(&b);
	sem.handle = syncobj(&b.g);
	empty = syncobj(&b.g);
	ASSERT_OK(submit_with(&b.s[0], gated(&b, &b.s[0], 16, 1, 1), AMDGPU_CHUNK_ID_SYNCOBJ_OUT,
			      &sem, sizeof(sem)));
	ASSERT_OK(submit_with(&b.s[1], step(&b, &b.s[1], 1, 1, 2), AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem,
			      sizeof(sem)));
	EXPECT_RET(amdgpu_cs_syncobj_wait(b.g.dev, &sem.handle, 1, until(A_MOMENT * 1000), 0, NULL),
		   -ETIME);
	EXPECT_EQ(b.words[1], 0);
	EXPECT_RET(stream_wait(&b.s[1], b.s[1].seq, 0), -ETIMEDOUT);
	b.words[16] = 1;
	EXPECT_OK(amdgpu_cs_syncobj_wait(b.g.dev, &sem.handle, 1, until(WAIT_NS), 0, NULL));
	EXPECT_OK(stream_wait(&b.s[1], b.s[1].seq, WAIT_NS));
	EXPECT_EQ(b.words[1], 2);

	/* A syncobj without a fence, and an unknown handle. */
	EXPECT_RET(submit_with(&b.s[2], step(&b, &b.s[2], 1, 2, 3), AMDGPU_CHUNK_ID_SYNCOBJ_IN,
			       &empty, sizeof(empty)),
		   -EINVAL);
	sem.handle = 0x1234;
	EXPECT_RET(submit_with(&b.s[2], step(&b, &b.s[2], 1, 2, 3), AMDGPU_CHUNK_ID_SYNCOBJ_IN,
			       &sem, sizeof(sem)),
		   -ENOENT);
	EXPECT_RET(submit_with(&b.s[2], step(&b, &b.s[2], 1, 2, 3), AMDGPU_CHUNK_ID_SYNCOBJ_OUT,
			       &sem, sizeof(sem)),
		   -EINVAL);
	ASSERT_OK(amdgpu_cs_syncobj_signal(b.g.dev, &empty, 1));
	EXPECT_OK(submit_with(&b.s[2], step(&b, &b.s[2], 1, 2, 3), AMDGPU_CHUNK_ID_SYNCOBJ_IN,
			      &empty, sizeof(empty)));
	EXPECT_OK(stream_wait(&b.s[2], b.s[2].seq, WAIT_NS));
	EXPECT_EQ(b.words[1], 3);
	EXPECT_OK(amdgpu_cs_destroy_syncobj(b.g.dev, empty));
}

TEST(timeline_syncobjs)
{
	struct drm_amdgpu_cs_chunk_syncobj point = { 0 };
	uint64_t value = 99, wanted = 5;
	struct bench b;

	open_bench(&b);
	point.handle = syncobj(&b.g);
	point.point = 5;
	EXPECT_RET(submit_with(&b.s[1], step(&b, &b.s[1], 1, 1, 2),
			       AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point, sizeof(point)),
		   -EINVAL);
	ASSERT_OK(submit_with(&b.s[0], gated(&b, &b.s[0], 16, 1, 1),
			      AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point, sizeof(point)));
	ASSERT_OK(submit_with(&b.s[1], step(&b, &b.s[1], 1, 1, 2),
			      AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point, sizeof(point)));
	point.point = 7;
	ASSERT_OK(submit_with(&b.s[1], step(&b, &b.s[1], 1, 2, 3),
			      AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point, sizeof(point)));
	ASSERT_OK(amdgpu_cs_syncobj_query(b.g.dev, &point.handle, &value, 1));
	EXPECT_EQ(value, 0);
	EXPECT_RET(amdgpu_cs_syncobj_timeline_wait(b.g.dev, &point.handle, &wanted, 1,
						   until(A_MOMENT * 1000), 0, NULL),
		   -ETIME);
	EXPECT_EQ(b.words[1], 0);
	b.words[16] = 1;
	EXPECT_OK(amdgpu_cs_syncobj_timeline_wait(b.g.dev, &point.handle, &wanted, 1,
						  until(WAIT_NS), 0, NULL));
	wanted = 7;
	EXPECT_OK(amdgpu_cs_syncobj_timeline_wait(b.g.dev, &point.handle, &wanted, 1,
						  until(WAIT_NS), 0, NULL));
	EXPECT_EQ(b.words[1], 3);
	ASSERT_OK(amdgpu_cs_syncobj_query(b.g.dev, &point.handle, &value, 1));
	EXPECT_EQ(value, 7);
	/* The CPU signals the point. */
	wanted = 10;
	ASSERT_OK(amdgpu_cs_syncobj_timeline_signal(b.g.dev, &point.handle, &wanted, 1));
	point.point = 10;
	EXPECT_OK(submit_with(&b.s[2], step(&b, &b.s[2], 1, 3, 4),
			      AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point, sizeof(point)));
	EXPECT_OK(stream_wait(&b.s[2], b.s[2].seq, WAIT_NS));
	EXPECT_EQ(b.words[1], 4);
}

TEST(fence_to_handle)
{
	struct amdgpu_cs_fence fence;
	uint32_t handle, shared, file, again;
	struct pollfd ready;
	struct bench b;

	open_bench(&b);
	ASSERT_OK(stream_submit(&b.s[0], gated(&b, &b.s[0], 16, 1, 1)));
	fence = stream_fence(&b.s[0], b.s[0].seq);
	ASSERT_OK(amdgpu_cs_fence_to_handle(b.g.dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
					    &handle));
	ASSERT_OK(amdgpu_cs_fence_to_handle(b.g.dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD,
					    &shared));
	ASSERT_OK(amdgpu_cs_fence_to_handle(b.g.dev, &fence,
					    AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &file));
	EXPECT_RET(amdgpu_cs_fence_to_handle(b.g.dev, &fence, 77, &again), -EINVAL);
	ASSERT_OK(amdgpu_cs_import_syncobj(b.g.dev, (int)shared, &again));
	ready.fd = (int)file;
	ready.events = POLLIN;
	EXPECT_EQ(poll(&ready, 1, (int)(A_MOMENT / 1000)), 0);
	EXPECT_RET(amdgpu_cs_syncobj_wait(b.g.dev, &handle, 1, 0, 0, NULL), -ETIME);
	EXPECT_RET(amdgpu_cs_syncobj_wait(b.g.dev, &again, 1, 0, 0, NULL), -ETIME);
	b.words[16] = 1;
	EXPECT_EQ(poll(&ready, 1, 60000), 1);
	EXPECT_OK(amdgpu_cs_syncobj_wait(b.g.dev, &handle, 1, until(WAIT_NS), 0, NULL));
	EXPECT_OK(amdgpu_cs_syncobj_wait(b.g.dev, &again, 1, until(WAIT_NS), 0, NULL));
	EXPECT_EQ(b.words[1], 1);
	/* Of a signalled fence. */
	ASSERT_OK(amdgpu_cs_fence_to_handle(b.g.dev, &fence,
					    AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &file));
	ready.fd = (int)file;
	EXPECT_EQ(poll(&ready, 1, 0), 1);
	fence.fence += 5;
	EXPECT_RET(amdgpu_cs_fence_to_handle(b.g.dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
					     &handle),
		   -EINVAL);
}

/* BO fences: GEM_WAIT_IDLE, and jobs of other files with the BO in their list. */
TEST(bo_is_busy_until_job_is_done)
{
	struct amdgpu_bo_import_result in;
	const struct mem *mems[2];
	uint32_t major, minor, fd;
	struct gpu other;
	struct bench b;
	struct mem m, seen = { 0 };
	struct stream s;
	bool busy = false;

	open_bench(&b);
	ASSERT_OK(mem_try(&b.g, 65536, VRAM, 0, true, &m));
	mems[0] = &b.m;
	mems[1] = &m;
	stream_uses(&b.s[0], mems, 2);
	/* Drivers may clear the BO first, which makes it busy. */
	EXPECT_OK(amdgpu_bo_wait_for_idle(m.bo, WAIT_NS, &busy));
	EXPECT(!busy);
	EXPECT_OK(amdgpu_bo_wait_for_idle(m.bo, 0, &busy));
	EXPECT(!busy);

	/* A second file on the same GPU, with the BO at another address. */
	other = b.g;
	other.fd = open(drmGetRenderDeviceNameFromFd(b.g.fd), O_RDWR | O_CLOEXEC);
	ASSERT(other.fd >= 0);
	ASSERT_OK(amdgpu_device_initialize2(other.fd, false, &major, &minor, &other.dev));
	ASSERT_OK(amdgpu_bo_export(m.bo, amdgpu_bo_handle_type_dma_buf_fd, &fd));
	ASSERT_OK(amdgpu_bo_import(other.dev, amdgpu_bo_handle_type_dma_buf_fd, fd, &in));
	seen.bo = in.buf_handle;
	seen.size = 65536;
	ASSERT_OK(amdgpu_va_range_alloc(other.dev, amdgpu_gpu_va_range_general, 65536, 4096, 0,
					&seen.va, &seen.range, 0));
	ASSERT_OK(amdgpu_bo_va_op(seen.bo, 0, 65536, seen.va, 0, AMDGPU_VA_OP_MAP));
	stream_create(&other, &s, 0, NORMAL, 8, 64);
	mems[0] = &seen;
	stream_uses(&s, mems, 1);

	for (uint32_t round = 0; round < 3; round++) {
		uint32_t *p = stream_begin(&b.s[0]);

		b.words[16] = 0;
		*(volatile uint32_t *)m.cpu = 1;
		sdma_poll(&p, bench_word(&b, 16), SDMA_EQUAL, 1, 0xffffffff);
		sdma_atomic(&p, SDMA_CMPSWAP, m.va, 2, 1);
		ASSERT_OK(stream_submit(&b.s[0], p));
		p = stream_begin(&s);
		sdma_atomic(&p, SDMA_CMPSWAP, seen.va, 3, 2);
		ASSERT_OK(stream_submit(&s, p));
		EXPECT_OK(amdgpu_bo_wait_for_idle(m.bo, A_MOMENT * 1000ull, &busy));
		EXPECT(busy);
		EXPECT_EQ(*(volatile uint32_t *)m.cpu, 1);
		EXPECT_RET(stream_wait(&s, s.seq, 0), -ETIMEDOUT);
		b.words[16] = 1;
		EXPECT_OK(amdgpu_bo_wait_for_idle(m.bo, WAIT_NS, &busy));
		EXPECT(!busy);
		EXPECT_EQ(*(volatile uint32_t *)m.cpu, 3);
		EXPECT_OK(stream_wait(&s, s.seq, 0));
	}
}

/* More jobs than a context has fences for; each must find the value of the previous one. */
TEST_TIMEOUT(long_chain_of_jobs, 120)
{
	enum { JOBS = 500 };
	const struct mem *mems[1];
	struct stream s;
	struct bench b;

	open_bench(&b);
	stream_create(&b.g, &s, 1, NORMAL, JOBS, 64);
	mems[0] = &b.m;
	stream_uses(&s, mems, 1);
	for (uint32_t i = 0; i < JOBS; i++)
		ASSERT_OK(stream_submit(&s, step(&b, &s, 5, i, i + 1)));
	ASSERT_OK(stream_wait(&s, s.seq, WAIT_NS));
	EXPECT_EQ(b.words[5], JOBS);
	/* A sequence number whose fence the context no longer has counts as signalled. */
	EXPECT_OK(stream_wait(&s, 1, 0));
}

static void leave_in_the_middle(void *data)
{
	struct bench b;
	uint32_t *p;

	open_bench(&b);
	for (uint32_t i = 0; i < 24; i++) {
		struct stream *s = &b.s[i % 4];

		p = stream_begin(s);
		sdma_fill(&p, b.m.va + 8192, i, 16384);
		sdma_copy(&p, b.m.va + 32768, b.m.va + 8192, 16384);
		ASSERT_OK(stream_submit(s, p));
	}
	/* Every other process cleans up first, pending jobs or not. */
	if (*(int *)data & 1) {
		for (int i = 0; i < 4; i++)
			stream_destroy(&b.s[i]);
		drm_close(&b.g);
	}
}

TEST_TIMEOUT(exit_with_pending_jobs, 180)
{
	uint64_t vram, gtt;
	struct gpu g;

	drm_open(&g);
	EXPECT(drm_works(&g));
	vram = drm_vram_usage(&g);
	gtt = drm_gtt_usage(&g);
	for (int i = 0; i < 40; i++) {
		if (i == 15)
			growth_start();
		ASSERT_OK(ktap_in_child(leave_in_the_middle, &i));
	}
	EXPECT(drm_works(&g));
	growth_expect_none("processes with jobs", 25);
	drm_expect_usage(&g, vram, gtt);
}
