// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests that freed ids of contexts and BO lists are reused, and that user fences leave the GART. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cs.h"

#define CONTEXTS 300u
#define FENCE_BUFFERS 64
#define SECOND 1000000000ull

static int list_op(int fd, uint32_t op, uint32_t *handle, const void *entries, uint32_t count)
{
	union drm_amdgpu_bo_list args = { 0 };
	int ret;

	args.in.operation = op;
	args.in.list_handle = *handle;
	args.in.bo_number = count;
	args.in.bo_info_size = sizeof(struct drm_amdgpu_bo_list_entry);
	args.in.bo_info_ptr = kfd_va(entries);
	ret = kfd_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);
	if (!ret)
		*handle = args.out.list_handle;
	return ret;
}

TEST(freed_context_ids_are_reused_lowest_first)
{
	static const uint32_t freed[] = { 3, 64, 65, 299 };
	uint32_t id = 0;
	int fd = cs_open_file();

	for (uint32_t i = 1; i <= CONTEXTS; i++) {
		ASSERT_OK(cs_ctx_alloc(fd, &id));
		ASSERT(id == i);
	}
	for (int i = 3; i >= 0; i--)
		EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ freed[i] }));
	for (int i = 0; i < 4; i++) {
		EXPECT_OK(cs_ctx_alloc(fd, &id));
		EXPECT_EQ(id, freed[i]);
	}
	EXPECT_OK(cs_ctx_alloc(fd, &id));
	EXPECT_EQ(id, CONTEXTS + 1);
}

TEST(freed_list_handles_are_reused_lowest_first)
{
	uint32_t handle = 0;
	int fd = cs_open_file();

	for (uint32_t i = 1; i <= CONTEXTS; i++) {
		ASSERT_OK(list_op(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, NULL, 0));
		ASSERT(handle == i);
	}
	EXPECT_OK(list_op(fd, AMDGPU_BO_LIST_OP_DESTROY, &(uint32_t){ 127 }, NULL, 0));
	EXPECT_OK(list_op(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, NULL, 0));
	EXPECT_EQ(handle, 127);
}

/* A buffer takes room in the GART only while a job is going to write a fence there. */
TEST(fence_buffers_leave_the_gart)
{
	struct cs_bo fences[FENCE_BUFFERS];
	uint64_t handle, end;
	long before, after;
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &handle));
	cs_done(&cs, 0, handle);
	before = gart_pages();
	for (uint32_t i = 0; i < FENCE_BUFFERS; i++) {
		struct drm_amdgpu_cs_chunk_fence fence = { 0 };
		struct drm_amdgpu_bo_list_entry bos[] = { { cs.code.handle, 0 },
							  { cs.data.handle, 0 } };
		struct cs_job job;

		cs_bo_new(&cs, &fences[i], 4096, AMDGPU_GEM_DOMAIN_GTT);
		fence.handle = fences[i].handle;
		cs_job(&job, &cs, 0);
		cs_add(&job, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
		cs_add_bos(&job, bos, 2);
		cs_add_ib(&job, cs_write(&cs, cs.data.va, i));
		ASSERT_OK(cs_submit(&job, &handle));
	}
	cs_done(&cs, 0, handle);
	for (uint32_t i = 0; i < FENCE_BUFFERS; i++)
		EXPECT_EQ(fences[i].words[0], i + 2);
	/* A work item frees the GART pages of jobs. */
	end = cs_now() + 5 * SECOND;
	do
		after = gart_pages();
	while (after > before && cs_now() < end);
	EXPECT(after <= before, "%ld pages before, %ld after", before, after);
}
