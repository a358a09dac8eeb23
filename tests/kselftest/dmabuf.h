/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What tests of shared buffers have in common. Whatever may not fail ends the test. */
#ifndef DMABUF_H
#define DMABUF_H

#include "fixture.h"

#define SIZE (256u << 10)
#define WORDS (SIZE / 4)

/* Where a buffer may be. */
static const uint32_t kinds[] = { KFD_FLAGS_GTT, KFD_FLAGS_VRAM };

/* An fd of a buffer, or a negative errno. */
int dmabuf_export(struct kfd *k, uint64_t handle, uint32_t flags);
int dmabuf_info(struct kfd *k, int fd, struct kfd_ioctl_get_dmabuf_info_args *args);
int dmabuf_import_at(struct kfd *k, int fd, void *va, uint64_t *handle);
/* Imports a buffer, with the CPU's view of it at the GPU's address. */
struct kfd_bo *dmabuf_import(struct kfd *k, int fd, size_t size);
/* A number that the render node tells (AMDGPU_INFO_*). */
uint64_t number(struct kfd *k, uint32_t query);
/* The number of bytes comes down to `most`, within 5 s: what is freed may be freed late. */
void expect_usage(struct kfd *k, uint32_t query, uint64_t most);
/* The first, the middle and the last word of SIZE bytes are `value`. */
bool holds(const uint32_t *words, uint32_t value);
/* A buffer of another process on this one's render node: its handle, ... */
uint32_t handle_of_fd(struct kfd *k, int fd);
int close_handle(struct kfd *k, uint32_t handle);
/* ... its place in the address space of the GPU, which has changed when this returns, ... */
int va_op(struct kfd *k, uint32_t handle, uint32_t op, void *va, uint64_t size);
/* ... and in that of the CPU, at `at` if that is not NULL. */
void *map_handle(struct kfd *k, uint32_t handle, void *at, size_t size);
/* Addresses without memory. */
void *reserve(size_t size);
void metadata(struct kfd *k, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *args);

#endif
