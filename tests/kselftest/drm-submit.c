// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests command submission through libdrm: contexts, chunks, BO lists, dependencies, and their
 * errors.
 */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "../workloads/kfd.h"
#include "drm.h"

#define NOWHERE 0xffff800000001000ull

static int context_call(struct gpu *g, uint32_t op, uint32_t flags, uint32_t id, int32_t priority,
			union drm_amdgpu_ctx *out)
{
	int ret;

	memset(out, 0, sizeof(*out));
	out->in.op = op;
	out->in.flags = flags;
	out->in.ctx_id = id;
	out->in.priority = priority;
	ret = kfd_ioctl(g->fd, DRM_IOCTL_AMDGPU_CTX, out);
	return ret;
}

static uint32_t context_new(struct gpu *g)
{
	union drm_amdgpu_ctx ctx;

	ASSERT_OK(context_call(g, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, NORMAL, &ctx));
	return ctx.out.alloc.ctx_id;
}

TEST(contexts)
{
	union drm_amdgpu_ctx ctx;
	uint32_t a, b;
	struct gpu g;

	drm_open(&g);
	a = context_new(&g);
	b = context_new(&g);
	EXPECT(a != 0 && b != 0 && a != b, "%u and %u", a, b);
	EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE, 0, a, 0, &ctx));
	EXPECT_EQ(ctx.out.state.reset_status, AMDGPU_CTX_NO_RESET);
	EXPECT_EQ(ctx.out.state.hangs, 0);
	EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE2, 0, a, 0, &ctx));
	EXPECT_EQ(ctx.out.state.flags, 0);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE, 0, 0x1234, 0, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE2, 0, 0x1234, 0, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE2, 1, a, 0, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_ALLOC_CTX, 1, 0, NORMAL, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, 77, 0, a, 0, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_FREE_CTX, 1, a, 0, &ctx), -EINVAL);
	EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_FREE_CTX, 0, a, 0, &ctx));
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_FREE_CTX, 0, a, 0, &ctx), -EINVAL);
	EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_QUERY_STATE, 0, a, 0, &ctx), -EINVAL);
	/* Old programs leave garbage in the priority. */
	EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, 12345, &ctx));
	EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_FREE_CTX, 0, ctx.out.alloc.ctx_id, 0, &ctx));
}

TEST(high_priority_needs_privilege)
{
	static const int32_t high[] = { AMDGPU_CTX_PRIORITY_HIGH, AMDGPU_CTX_PRIORITY_VERY_HIGH };
	static const int32_t normal[] = { AMDGPU_CTX_PRIORITY_VERY_LOW, AMDGPU_CTX_PRIORITY_LOW,
					  NORMAL };
	union drm_amdgpu_ctx ctx;
	struct gpu g;

	drm_open(&g);
	for (int i = 0; i < 2; i++)
		EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, high[i], &ctx));
	ASSERT(seteuid(65534) == 0);
	for (int i = 0; i < 2; i++)
		EXPECT_RET(context_call(&g, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, high[i], &ctx), -EACCES);
	for (int i = 0; i < 3; i++)
		EXPECT_OK(context_call(&g, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, normal[i], &ctx));
}

/* A hand-made submission, so that it can be invalid. */
struct raw {
	struct bench b;
	uint32_t ctx, list;
	struct drm_amdgpu_cs_chunk_ib ib;
	struct drm_amdgpu_cs_chunk chunks[64];
	uint64_t pointers[64];
	uint32_t count;
	union drm_amdgpu_cs cs;
};

static void raw_chunk(struct raw *r, uint32_t id, const void *data, uint32_t bytes)
{
	r->chunks[r->count].chunk_id = id;
	r->chunks[r->count].length_dw = bytes / 4;
	r->chunks[r->count].chunk_data = kfd_va(data);
	r->pointers[r->count] = kfd_va(&r->chunks[r->count]);
	r->count++;
}

/* Resets to one valid IB that fills a few dwords. */
static void raw_begin(struct raw *r)
{
	r->count = 0;
	memset(&r->ib, 0, sizeof(r->ib));
	r->ib.ip_type = AMDGPU_HW_IP_DMA;
	r->ib.va_start = r->b.s[0].ib.va;
	r->ib.ib_bytes = 32;
	raw_chunk(r, AMDGPU_CHUNK_ID_IB, &r->ib, sizeof(r->ib));
	r->list = 0;
}

static int raw_submit(struct raw *r)
{
	memset(&r->cs, 0, sizeof(r->cs));
	r->cs.in.ctx_id = r->ctx;
	r->cs.in.bo_list_handle = r->list;
	r->cs.in.num_chunks = r->count;
	r->cs.in.chunks = kfd_va(r->pointers);
	return kfd_ioctl(r->b.g.fd, DRM_IOCTL_AMDGPU_CS, &r->cs);
}

static int raw_wait(struct raw *r, uint32_t ctx, uint32_t ring, uint64_t handle, uint64_t timeout,
		    uint64_t *busy)
{
	union drm_amdgpu_wait_cs wait = { 0 };
	int ret;

	wait.in.handle = handle;
	wait.in.timeout = timeout;
	wait.in.ip_type = AMDGPU_HW_IP_DMA;
	wait.in.ring = ring;
	wait.in.ctx_id = ctx;
	ret = kfd_ioctl(r->b.g.fd, DRM_IOCTL_AMDGPU_WAIT_CS, &wait);
	*busy = wait.out.status;
	return ret;
}

static void raw_open(struct raw *r)
{
	uint32_t *p;

	memset(r, 0, sizeof(*r));
	open_bench(&r->b);
	r->ctx = context_new(&r->b.g);
	/* Raw jobs have no BO list and so do not wait for pending page table updates: wait here. */
	p = stream_begin(&r->b.s[0]);
	sdma_fence(&p, bench_word(&r->b, 15), 1);
	stream_run(&r->b.s[0], p);
	p = r->b.s[0].ib.cpu;
	sdma_atomic(&p, SDMA_ADD, bench_word(&r->b, 0), 1, 0);
}

/* Rejected submissions use up no sequence number, and the next job works. */
static void raw_still_good(struct raw *r, uint64_t number)
{
	uint32_t before = r->b.words[0];
	uint64_t busy = 1;

	raw_begin(r);
	ASSERT_OK(raw_submit(r));
	EXPECT_EQ(r->cs.out.handle, number);
	ASSERT_OK(raw_wait(r, r->ctx, 0, number, ~0ull >> 1, &busy));
	EXPECT_EQ(busy, 0);
	EXPECT_EQ(r->b.words[0], before + 1);
}

TEST(invalid_rings)
{
	static const uint32_t absent[] = { AMDGPU_HW_IP_GFX, AMDGPU_HW_IP_UVD, AMDGPU_HW_IP_VCE,
					   AMDGPU_HW_IP_UVD_ENC, AMDGPU_HW_IP_VPE };
	static struct raw r;

	raw_open(&r);
	raw_still_good(&r, 1);
	raw_begin(&r);
	r.ib.ip_type = AMDGPU_HW_IP_NUM;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ib.ip_type = 0xffffffff;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ib.ip_type = AMDGPU_HW_IP_DMA;
	r.ib.ip_instance = 1;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ib.ip_instance = 0;
	r.ib.ring = 2;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ib.ring = 0xffffffff;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ib.ring = 0;
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		struct drm_amdgpu_info_hw_ip ip = { 0 };

		if (!amdgpu_query_hw_ip_info(r.b.g.dev, absent[i], 0, &ip) && ip.available_rings)
			continue;
		/* On a GPU with partitions the driver looks for a partition with such a ring. */
		r.ib.ip_type = absent[i];
		EXPECT_RET(raw_submit(&r), r.b.g.partitions ? -ENOENT : -EINVAL);
	}
	raw_begin(&r);
	r.ctx = 0x1234;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ctx = 0;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.ctx = context_new(&r.b.g);
	raw_still_good(&r, 1);
	raw_still_good(&r, 2);
	/* Sequence numbers are per ring of a context. */
	raw_begin(&r);
	r.ib.ring = 1;
	ASSERT_OK(raw_submit(&r));
	EXPECT_EQ(r.cs.out.handle, 1);
}

TEST(invalid_chunks)
{
	static struct raw r;
	struct drm_amdgpu_cs_chunk_fence fence = { 0 };
	uint32_t words[8] = { 0 };
	uint64_t busy;

	raw_open(&r);
	raw_begin(&r);
	r.count = 0;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_begin(&r);
	raw_chunk(&r, 0x77, words, sizeof(words));
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_begin(&r);
	r.chunks[0].length_dw = sizeof(r.ib) / 4 - 1;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_begin(&r);
	r.chunks[0].chunk_data = NOWHERE;
	EXPECT_RET(raw_submit(&r), -EFAULT);
	raw_begin(&r);
	r.pointers[0] = NOWHERE;
	EXPECT_RET(raw_submit(&r), -EFAULT);
	/* No IB chunk. */
	raw_begin(&r);
	r.count = 0;
	raw_chunk(&r, AMDGPU_CHUNK_ID_DEPENDENCIES, words, 0);
	EXPECT_RET(raw_submit(&r), -EINVAL);
	/* Larger than the packet's size field; more IBs than the ring takes. */
	raw_begin(&r);
	r.ib.ib_bytes = 0x100000 * 4;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_begin(&r);
	r.ib.flags = AMDGPU_IB_FLAG_CE;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_begin(&r);
	while (r.count < 50)
		raw_chunk(&r, AMDGPU_CHUNK_ID_IB, &r.ib, sizeof(r.ib));
	EXPECT_RET(raw_submit(&r), -EINVAL);
	/* A user fence BO is one page, and there is at most one. */
	raw_begin(&r);
	raw_chunk(&r, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	fence.handle = 0x1234;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	ASSERT_OK(amdgpu_bo_export(r.b.m.bo, amdgpu_bo_handle_type_kms, &fence.handle));
	EXPECT_RET(raw_submit(&r), -EINVAL);
	raw_still_good(&r, 1);
	EXPECT_RET(raw_wait(&r, r.ctx, 0, 2, 0, &busy), -EINVAL);
	EXPECT_RET(raw_wait(&r, r.ctx, 2, 1, 0, &busy), -EINVAL);
	EXPECT_RET(raw_wait(&r, 0x1234, 0, 1, 0, &busy), -EINVAL);
	/* Handle ~0 is that of the latest job. */
	EXPECT_OK(raw_wait(&r, r.ctx, 0, ~0ull, ~0ull >> 1, &busy));
	EXPECT_EQ(busy, 0);
}

/* The engine ignores the low five bits of an IB address, which the driver passes through. */
TEST(unaligned_ib)
{
	static struct raw r;
	uint64_t busy;

	raw_open(&r);
	raw_begin(&r);
	r.ib.va_start += 16;
	ASSERT_OK(raw_submit(&r));
	ASSERT_OK(raw_wait(&r, r.ctx, 0, r.cs.out.handle, ~0ull >> 1, &busy));
	EXPECT_EQ(r.b.words[0], 1);
	/* Also with a length that is no multiple of eight dwords. */
	raw_begin(&r);
	r.ib.ib_bytes = 36;
	((uint32_t *)r.b.s[0].ib.cpu)[8] = SDMA_NOP;
	ASSERT_OK(raw_submit(&r));
	ASSERT_OK(raw_wait(&r, r.ctx, 0, r.cs.out.handle, ~0ull >> 1, &busy));
	EXPECT_EQ(r.b.words[0], 2);
}

static int list_call(struct gpu *g, uint32_t op, uint32_t handle, const void *entries,
		     uint32_t count, uint32_t size, uint32_t *out)
{
	union drm_amdgpu_bo_list args = { 0 };
	int ret;

	args.in.operation = op;
	args.in.list_handle = handle;
	args.in.bo_number = count;
	args.in.bo_info_size = size;
	args.in.bo_info_ptr = kfd_va(entries);
	ret = kfd_ioctl(g->fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);
	*out = args.out.list_handle;
	return ret;
}

TEST(bo_lists)
{
	struct drm_amdgpu_bo_list_entry entries[4] = { 0 };
	struct drm_amdgpu_bo_list_in in = { .bo_info_size = sizeof(entries[0]) };
	const uint32_t size = sizeof(entries[0]);
	static struct raw r;
	uint32_t a, b, none;
	uint64_t busy;

	raw_open(&r);
	ASSERT_OK(amdgpu_bo_export(r.b.m.bo, amdgpu_bo_handle_type_kms, &entries[0].bo_handle));
	ASSERT_OK(
		amdgpu_bo_export(r.b.s[0].ib.bo, amdgpu_bo_handle_type_kms, &entries[1].bo_handle));
	/* Duplicates are allowed. */
	entries[2] = entries[0];
	entries[3].bo_handle = 0x1234;
	ASSERT_OK(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, entries, 3, size, &a));
	ASSERT_OK(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, entries, 0, size, &b));
	EXPECT(a != 0 && b != 0 && a != b);
	EXPECT_RET(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, entries, 4, size, &none),
		   -ENOENT);
	EXPECT_RET(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, entries, 1, size + 4, &none),
		   -EINVAL);
	EXPECT_RET(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, entries, 0x7fffffff, size, &none),
		   -EINVAL);
	EXPECT_RET(list_call(&r.b.g, AMDGPU_BO_LIST_OP_CREATE, 0, (void *)NOWHERE, 1, size, &none),
		   -EFAULT);
	EXPECT_RET(list_call(&r.b.g, AMDGPU_BO_LIST_OP_UPDATE, 0x1234, entries, 1, size, &none),
		   -ENOENT);
	EXPECT_RET(list_call(&r.b.g, 77, a, entries, 1, size, &none), -EINVAL);
	EXPECT_OK(list_call(&r.b.g, AMDGPU_BO_LIST_OP_UPDATE, b, entries, 2, size, &none));
	EXPECT_EQ(none, b);

	raw_begin(&r);
	r.list = 0x1234;
	EXPECT_RET(raw_submit(&r), -ENOENT);
	r.list = a;
	EXPECT_OK(raw_submit(&r));
	r.list = b;
	EXPECT_OK(raw_submit(&r));
	/* A BO_HANDLES chunk; but not together with a list handle. */
	in.bo_number = 2;
	in.bo_info_ptr = kfd_va(entries);
	raw_chunk(&r, AMDGPU_CHUNK_ID_BO_HANDLES, &in, sizeof(in));
	EXPECT_RET(raw_submit(&r), -EINVAL);
	r.list = 0;
	EXPECT_OK(raw_submit(&r));
	in.bo_number = 4;
	in.bo_info_ptr = kfd_va(entries);
	EXPECT_RET(raw_submit(&r), -ENOENT);
	EXPECT_OK(raw_wait(&r, r.ctx, 0, ~0ull, ~0ull >> 1, &busy));
	EXPECT_EQ(r.b.words[0], 3);
	EXPECT_OK(list_call(&r.b.g, AMDGPU_BO_LIST_OP_DESTROY, a, NULL, 0, size, &none));
	raw_begin(&r);
	r.list = a;
	EXPECT_RET(raw_submit(&r), -ENOENT);
	raw_still_good(&r, 4);
}

/* The sequence number reaches memory when the job is done. */
TEST(user_fences)
{
	struct amdgpu_cs_ib_info ib = { 0 };
	struct amdgpu_cs_request request = { .ip_type = AMDGPU_HW_IP_DMA,
					     .number_of_ibs = 1,
					     .ibs = &ib };
	struct bench b;
	struct mem page;
	uint32_t *start, *p;

	open_bench(&b);
	mem_create(&b.g, 4096, GTT, &page);
	memset(page.cpu, 0, 4096);
	for (uint32_t i = 0; i < 5; i++) {
		start = stream_begin(&b.s[0]);
		p = step(&b, &b.s[0], 0, i, i + 1);
		ib.ib_mc_address = b.s[0].ib.va;
		ib.size = (uint32_t)(p - start);
		request.resources = b.s[0].list;
		request.fence_info.handle = page.bo;
		request.fence_info.offset = i;
		ASSERT_OK(amdgpu_cs_submit(b.s[0].ctx, 0, &request, 1));
		ASSERT_OK(stream_wait(&b.s[0], request.seq_no, WAIT_NS));
		EXPECT_EQ(((uint64_t *)page.cpu)[i], request.seq_no);
	}
	EXPECT_EQ(b.words[0], 5);
}

#define CONTEXTS 16

/*
 * Expects that jobs run while another one waits, which it releases then. A job gets the engine with
 * the least load when it is submitted: the more contexts have a job behind the one that waits, the
 * less likely is its engine for the next. The last context has done its job.
 */
static void expect_others_run(struct raw *r, volatile uint32_t *gate)
{
	uint32_t contexts[CONTEXTS], count = 0;
	uint64_t busy = 1;

	while (busy && count < CONTEXTS) {
		struct timespec now;

		r->ctx = contexts[count++] = context_new(&r->b.g);
		raw_begin(r);
		ASSERT_OK(raw_submit(r));
		clock_gettime(CLOCK_MONOTONIC, &now);
		ASSERT_OK(raw_wait(r, r->ctx, 0, 1,
				   (uint64_t)(now.tv_sec + 2) * SECOND + (uint64_t)now.tv_nsec, &busy));
	}
	EXPECT_EQ(busy, 0);
	*gate = 1;
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(raw_wait(r, contexts[i], 0, 1, ~0ull >> 1, &busy));
}

/* Three contexts in a chain; the first job waits for the CPU. */
TEST(dependencies_across_contexts)
{
	struct drm_amdgpu_cs_chunk_dep dep;
	struct amdgpu_cs_fence after;
	static struct raw r;
	struct bench *b = &r.b;
	uint64_t busy;

	raw_open(&r);
	b->words[1] = 0;
	ASSERT_OK(stream_submit(&b->s[1], gated(b, &b->s[1], 16, 1, 1)));
	after = stream_fence(&b->s[1], b->s[1].seq);
	ASSERT_OK(stream_submit_after(&b->s[2], step(b, &b->s[2], 1, 1, 2), &after, 1));
	after = stream_fence(&b->s[2], b->s[2].seq);
	ASSERT_OK(stream_submit_after(&b->s[3], step(b, &b->s[3], 1, 2, 3), &after, 1));
	usleep(A_MOMENT);
	EXPECT_EQ(b->words[1], 0);
	EXPECT_RET(stream_wait(&b->s[3], b->s[3].seq, 0), -ETIMEDOUT);
	expect_others_run(&r, &b->words[16]);
	EXPECT_OK(stream_wait(&b->s[3], b->s[3].seq, WAIT_NS));
	EXPECT_EQ(b->words[1], 3);

	/* Dependencies on a signalled fence, on the same ring, and on unknown fences. */
	memset(&dep, 0, sizeof(dep));
	dep.ip_type = AMDGPU_HW_IP_DMA;
	dep.ctx_id = r.ctx;
	dep.handle = 1;
	raw_begin(&r);
	raw_chunk(&r, AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	raw_chunk(&r, AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, &dep, sizeof(dep));
	EXPECT_OK(raw_submit(&r));
	dep.handle = 99;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	dep.handle = 1;
	dep.ring = 2;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	dep.ring = 0;
	dep.ctx_id = 0x1234;
	EXPECT_RET(raw_submit(&r), -EINVAL);
	EXPECT_OK(raw_wait(&r, r.ctx, 0, 2, ~0ull >> 1, &busy));
	raw_still_good(&r, 3);
}
