// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Exports and imports BOs as dma-bufs, see dmabuf.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "dmabuf.h"

int dmabuf_export(struct kfd *k, uint64_t handle, uint32_t flags)
{
	struct kfd_ioctl_export_dmabuf_args args = { .handle = handle, .flags = flags };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_EXPORT_DMABUF, &args);

	return ret ? ret : (int)args.dmabuf_fd;
}

int dmabuf_info(struct kfd *k, int fd, struct kfd_ioctl_get_dmabuf_info_args *args)
{
	args->dmabuf_fd = (uint32_t)fd;
	return kfd_ioctl(k->fd, AMDKFD_IOC_GET_DMABUF_INFO, args);
}

int dmabuf_import_at(struct kfd *k, int fd, void *va, uint64_t *handle)
{
	struct kfd_ioctl_import_dmabuf_args args = { .va_addr = kfd_va(va),
						     .gpu_id = k->node.gpu_id,
						     .dmabuf_fd = (uint32_t)fd };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_IMPORT_DMABUF, &args);

	*handle = args.handle;
	return ret;
}

struct kfd_bo *dmabuf_import(struct kfd *k, int fd, size_t size)
{
	struct kfd_bo *bo = calloc(1, sizeof(*bo));

	ASSERT(bo != NULL);
	bo->size = size;
	bo->va = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(bo->va != MAP_FAILED, "%s", strerror(errno));
	ASSERT_OK(dmabuf_import_at(k, fd, bo->va, &bo->handle));
	ASSERT_OK(kfd_bo_map_gpu(k, bo));
	return bo;
}

bool holds(const uint32_t *words, uint32_t value)
{
	return EXPECT_EQ(words[0], value) && EXPECT_EQ(words[WORDS / 2], value) &&
	       EXPECT_EQ(words[WORDS - 1], value);
}

uint32_t handle_of_fd(struct kfd *k, int fd)
{
	struct drm_prime_handle args = { .fd = fd };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args));
	return args.handle;
}

int close_handle(struct kfd *k, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(k->drm, DRM_IOCTL_GEM_CLOSE, &args);
}

int va_op(struct kfd *k, uint32_t handle, uint32_t op, void *va, uint64_t size)
{
	struct drm_syncobj_create done = { 0 };
	uint64_t point = 1;

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_CREATE, &done));
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = op,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
			 AMDGPU_VM_PAGE_EXECUTABLE,
		.va_address = kfd_va(va),
		.map_size = size,
		.vm_timeline_syncobj_out = done.handle,
		.vm_timeline_point = point,
	};
	struct drm_syncobj_timeline_wait wait = { .handles = kfd_va(&done.handle),
						  .points = kfd_va(&point),
						  .count_handles = 1,
						  .timeout_nsec = INT64_MAX };
	struct drm_syncobj_destroy gone = { .handle = done.handle };
	int ret = kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_VA, &args);

	/* The C driver's ioctl may return before the GPU's page tables are updated. */
	if (!ret)
		EXPECT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait));
	EXPECT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_DESTROY, &gone));
	return ret;
}

void *map_handle(struct kfd *k, uint32_t handle, void *at, size_t size)
{
	union drm_amdgpu_gem_mmap args = { .in.handle = handle };
	void *p;

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_MMAP, &args));
	p = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), k->drm,
		 (off_t)args.out.addr_ptr);
	ASSERT(p != MAP_FAILED, "%s", strerror(errno));
	return p;
}

void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

void metadata(struct kfd *k, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *args)
{
	args->handle = handle;
	args->op = op;
	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_METADATA, args));
}
