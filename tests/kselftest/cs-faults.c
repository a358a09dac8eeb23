// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests command submission: failing jobs and the jobs behind them. */
#define _GNU_SOURCE
#include "cs.h"

/* The other ring and other contexts still work. */
static void expect_others_work(struct cs *cs)
{
	uint32_t ctx = cs->ctx;
	uint64_t handle;

	ASSERT_OK(cs_run(cs, 1, cs_write(cs, cs->data.va, 2), &handle));
	cs_done(cs, 1, handle);
	EXPECT_EQ(cs->data.words[0], 2);
	ASSERT_OK(cs_ctx_alloc(cs->fd, &cs->ctx));
	for (uint32_t i = 0; i < 8; i++) {
		ASSERT_OK(cs_run(cs, i & 1, cs_write(cs, cs->data.va, 3 + i), &handle));
		cs_done(cs, i & 1, handle);
		EXPECT_EQ(cs->data.words[0], 3 + i);
	}
	EXPECT_OK(cs_ctx(cs->fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &ctx));
}

/* The ring of this context is dead; the other ring and other contexts are not. */
static void expect_dead(struct cs *cs, int error)
{
	uint64_t busy;

	EXPECT_RET(cs_run(cs, 0, cs_write(cs, cs->data.va, 1), NULL), error);
	EXPECT_RET(cs_wait(cs, 0, 1, 0, &busy), error);
	expect_others_work(cs);
}

/*
 * Waits for a job with a VM fault. rkfd ends it with EFAULT, and so later jobs of its context on
 * that ring. The C driver only logs the fault: the job succeeds (gmc_v9_0_process_interrupt).
 */
static void expect_fault(struct cs *cs, uint64_t handle)
{
	uint64_t busy = 1;

	EXPECT_RET(cs_wait(cs, 0, handle, FOREVER, &busy), ktap_is_rkfd() ? -EFAULT : 0);
	EXPECT(ktap_is_rkfd() || !busy);
}

/* Checks later jobs after such a job. */
static void expect_after_fault(struct cs *cs)
{
	uint64_t handle;

	if (ktap_is_rkfd()) {
		expect_dead(cs, -EFAULT);
		return;
	}
	ASSERT_OK(cs_run(cs, 0, cs_write(cs, cs->data.va, 1), &handle));
	cs_done(cs, 0, handle);
	EXPECT_EQ(cs->data.words[0], 1);
	expect_others_work(cs);
}

TEST(unmapped_ib)
{
	struct drm_amdgpu_fence fence = { .ip_type = AMDGPU_HW_IP_DMA };
	union drm_amdgpu_wait_fences args = { 0 };
	uint64_t handle, flags;
	uint32_t status;
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, (struct cs_ib){ 0x5000000000ull, 64 }, &handle));
	EXPECT_EQ(handle, 1);
	expect_fault(&cs, handle);
	/* No timeout, so the context is not guilty. */
	EXPECT_OK(cs_ctx_state(cs.fd, AMDGPU_CTX_OP_QUERY_STATE2, cs.ctx, &flags, &status));
	EXPECT_EQ(flags & AMDGPU_CTX_QUERY2_FLAGS_GUILTY, 0);
	fence.ctx_id = cs.ctx;
	fence.seq_no = handle;
	args.in.fences = kfd_va(&fence);
	args.in.fence_count = 1;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_WAIT_FENCES, &args),
		   ktap_is_rkfd() ? -EFAULT : 0);
	expect_after_fault(&cs);
}

TEST(unmapped_source)
{
	uint64_t handle;
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_copy(&cs, 0x5000000000ull, cs.data.va, 64), &handle));
	expect_fault(&cs, handle);
	expect_after_fault(&cs);
}

TEST(write_to_read_only_mapping)
{
	const uint64_t va = 0x7000000000ull;
	uint64_t handle;
	struct cs cs;

	cs_open(&cs);
	cs.data.words[0] = 0x55;
	ASSERT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE, va, 0,
			4096));
	ASSERT_OK(cs_run(&cs, 1, cs_copy(&cs, va, cs.data.va + 4, 4), &handle));
	cs_done(&cs, 1, handle);
	EXPECT_EQ(cs.data.words[1], 0x55);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, va, 0x66), &handle));
	expect_fault(&cs, handle);
	EXPECT_EQ(cs.data.words[0], 0x55);
	expect_after_fault(&cs);
}

/* SDMA 7 executes secure IBs, also in memory that is not encrypted; older engines do not. */
TEST(secure_ib)
{
	uint64_t handle, busy;
	struct cs_job job;
	struct cs cs;

	cs_open(&cs);
	cs_job(&job, &cs, 0);
	/* Without them the C driver does not map the buffers. */
	cs_add_bos(&job, (struct drm_amdgpu_bo_list_entry[]){ { cs.code.handle, 0 },
							      { cs.data.handle, 0 } },
		   2);
	cs_add_ib(&job, cs_write(&cs, cs.data.va, 1));
	job.data[1].ib.flags = AMDGPU_IB_FLAGS_SECURE;
	ASSERT_OK(cs_submit(&job, &handle));
	if (gpu_is_gfx12()) {
		cs_done(&cs, 0, handle);
		EXPECT_EQ(cs.data.words[0], 1);
		expect_others_work(&cs);
		return;
	}
	EXPECT_RET(cs_wait(&cs, 0, handle, FOREVER, &busy), -EINVAL);
	EXPECT_EQ(cs.data.words[0], 0);
	expect_dead(&cs, -EINVAL);
}

/*
 * Each kind of fault ends the job, in a context of its own; other jobs are unaffected, and
 * read-only memory is unchanged.
 */
TEST(faults_do_not_affect_others)
{
	const uint64_t nowhere = 0x5000000000ull, read_only = 0x7000000000ull;
	uint64_t handle;
	struct cs_bo kept;
	struct cs cs;

	cs_open(&cs);
	cs_bo_new(&cs, &kept, 4096, AMDGPU_GEM_DOMAIN_GTT);
	kept.words[0] = 0x55;
	ASSERT_OK(cs_va(cs.fd, kept.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE, read_only, 0,
			4096));
	for (int i = 0; i < 4; i++) {
		const struct cs_ib bad[] = { { nowhere, 64 },
					     cs_copy(&cs, nowhere, cs.data.va, 64),
					     cs_copy(&cs, cs.data.va, nowhere, 64),
					     cs_write(&cs, read_only, 0x66) };
		uint32_t dead = cs.ctx;

		ASSERT_OK(cs_run(&cs, 0, bad[i], &handle));
		expect_fault(&cs, handle);
		ASSERT_OK(cs_ctx_alloc(cs.fd, &cs.ctx));
		ASSERT_OK(cs_ctx(cs.fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &dead));
		expect_others_work(&cs);
	}
	EXPECT_EQ(kept.words[0], 0x55);
}
