// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Submits jobs on the SDMA rings of the render node, see cs.h. */
#define _GNU_SOURCE
#include <linux/sync_file.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cs.h"

/* SDMA packet opcodes. */
enum { SDMA_COPY = 1, SDMA_WRITE = 2, SDMA_POLL_REGMEM = 8 };

int cs_open_file(void)
{
	struct kfd k = { 0 };

	ASSERT_OK(kfd_topology_find_gpu(&k.node));
	ASSERT_OK(kfd_open_render(&k));
	return k.drm;
}

int cs_ctx(int fd, uint32_t op, uint32_t flags, int32_t priority, uint32_t *id)
{
	union drm_amdgpu_ctx args = { 0 };
	int ret;

	args.in.op = op;
	args.in.flags = flags;
	args.in.ctx_id = *id;
	args.in.priority = priority;
	ret = kfd_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &args);
	if (!ret)
		*id = args.out.alloc.ctx_id;
	return ret;
}

int cs_ctx_alloc(int fd, uint32_t *id)
{
	*id = 0;
	return cs_ctx(fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, id);
}

int cs_ctx_state(int fd, uint32_t op, uint32_t id, uint64_t *flags, uint32_t *status)
{
	union drm_amdgpu_ctx args = { 0 };
	int ret;

	args.in.op = op;
	args.in.ctx_id = id;
	ret = kfd_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &args);
	*flags = args.out.state.flags;
	*status = args.out.state.reset_status;
	return ret;
}

int cs_bo_create(int fd, uint64_t size, uint64_t domain, uint64_t flags, uint32_t *handle)
{
	union drm_amdgpu_gem_create args = { 0 };
	int ret;

	args.in.bo_size = size;
	args.in.alignment = 4096;
	args.in.domains = domain;
	args.in.domain_flags = flags;
	ret = kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
	*handle = args.out.handle;
	return ret;
}

int cs_bo_close(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args);
}

int cs_va(int fd, uint32_t handle, uint32_t operation, uint32_t flags, uint64_t va, uint64_t offset,
	  uint64_t size)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = operation,
		.flags = flags,
		.va_address = va,
		.offset_in_bo = offset,
		.map_size = size,
	};

	return kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

uint32_t cs_rings(int fd, uint32_t kind)
{
	struct drm_amdgpu_info_hw_ip ip = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&ip), .return_size = sizeof(ip),
					   .query = AMDGPU_INFO_HW_IP_INFO };

	request.query_hw_ip.type = kind;
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	return ip.available_rings;
}

void *cs_bo_map(int fd, uint32_t handle, size_t size)
{
	union drm_amdgpu_gem_mmap args = { .in.handle = handle };
	void *p;

	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args));
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)args.out.addr_ptr);
	ASSERT(p != MAP_FAILED, "%s", strerror(errno));
	return p;
}

void cs_bo_new(struct cs *cs, struct cs_bo *bo, uint64_t size, uint64_t domain)
{
	bo->size = size;
	bo->va = cs->next_va;
	cs->next_va += size + 65536;
	ASSERT_OK(cs_bo_create(cs->fd, size, domain, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED,
			       &bo->handle));
	ASSERT_OK(cs_va(cs->fd, bo->handle, AMDGPU_VA_OP_MAP, ACCESS, bo->va, 0, size));
	bo->words = cs_bo_map(cs->fd, bo->handle, size);
}

void cs_open_on(struct cs *cs, int fd)
{
	*cs = (struct cs){ .fd = fd, .next_va = 0x100000000ull };
	ASSERT_OK(cs_ctx_alloc(fd, &cs->ctx));
	cs_bo_new(cs, &cs->code, BO_BYTES, AMDGPU_GEM_DOMAIN_GTT);
	cs_bo_new(cs, &cs->data, BO_BYTES, AMDGPU_GEM_DOMAIN_GTT);
}

void cs_open(struct cs *cs)
{
	cs_open_on(cs, cs_open_file());
}

static struct cs_ib put(struct cs *cs, const uint32_t *words, uint32_t count)
{
	uint32_t at = cs->used;

	/*
	 * IBs start at multiples of 256 bytes. The buffer wraps; it holds more than all IBs that
	 * can be pending.
	 */
	if (at + count > BO_BYTES / 4)
		at = 0;
	for (uint32_t i = 0; i < count; i++)
		cs->code.words[at + i] = words[i];
	cs->used = (at + count + 63) & ~63u;
	return (struct cs_ib){ .va = cs->code.va + at * 4ull, .bytes = count * 4 };
}

struct cs_ib cs_write(struct cs *cs, uint64_t to, uint32_t value)
{
	uint32_t words[] = { SDMA_WRITE, (uint32_t)to, (uint32_t)(to >> 32), 0, value };

	return put(cs, words, 5);
}

struct cs_ib cs_copies(struct cs *cs, uint64_t from, uint64_t to, uint32_t count, uint32_t times)
{
	uint32_t *words = calloc(times, 7 * sizeof(*words));
	struct cs_ib ib;

	ASSERT(words);
	for (uint32_t i = 0; i < times; i++) {
		uint32_t *w = words + 7 * i;

		w[0] = SDMA_COPY;
		w[1] = count - 1;
		w[3] = (uint32_t)from;
		w[4] = (uint32_t)(from >> 32);
		w[5] = (uint32_t)to;
		w[6] = (uint32_t)(to >> 32);
	}
	ib = put(cs, words, 7 * times);
	free(words);
	return ib;
}

struct cs_ib cs_copy(struct cs *cs, uint64_t from, uint64_t to, uint32_t count)
{
	return cs_copies(cs, from, to, count, 1);
}

struct cs_ib cs_poll(struct cs *cs, uint64_t at, uint32_t value)
{
	/* Memory space, function "equal", retry for ever. */
	uint32_t words[] = { SDMA_POLL_REGMEM | 3u << 28 | 1u << 31,
			     (uint32_t)at,
			     (uint32_t)(at >> 32),
			     value,
			     ~0u,
			     0xfffu << 16 | 10 };

	return put(cs, words, 6);
}

void cs_job(struct cs_job *job, struct cs *cs, uint32_t ring)
{
	memset(job, 0, sizeof(*job));
	job->cs = cs;
	job->ctx = cs->ctx;
	job->ring = ring;
	job->ip = AMDGPU_HW_IP_DMA;
}

void cs_add(struct cs_job *job, uint32_t id, const void *data, uint32_t bytes)
{
	uint32_t at = job->count++;

	ASSERT(at < 64);
	job->chunks[at] = (struct drm_amdgpu_cs_chunk){ .chunk_id = id, .length_dw = bytes / 4 };
	if (bytes <= sizeof(job->data[at])) {
		memcpy(&job->data[at], data, bytes);
		job->chunks[at].chunk_data = kfd_va(&job->data[at]);
	} else {
		job->chunks[at].chunk_data = kfd_va(data);
	}
	job->pointers[at] = kfd_va(&job->chunks[at]);
}

void cs_add_ib(struct cs_job *job, struct cs_ib ib)
{
	struct drm_amdgpu_cs_chunk_ib chunk = { .va_start = ib.va,
						.ib_bytes = ib.bytes,
						.ip_type = job->ip,
						.ip_instance = job->instance,
						.ring = job->ring };

	cs_add(job, AMDGPU_CHUNK_ID_IB, &chunk, sizeof(chunk));
}

void cs_add_bos(struct cs_job *job, const struct drm_amdgpu_bo_list_entry *entries, uint32_t count)
{
	struct drm_amdgpu_bo_list_in list = { .bo_number = count,
					      .bo_info_size = sizeof(*entries),
					      .bo_info_ptr = kfd_va(entries) };

	cs_add(job, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
}

int cs_submit(struct cs_job *job, uint64_t *handle)
{
	union drm_amdgpu_cs args = { 0 };
	int ret;

	args.in.ctx_id = job->ctx;
	args.in.bo_list_handle = job->bo_list;
	args.in.num_chunks = job->count;
	args.in.chunks = kfd_va(job->pointers);
	ret = kfd_ioctl(job->cs->fd, DRM_IOCTL_AMDGPU_CS, &args);
	if (!ret && handle)
		*handle = args.out.handle;
	return ret;
}

int cs_run(struct cs *cs, uint32_t ring, struct cs_ib ib, uint64_t *handle)
{
	struct drm_amdgpu_bo_list_entry bos[] = { { cs->code.handle, 0 }, { cs->data.handle, 0 } };
	struct cs_job job;

	cs_job(&job, cs, ring);
	cs_add_bos(&job, bos, 2);
	cs_add_ib(&job, ib);
	return cs_submit(&job, handle);
}

int cs_run_after(struct cs *cs, uint64_t leader, struct cs_ib ib, uint64_t *handle)
{
	struct drm_amdgpu_cs_chunk_dep dep = { .ip_type = AMDGPU_HW_IP_DMA,
					       .ctx_id = cs->ctx,
					       .handle = leader };
	struct cs_job job;

	ASSERT_OK(cs_ctx_alloc(cs->fd, &cs->ctx));
	cs_job(&job, cs, 0);
	cs_add_ib(&job, ib);
	cs_add(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	return cs_submit(&job, handle);
}

int cs_wait(struct cs *cs, uint32_t ring, uint64_t handle, uint64_t timeout, uint64_t *busy)
{
	union drm_amdgpu_wait_cs args = { 0 };
	int ret;

	args.in.handle = handle;
	args.in.timeout = timeout;
	args.in.ip_type = AMDGPU_HW_IP_DMA;
	args.in.ring = ring;
	args.in.ctx_id = cs->ctx;
	ret = kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_WAIT_CS, &args);
	*busy = args.out.status;
	return ret;
}

void *cs_wait_in_thread(void *data)
{
	struct cs_waiter *w = data;
	uint64_t busy;

	w->ret = cs_wait(w->cs, 0, w->handle, FOREVER, &busy);
	return NULL;
}

void cs_done(struct cs *cs, uint32_t ring, uint64_t handle)
{
	uint64_t busy = 7;

	EXPECT_OK(cs_wait(cs, ring, handle, FOREVER, &busy));
	EXPECT_EQ(busy, 0);
}

int cs_to_handle(struct cs *cs, uint64_t job, uint32_t what, uint32_t *handle)
{
	union drm_amdgpu_fence_to_handle args = { 0 };
	int ret;

	args.in.fence.ctx_id = cs->ctx;
	args.in.fence.ip_type = AMDGPU_HW_IP_DMA;
	args.in.fence.seq_no = job;
	args.in.what = what;
	ret = kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args);
	*handle = args.out.handle;
	return ret;
}

uint64_t cs_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

int syncobj_create(int fd, uint32_t flags, uint32_t *handle)
{
	struct drm_syncobj_create args = { .flags = flags };
	int ret = kfd_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);

	*handle = args.handle;
	return ret;
}

int syncobj_sync_file(int fd, uint32_t handle)
{
	struct drm_syncobj_handle args = {
		.handle = handle,
		.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
	};

	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args));
	return args.fd;
}

int sync_file_status(int file)
{
	struct sync_file_info info = { 0 };

	ASSERT_OK(kfd_ioctl(file, SYNC_IOC_FILE_INFO, &info));
	return info.status;
}

int syncobj_status(int fd, uint32_t handle)
{
	int file = syncobj_sync_file(fd, handle), status = sync_file_status(file);

	close(file);
	return status;
}

int syncobj_wait(int fd, uint32_t handle, int64_t timeout)
{
	struct drm_syncobj_wait args = { .handles = kfd_va(&handle),
					 .count_handles = 1,
					 .timeout_nsec = timeout };

	return kfd_ioctl(fd, DRM_IOCTL_SYNCOBJ_WAIT, &args);
}

int syncobj_timeline_wait(int fd, uint32_t handle, uint64_t point, int64_t timeout)
{
	struct drm_syncobj_timeline_wait args = { .handles = kfd_va(&handle),
						  .points = kfd_va(&point),
						  .count_handles = 1,
						  .timeout_nsec = timeout };

	return kfd_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

void cs_expect_resets(struct cs *cs, bool reset)
{
	uint64_t flags = 0;
	uint32_t status;

	ASSERT_OK(cs_ctx_state(cs->fd, AMDGPU_CTX_OP_QUERY_STATE, cs->ctx, &flags, &status));
	EXPECT_EQ(status, reset ? AMDGPU_CTX_UNKNOWN_RESET : AMDGPU_CTX_NO_RESET);
	ASSERT_OK(cs_ctx_state(cs->fd, AMDGPU_CTX_OP_QUERY_STATE2, cs->ctx, &flags, &status));
	if (reset)
		EXPECT_EQ(flags, AMDGPU_CTX_QUERY2_FLAGS_RESET);
}

void cs_expect_cancelled(struct cs *cs, uint64_t handle)
{
	uint64_t busy;

	EXPECT_RET(cs_wait(cs, 0, handle, FOREVER, &busy), -ECANCELED);
	EXPECT_RET(cs_run(cs, 0, cs_write(cs, cs->data.va, 7), &handle), -ECANCELED);
}

void cs_expect_lost(struct cs *cs)
{
	const uint64_t both = AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
	uint64_t handle, flags = 0;
	uint32_t status;

	ASSERT_OK(cs_ctx_state(cs->fd, AMDGPU_CTX_OP_QUERY_STATE2, cs->ctx, &flags, &status));
	EXPECT_EQ(flags & both, both);
	ASSERT_OK(cs_ctx_alloc(cs->fd, &cs->ctx));
	ASSERT_OK(cs_ctx_state(cs->fd, AMDGPU_CTX_OP_QUERY_STATE2, cs->ctx, &flags, &status));
	EXPECT_EQ(flags, 0);
	cs->data.words[0] = 0;
	ASSERT_OK(cs_run(cs, 0, cs_write(cs, cs->data.va, 7), &handle));
	cs_done(cs, 0, handle);
	EXPECT_EQ(cs->data.words[0], 7);
}
