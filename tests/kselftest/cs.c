// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests command submission: contexts, BO lists, jobs, and argument checks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"

TEST(ctx_id_is_lowest_free)
{
	uint32_t ids[4];
	int fd = cs_open_file();

	for (uint32_t i = 0; i < 3; i++) {
		ASSERT_OK(cs_ctx_alloc(fd, &ids[i]));
		EXPECT_EQ(ids[i], i + 1);
	}
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ 2 }));
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ 2 }), -EINVAL);
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ ~0u }), -EINVAL);
	ASSERT_OK(cs_ctx_alloc(fd, &ids[3]));
	EXPECT_EQ(ids[3], 2);
	/* Keep this last: the C driver allocates id 0 after this. */
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ 0 }), -EINVAL);
}

TEST(ctx_argument_checks)
{
	uint32_t id = 0, status;
	uint64_t flags;
	int fd = cs_open_file();

	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 1, 0, &id), -EINVAL);
	EXPECT_RET(cs_ctx(fd, 0, 0, 0, &id), -EINVAL);
	EXPECT_RET(cs_ctx(fd, 77, 0, 0, &id), -EINVAL);
	/* Invalid priorities count as NORMAL. */
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0x1234567, &id));
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_LOW, &id));
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_VERY_HIGH, &id));

	EXPECT_RET(cs_ctx_state(fd, AMDGPU_CTX_OP_QUERY_STATE, 77, &flags, &status), -EINVAL);
	EXPECT_OK(cs_ctx_state(fd, AMDGPU_CTX_OP_QUERY_STATE, id, &flags, &status));
	EXPECT_EQ(flags, 0);
	EXPECT_EQ(status, AMDGPU_CTX_NO_RESET);
	EXPECT_RET(cs_ctx_state(fd, AMDGPU_CTX_OP_QUERY_STATE2, 77, &flags, &status), -EINVAL);
	EXPECT_OK(cs_ctx_state(fd, AMDGPU_CTX_OP_QUERY_STATE2, id, &flags, &status));
	EXPECT_EQ(flags, 0);

	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_GET_STABLE_PSTATE, 0, 0, &(uint32_t){ 77 }), -EINVAL);
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_GET_STABLE_PSTATE, 0, 0, &(uint32_t){ id }));
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE, AMDGPU_CTX_STABLE_PSTATE_NONE, 0,
			 &(uint32_t){ id }));
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE, 5, 0, &(uint32_t){ id }), -EINVAL);
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE, 0x10, 0, &(uint32_t){ id }),
		   -EINVAL);
}

TEST(high_priority_needs_privilege)
{
	uint32_t id = 0;
	int fd = cs_open_file();

	ASSERT(setresuid(65534, 65534, 65534) == 0);
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_HIGH, &id), -EACCES);
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_NORMAL, &id));
}

TEST(master_may_have_high_priority)
{
	/* The first file of the node is its master. */
	int fd = open("/dev/dri/card0", O_RDWR | O_CLOEXEC);
	uint32_t id = 0;

	if (fd < 0)
		SKIP("no /dev/dri/card0");
	ASSERT(setresuid(65534, 65534, 65534) == 0);
	EXPECT_OK(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_HIGH, &id));
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_DROP_MASTER, 0));
	EXPECT_RET(cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, AMDGPU_CTX_PRIORITY_HIGH, &id), -EACCES);
}

static int list(int fd, uint32_t op, uint32_t *handle, const void *entries, uint32_t count,
		uint32_t size)
{
	union drm_amdgpu_bo_list args = { 0 };
	int ret;

	args.in.operation = op;
	args.in.list_handle = *handle;
	args.in.bo_number = count;
	args.in.bo_info_size = size;
	args.in.bo_info_ptr = kfd_va(entries);
	ret = kfd_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);
	if (!ret)
		*handle = args.out.list_handle;
	return ret;
}

TEST(bo_lists)
{
	struct drm_amdgpu_bo_list_entry e[2] = { { 0, 7 }, { 0, 99 } };
	uint32_t handle = 0, other = 0;
	int fd = cs_open_file();

	ASSERT_OK(cs_bo_create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &e[0].bo_handle));
	ASSERT_OK(cs_bo_create(fd, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0, &e[1].bo_handle));
	ASSERT_OK(list(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, e, 2, sizeof(*e)));
	EXPECT_EQ(handle, 1);
	ASSERT_OK(list(fd, AMDGPU_BO_LIST_OP_CREATE, &other, NULL, 0, sizeof(*e)));
	EXPECT_EQ(other, 2);
	EXPECT_OK(list(fd, AMDGPU_BO_LIST_OP_UPDATE, &handle, e, 1, sizeof(*e)));
	EXPECT_EQ(handle, 1);
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_UPDATE, &(uint32_t){ 3 }, e, 1, sizeof(*e)), -ENOENT);
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, e, 2, sizeof(*e) + 8), -EINVAL);
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, e, 128 * 1024 + 1, sizeof(*e)),
		   -EINVAL);
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, (void *)KERNEL_ADDRESS, 1,
			sizeof(*e)),
		   -EFAULT);
	EXPECT_RET(list(fd, 9, &handle, e, 1, sizeof(*e)), -EINVAL);
	/* Destroying an unknown list succeeds. */
	EXPECT_OK(list(fd, AMDGPU_BO_LIST_OP_DESTROY, &handle, NULL, 0, 0));
	EXPECT_OK(list(fd, AMDGPU_BO_LIST_OP_DESTROY, &(uint32_t){ 77 }, NULL, 0, 0));
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_UPDATE, &(uint32_t){ 1 }, e, 1, sizeof(*e)), -ENOENT);
	e[1].bo_handle = 0x1234;
	EXPECT_RET(list(fd, AMDGPU_BO_LIST_OP_CREATE, &handle, e, 2, sizeof(*e)), -ENOENT);
}

TEST(hw_ip_info)
{
	static const uint32_t kinds[] = { AMDGPU_HW_IP_GFX, AMDGPU_HW_IP_COMPUTE,
					  AMDGPU_HW_IP_DMA };
	uint32_t engines = 0;
	int fd = cs_open_file();

	for (int i = 0; i < 3; i++) {
		struct drm_amdgpu_info_hw_ip ip;
		struct drm_amdgpu_info request = { .return_pointer = kfd_va(&ip),
						   .return_size = sizeof(ip),
						   .query = AMDGPU_INFO_HW_IP_INFO };

		memset(&ip, 0, sizeof(ip));
		request.query_hw_ip.type = kinds[i];
		ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
		/* Rings for compute and graphics are optional. */
		if (kinds[i] == AMDGPU_HW_IP_COMPUTE)
			continue;
		if (kinds[i] == AMDGPU_HW_IP_GFX) {
			EXPECT(ip.available_rings <= (ktap_is_rkfd() ? 0 : 1), "%u",
			       ip.available_rings);
			continue;
		}
		request.query = AMDGPU_INFO_HW_IP_COUNT;
		request.return_pointer = kfd_va(&engines);
		request.return_size = sizeof(engines);
		ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
		EXPECT_EQ(ip.available_rings, engines > 1 ? 3 : 1);
		EXPECT_EQ(ip.ib_start_alignment, 256);
		EXPECT_EQ(ip.ib_size_alignment, 4);
		EXPECT(ip.hw_ip_version_major == 4 || ip.hw_ip_version_major == 7, "%u",
		       ip.hw_ip_version_major);
	}
}

TEST(job_writes_memory)
{
	struct cs cs;
	uint64_t handle = 0, busy;

	cs_open(&cs);
	for (uint32_t ring = 0; ring < 2; ring++) {
		for (uint32_t i = 0; i < 5; i++) {
			ASSERT_OK(cs_run(&cs, ring,
					 cs_write(&cs, cs.data.va + 4 * i, 0x600d0000 + i),
					 &handle));
			/* Sequence numbers start at 1 in each ring. */
			EXPECT_EQ(handle, i + 1);
			cs_done(&cs, ring, handle);
			EXPECT_EQ(cs.data.words[i], 0x600d0000 + i);
			cs.data.words[i] = 0;
		}
		/* Sequence numbers: 0, latest, future. */
		EXPECT_OK(cs_wait(&cs, ring, 0, 0, &busy));
		EXPECT_EQ(busy, 0);
		EXPECT_OK(cs_wait(&cs, ring, ~0ull, 0, &busy));
		EXPECT_EQ(busy, 0);
		EXPECT_RET(cs_wait(&cs, ring, 6, 0, &busy), -EINVAL);
	}
}

/* Returns the number of interrupts of the driver. */
static unsigned long interrupts(void)
{
	FILE *f = fopen("/proc/interrupts", "re");
	unsigned long sum = 0;
	char line[1024];

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ':'), *end;

		if (!at || (!strstr(at, "rkfd") && !strstr(at, "amdgpu")))
			continue;
		/* One column for each processor. */
		for (at++;; at = end) {
			unsigned long count = strtoul(at, &end, 10);

			if (end == at)
				break;
			sum += count;
		}
	}
	fclose(f);
	return sum;
}

/* Caches are written back and invalidated before the IBs, if the engine uses any. */
TEST(ib_with_a_memory_sync)
{
	uint64_t handle;
	struct cs cs;

	cs_open(&cs);
	for (uint32_t ring = 0; ring < 2; ring++) {
		struct drm_amdgpu_bo_list_entry bos[] = { { cs.code.handle, 0 },
							  { cs.data.handle, 0 } };
		struct cs_job job;

		cs_job(&job, &cs, ring);
		cs_add_ib(&job, cs_write(&cs, cs.data.va, ring + 1));
		((struct drm_amdgpu_cs_chunk_ib *)(uintptr_t)job.chunks[0].chunk_data)->flags =
			AMDGPU_IB_FLAG_EMIT_MEM_SYNC;
		cs_add_bos(&job, bos, 2);
		ASSERT_OK(cs_submit(&job, &handle));
		cs_done(&cs, ring, handle);
		EXPECT_EQ(cs.data.words[0], ring + 1);
	}
}

/* Addresses of the upper half are canonical ones. */
TEST(high_addresses)
{
	struct drm_amdgpu_info_device d = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&d),
					   .return_size = sizeof(d),
					   .query = AMDGPU_INFO_DEV_INFO };
	uint64_t handle, vas[3];
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_INFO, &request));
	vas[0] = d.high_va_offset;
	vas[1] = d.high_va_offset | 0x123456000;
	vas[2] = d.high_va_max - 4096;
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, ACCESS, vas[i], 0, 4096));
		ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, vas[i] + 4, 0x600d + i), &handle));
		cs_done(&cs, 0, handle);
		EXPECT_EQ(cs.data.words[1], 0x600d + i);
		EXPECT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_UNMAP, 0, vas[i], 0, 4096));
	}
	/* The hole between the halves, and what is reserved at their ends. */
	vas[0] = d.virtual_address_max;
	vas[1] = d.high_va_offset - 4096;
	vas[2] = d.high_va_max;
	for (int i = 0; i < 3; i++)
		EXPECT_RET(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, ACCESS, vas[i], 0, 4096),
			   -EINVAL);
	EXPECT_RET(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, ACCESS, 0, 0, 4096), -EINVAL);
}

TEST(jobs_end_with_an_interrupt)
{
	unsigned long before, after;
	uint64_t handle = 0;
	struct cs cs;

	cs_open(&cs);
	before = after = interrupts();
	/* One that arrives while another is handled needs no interrupt of its own. */
	for (uint32_t i = 1; i <= 50 && after < before + 5; i++) {
		ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, i), &handle));
		cs_done(&cs, 0, handle);
		after = interrupts();
	}
	EXPECT(after >= before + 5, "%lu interrupts before, %lu after", before, after);
}

TEST(jobs_of_a_ring_are_ordered)
{
	struct cs cs;
	uint64_t handle = 0;

	cs_open(&cs);
	/* More than the fence ring of a context (amdgpu_sched_jobs): submission has to wait. */
	for (uint32_t i = 1; i <= 300; i++) {
		ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, i), &handle));
		EXPECT_EQ(handle, i);
	}
	cs_done(&cs, 0, handle);
	EXPECT_EQ(cs.data.words[0], 300);
	/* Sequence numbers whose fences the context no longer has count as signalled. */
	cs_done(&cs, 0, 1);
	cs_done(&cs, 0, 268);
	cs_done(&cs, 0, 269);
}

TEST(several_ibs_per_job)
{
	struct drm_amdgpu_bo_list_entry bos[3];
	struct cs_job job;
	struct cs cs;
	uint64_t handle = 0;

	cs_open(&cs);
	bos[0].bo_handle = cs.code.handle;
	/* Duplicates in the list are allowed. */
	bos[1].bo_handle = bos[2].bo_handle = cs.data.handle;
	cs_job(&job, &cs, 0);
	for (uint32_t i = 0; i < 49; i++) {
		struct cs_ib ib = cs_write(&cs, cs.data.va + 4 * i, i + 1);

		cs_add_ib(&job, ib);
	}
	/* An empty IB. */
	job.data[20].ib.ib_bytes = 3;
	cs_add_bos(&job, bos, 3);
	ASSERT_OK(cs_submit(&job, &handle));
	EXPECT_EQ(handle, 1);
	cs_done(&cs, 0, handle);
	for (uint32_t i = 0; i < 49; i++)
		EXPECT_EQ(cs.data.words[i], i == 20 ? 0 : i + 1);
	job.count--;
	cs_add_ib(&job, (struct cs_ib){ cs.code.va, 20 });
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
}

static void user_fence_in(uint32_t domain)
{
	struct drm_amdgpu_cs_chunk_fence fence = { 0 };
	struct cs_bo bo;
	struct cs cs;
	uint64_t handle;

	cs_open(&cs);
	cs_bo_new(&cs, &bo, 4096, domain);
	fence.handle = bo.handle;
	for (uint32_t ring = 0; ring < 2; ring++) {
		for (uint32_t i = 0; i < 3; i++) {
			struct drm_amdgpu_bo_list_entry bos[] = { { cs.code.handle, 0 },
								  { cs.data.handle, 0 } };
			struct cs_job job;

			cs_job(&job, &cs, ring);
			fence.offset = i == 2 ? 4088 : i * 8;
			/* It has 64 bits. */
			bo.words[fence.offset / 4] = ~0u;
			bo.words[fence.offset / 4 + 1] = ~0u;
			cs_add(&job, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
			cs_add_ib(&job, cs_write(&cs, cs.data.va, i));
			cs_add_bos(&job, bos, 2);
			ASSERT_OK(cs_submit(&job, &handle));
			cs_done(&cs, ring, handle);
			EXPECT_EQ(bo.words[fence.offset / 4], handle);
			EXPECT_EQ(bo.words[fence.offset / 4 + 1], 0);
		}
	}
}

TEST(user_fence_is_written)
{
	user_fence_in(AMDGPU_GEM_DOMAIN_GTT);
}

TEST(user_fence_in_vram_is_written)
{
	user_fence_in(AMDGPU_GEM_DOMAIN_VRAM);
}

TEST(cs_argument_checks)
{
	struct drm_amdgpu_bo_list_entry bos[] = { { 0, 0 }, { 0, 0 } };
	struct drm_amdgpu_cs_chunk_cp_gfx_shadow shadow = { 0 };
	struct drm_amdgpu_cs_chunk_fence fence = { 0 };
	struct drm_amdgpu_cs_chunk_ib chunk = { .ip_type = AMDGPU_HW_IP_DMA };
	uint32_t big, small, bo_list = 0;
	union drm_amdgpu_cs args = { 0 };
	struct cs_ib ib;
	uint64_t handle;
	struct cs_job job;
	struct cs cs;

	cs_open(&cs);
	bos[0].bo_handle = cs.code.handle;
	bos[1].bo_handle = cs.data.handle;
	ib = cs_write(&cs, cs.data.va, 1);

	/* Context, BO list and chunk array. */
	args.in.ctx_id = cs.ctx;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_CS, &args), -EINVAL);
	args.in.num_chunks = 1;
	args.in.chunks = KERNEL_ADDRESS;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_CS, &args), -EFAULT);
	args.in.chunks = kfd_va(&(uint64_t){ KERNEL_ADDRESS });
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_CS, &args), -EFAULT);
	args.in.num_chunks = ~0u;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_CS, &args), -ENOMEM);
	cs_job(&job, &cs, 0);
	job.ctx = 77;
	cs_add_ib(&job, ib);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);

	/* Chunks. */
	job.ctx = cs.ctx;
	job.chunks[0].chunk_data = KERNEL_ADDRESS;
	EXPECT_RET(cs_submit(&job, NULL), -EFAULT);
	job.chunks[0].length_dw = 1u << 29;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_job(&job, &cs, 0);
	cs_add(&job, 0x55, &chunk, sizeof(chunk));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_job(&job, &cs, 0);
	cs_add(&job, AMDGPU_CHUNK_ID_IB, &chunk, sizeof(chunk) - 4);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_job(&job, &cs, 0);
	cs_add_bos(&job, bos, 2);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);

	/* Rings. On a GPU with partitions the driver looks for a partition with such a ring. */
	int absent = gpu_is_gfx12() ? -EINVAL : -ENOENT;
	static const struct {
		uint32_t ip, instance, ring;
		int wanted;
	} rings[] = {
		{ AMDGPU_HW_IP_NUM, 0, 0, -EINVAL },	 { ~0u, 0, 0, -EINVAL },
		{ AMDGPU_HW_IP_DMA, 1, 0, -EINVAL },	 { AMDGPU_HW_IP_DMA, 0, 2, -EINVAL },
		{ AMDGPU_HW_IP_COMPUTE, 0, 4, -EINVAL }, { AMDGPU_HW_IP_GFX, 0, 1, -EINVAL },
		{ AMDGPU_HW_IP_COMPUTE, 0, 0, -ENOENT }, { AMDGPU_HW_IP_COMPUTE, 0, 3, -ENOENT },
		{ AMDGPU_HW_IP_GFX, 0, 0, -ENOENT },	 { AMDGPU_HW_IP_VCN_DEC, 0, 0, -ENOENT },
	};
	for (unsigned int i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		/* The IB has SDMA packets: leave out compute rings that exist. */
		if (rings[i].wanted == -ENOENT && cs_rings(cs.fd, rings[i].ip))
			continue;
		cs_job(&job, &cs, rings[i].ring);
		job.ip = rings[i].ip;
		job.instance = rings[i].instance;
		cs_add_ib(&job, ib);
		EXPECT_RET(cs_submit(&job, NULL),
			   rings[i].wanted == -ENOENT ? absent : rings[i].wanted);
	}

	/* IBs. */
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	job.data[0].ib.flags = AMDGPU_IB_FLAG_CE;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[0].ib.flags = 0;
	job.data[0].ib.ib_bytes = 0x100000 * 4;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);

	/* BO handles. */
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	job.bo_list = 77;
	EXPECT_RET(cs_submit(&job, NULL), -ENOENT);
	ASSERT_OK(list(cs.fd, AMDGPU_BO_LIST_OP_CREATE, &bo_list, bos, 2, sizeof(*bos)));
	job.bo_list = bo_list;
	cs_add_bos(&job, bos, 2);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.bo_list = 0;
	cs_add_bos(&job, bos, 2);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	bos[1].bo_handle = 0x1234;
	cs_add_bos(&job, bos, 2);
	EXPECT_RET(cs_submit(&job, NULL), -ENOENT);

	/* User fence. */
	ASSERT_OK(cs_bo_create(cs.fd, 8192, AMDGPU_GEM_DOMAIN_GTT, 0, &big));
	ASSERT_OK(cs_bo_create(cs.fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &small));
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	cs_add(&job, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].fence.handle = big;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].fence.handle = small;
	job.data[1].fence.offset = 4089;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].fence.offset = 0;
	cs_add(&job, AMDGPU_CHUNK_ID_FENCE, &job.data[1], sizeof(fence));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);

	/* The shadow memory of graphics, which jobs of other rings do not use. */
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	cs_add(&job, AMDGPU_CHUNK_ID_CP_GFX_SHADOW, &shadow, sizeof(shadow) - 4);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	shadow.flags = AMDGPU_CS_CHUNK_CP_GFX_SHADOW_FLAGS_INIT_SHADOW << 1;
	cs_add(&job, AMDGPU_CHUNK_ID_CP_GFX_SHADOW, &shadow, sizeof(shadow));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	shadow.flags = AMDGPU_CS_CHUNK_CP_GFX_SHADOW_FLAGS_INIT_SHADOW;

	/* No rejected submission has used up a sequence number. */
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, ib);
	cs_add(&job, AMDGPU_CHUNK_ID_CP_GFX_SHADOW, &shadow, sizeof(shadow));
	job.bo_list = bo_list;
	ASSERT_OK(cs_submit(&job, &handle));
	EXPECT_EQ(handle, 1);
	cs_done(&cs, 0, handle);
	EXPECT_EQ(cs.data.words[0], 1);
}

/* Each takes memory: as many as a single kmalloc() has room for. */
TEST(syncobjs_of_a_job_are_limited)
{
	const uint32_t most = 1u << 20;
	struct drm_amdgpu_cs_chunk_sem *signals = calloc(most, sizeof(*signals));
	uint64_t handle = 0;
	uint32_t syncobj;
	struct cs cs;

	ASSERT(signals);
	cs_open(&cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &syncobj));
	for (uint32_t i = 0; i < most; i++)
		signals[i].handle = syncobj;
	for (int i = 0; i < 2; i++) {
		struct drm_amdgpu_bo_list_entry bos[] = { { cs.code.handle, 0 },
							  { cs.data.handle, 0 } };
		uint32_t count = i ? most : 1u << 16;
		struct cs_job job;

		cs_job(&job, &cs, 0);
		cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, signals,
		       count * (uint32_t)sizeof(*signals));
		cs_add_ib(&job, cs_write(&cs, cs.data.va, i + 1));
		cs_add_bos(&job, bos, 2);
		EXPECT_RET(cs_submit(&job, &handle), i ? -ENOMEM : 0);
		cs_done(&cs, 0, handle);
		EXPECT_EQ(cs.data.words[0], 1);
	}
	free(signals);
}

TEST(close_bo_with_pending_job)
{
	struct drm_amdgpu_bo_list_entry bos[3];
	struct cs_job job;
	struct cs_bo bo;
	struct cs cs;
	struct cs_ib ib;
	uint64_t handle;

	cs_open(&cs);
	for (int i = 0; i < 8; i++) {
		cs_bo_new(&cs, &bo, 4096, i & 1 ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT);
		bo.words[0] = 0x1000 + i;
		bos[0].bo_handle = cs.code.handle;
		bos[1].bo_handle = cs.data.handle;
		bos[2].bo_handle = bo.handle;
		cs_job(&job, &cs, 0);
		cs_add_bos(&job, bos, 3);
		ib = cs_copy(&cs, bo.va, cs.data.va + 4, 4);
		cs_add_ib(&job, ib);
		ASSERT_OK(cs_submit(&job, &handle));
		EXPECT_OK(cs_bo_close(cs.fd, bo.handle));
		munmap((void *)bo.words, 4096);
		cs_done(&cs, 0, handle);
		EXPECT_EQ(cs.data.words[1], 0x1000 + i);
	}
}

TEST(free_ctx_with_pending_job)
{
	struct cs cs;
	uint64_t handle;

	cs_open(&cs);
	for (uint32_t i = 1; i <= 8; i++) {
		ASSERT_OK(cs_run(&cs, i & 1, cs_write(&cs, cs.data.va + 4 * i, i), &handle));
		EXPECT_OK(cs_ctx(cs.fd, AMDGPU_CTX_OP_FREE_CTX, 0, 0, &(uint32_t){ cs.ctx }));
		ASSERT_OK(cs_ctx_alloc(cs.fd, &cs.ctx));
	}
	/* The BO's reservation holds the job's fence. */
	union drm_amdgpu_gem_wait_idle args = { 0 };

	args.in.handle = cs.data.handle;
	args.in.timeout = FOREVER;
	EXPECT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &args));
	EXPECT_EQ(args.out.status, 0);
	for (uint32_t i = 1; i <= 8; i++)
		EXPECT_EQ(cs.data.words[i], i);
}

TEST(close_fd_with_pending_jobs)
{
	for (int i = 0; i < 10; i++) {
		struct cs cs;

		cs_open(&cs);
		for (uint32_t n = 0; n < 40; n++)
			ASSERT_OK(cs_run(&cs, n & 1, cs_write(&cs, cs.data.va + 4 * n, n), NULL));
		if (i & 1) {
			volatile uint32_t *last = &cs.data.words[39];
			double end = seconds_now() + 10;

			/*
			 * Wait until the jobs are in the ring; their fences are not accessible
			 * after the close.
			 */
			close(cs.fd);
			while (*last != 39 && seconds_now() < end)
				usleep(1000);
			EXPECT_EQ(*last, 39);
		}
	}
}

TEST(kill_with_pending_jobs)
{
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();
		struct cs cs;
		int status;

		ASSERT(pid >= 0);
		if (!pid) {
			cs_open(&cs);
			for (uint32_t n = 0;; n++)
				cs_run(&cs, n & 1, cs_write(&cs, cs.data.va + 4 * (n & 1023), n),
				       NULL);
		}
		usleep(200000);
		kill(pid, SIGKILL);
		ASSERT(waitpid(pid, &status, 0) == pid);
		EXPECT(WIFSIGNALED(status));
	}
}
