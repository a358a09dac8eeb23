/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Helpers for tests of shared BOs. Every failure that is not an errno returned ends the test. */
#ifndef DMABUF_H
#define DMABUF_H

#include <drm/amdgpu_drm.h>

#include "fixture.h"

#define SIZE (256u << 10)
#define WORDS (SIZE / 4)

/* Domain of a BO. */
static const uint32_t kinds[] = { KFD_FLAGS_GTT, KFD_FLAGS_VRAM };

/* Exports a BO: returns an fd or a negative errno. */
int dmabuf_export(struct kfd *k, uint64_t handle, uint32_t flags);
int dmabuf_info(struct kfd *k, int fd, struct kfd_ioctl_get_dmabuf_info_args *args);
int dmabuf_import_at(struct kfd *k, int fd, void *va, uint64_t *handle);
/* Imports a BO, mapped for the CPU at the GPU's address. */
struct kfd_bo *dmabuf_import(struct kfd *k, int fd, size_t size);
/* Expects `value` in the first, the middle and the last dword of SIZE bytes. */
bool holds(const uint32_t *words, uint32_t value);
/* A BO of another process on this one's render node: its GEM handle, ... */
uint32_t handle_of_fd(struct kfd *k, int fd);
int close_handle(struct kfd *k, uint32_t handle);
/* ... its GPU mapping, updated when this returns, ... */
int va_op(struct kfd *k, uint32_t handle, uint32_t op, void *va, uint64_t size);
/* ... and its CPU mapping, at `at` unless NULL. */
void *map_handle(struct kfd *k, uint32_t handle, void *at, size_t size);
/* Reserves addresses without memory. */
void *reserve(size_t size);
void metadata(struct kfd *k, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *args);

#endif
