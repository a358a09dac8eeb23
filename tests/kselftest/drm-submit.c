// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests command submission through libdrm: contexts, chunks, BO lists, dependencies, syncobjs,
 * waits, and their errors.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <xf86drm.h>

#include "../workloads/kfd.h"
#include "drm.h"
#include "growth.h"

#define NORMAL AMDGPU_CTX_PRIORITY_NORMAL
#define NOWHERE 0xffff800000001000ull
/* In us; long enough for a runnable job to end. */
#define A_MOMENT 150000u

/* Memory that jobs and this process share, and streams that use it. */
struct bench {
	struct gpu g;
	struct mem m;
	volatile uint32_t *words;
	struct stream s[4];
};

static uint64_t at(struct bench *b, uint32_t word)
{
	return b->m.va + word * 4;
}

static void open_bench(struct bench *b)
{
	const struct mem *mems[1] = { &b->m };

	memset(b, 0, sizeof(*b));
	drm_open(&b->g);
	mem_create(&b->g, 65536, GTT, &b->m);
	b->words = b->m.cpu;
	for (int i = 0; i < 4; i++) {
		stream_create(&b->g, &b->s[i], 0, NORMAL, 8, 64);
		stream_uses(&b->s[i], mems, 1);
	}
}

/* Writes packets that poll dword `gate` until it is 1, then set dword `done` to `value`. */
static uint32_t *gated(struct bench *b, struct stream *s, uint32_t gate, uint32_t done,
		       uint32_t value)
{
	uint32_t *p = stream_begin(s);

	sdma_poll(&p, at(b, gate), SDMA_EQUAL, 1, 0xffffffff);
	sdma_fence(&p, at(b, done), value);
	return p;
}

/* Writes packets that set dword `where` to `value` if it is `before`. */
static uint32_t *step(struct bench *b, struct stream *s, uint32_t where, uint32_t before,
		      uint32_t value)
{
	uint32_t *p = stream_begin(s);

	sdma_atomic(&p, SDMA_CMPSWAP, at(b, where), value, before);
	return p;
}

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
	sdma_fence(&p, at(&r->b, 15), 1);
	stream_run(&r->b.s[0], p);
	p = r->b.s[0].ib.cpu;
	sdma_atomic(&p, SDMA_ADD, at(&r->b, 0), 1, 0);
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
		EXPECT_RET(raw_submit(&r), -ENOENT);
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
	/* Handle ~0 stands for the latest job. */
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
	b.words[1] = 1;
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, false, WAIT_NS, &status, &first));
	EXPECT(status == 1 && first == 1, "status %u, first %u", status, first);
	EXPECT_OK(amdgpu_cs_wait_fences(fences, 3, true, SECOND / 10, &status, &first));
	EXPECT_EQ(status, 0);
	EXPECT_RET(stream_wait(&b.s[0], b.s[0].seq, 0), -ETIMEDOUT);
	b.words[0] = b.words[2] = 1;
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
	/* Independent jobs run meanwhile. */
	raw_still_good(&r, 1);
	b->words[16] = 1;
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

static uint32_t syncobj(struct gpu *g)
{
	uint32_t handle;

	ASSERT_OK(amdgpu_cs_create_syncobj(g->dev, &handle));
	return handle;
}

/* Submits one job with the packets at `p` and two syncobj chunks. */
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
		sdma_poll(&p, at(&b, 16), SDMA_EQUAL, 1, 0xffffffff);
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

/* More jobs than a context remembers; each must find the value of the previous one. */
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
	/* A sequence number no longer remembered counts as signalled. */
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
