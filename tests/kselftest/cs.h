/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Command submission on the SDMA rings of the render node, by bare ioctls. */
#ifndef CS_H
#define CS_H

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "fixture.h"

#define FOREVER (~0ull)
#define BO_BYTES 65536u
#define ACCESS (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE)

struct cs_bo {
	uint32_t handle;
	uint64_t va, size;
	volatile uint32_t *words;
};

/*
 * A render node file with a context, an IB buffer and a data buffer, both mapped to GPU and CPU,
 * zeroed.
 */
struct cs {
	int fd;
	uint32_t ctx;
	struct cs_bo code, data;
	/* Next free dword of `code`. */
	uint32_t used;
	uint64_t next_va;
};

/* A submission under construction. */
struct cs_job {
	struct cs *cs;
	uint32_t ctx, ring, ip, instance, bo_list;
	struct drm_amdgpu_cs_chunk chunks[64];
	uint64_t pointers[64];
	union {
		struct drm_amdgpu_cs_chunk_ib ib;
		struct drm_amdgpu_cs_chunk_fence fence;
		struct drm_amdgpu_cs_chunk_dep dep;
		struct drm_amdgpu_cs_chunk_sem sem;
		struct drm_amdgpu_cs_chunk_syncobj syncobj;
		struct drm_amdgpu_bo_list_in list;
	} data[64];
	uint32_t count;
};

int cs_open_file(void);
void cs_open(struct cs *cs);
/* Same on an open file. */
void cs_open_on(struct cs *cs, int fd);

int cs_ctx(int fd, uint32_t op, uint32_t flags, int32_t priority, uint32_t *id);
int cs_ctx_alloc(int fd, uint32_t *id);
int cs_ctx_state(int fd, uint32_t op, uint32_t id, uint64_t *flags, uint32_t *status);

int cs_bo_create(int fd, uint64_t size, uint64_t domain, uint64_t flags, uint32_t *handle);
/* Maps a BO of a file for reading and writing. */
void *cs_bo_map(int fd, uint32_t handle, size_t size);
int cs_bo_close(int fd, uint32_t handle);
int cs_va(int fd, uint32_t handle, uint32_t operation, uint32_t flags, uint64_t va, uint64_t offset,
	  uint64_t size);
/* Returns AMDGPU_INFO_HW_IP_INFO's available_rings of an IP type. */
uint32_t cs_rings(int fd, uint32_t kind);
/*
 * Allocates a BO and maps it to the GPU at the next free address and to the CPU. Ends the test on
 * failure.
 */
void cs_bo_new(struct cs *cs, struct cs_bo *bo, uint64_t size, uint64_t domain);

/* IBs. */
struct cs_ib {
	uint64_t va;
	uint32_t bytes;
};

struct cs_ib cs_write(struct cs *cs, uint64_t to, uint32_t value);
struct cs_ib cs_copy(struct cs *cs, uint64_t from, uint64_t to, uint32_t count);
/* The same copy several times. */
struct cs_ib cs_copies(struct cs *cs, uint64_t from, uint64_t to, uint32_t count, uint32_t times);
/* Polls until the dword at `at` is `value`. */
struct cs_ib cs_poll(struct cs *cs, uint64_t at, uint32_t value);

void cs_job(struct cs_job *job, struct cs *cs, uint32_t ring);
void cs_add(struct cs_job *job, uint32_t id, const void *data, uint32_t bytes);
void cs_add_ib(struct cs_job *job, struct cs_ib ib);
void cs_add_bos(struct cs_job *job, const struct drm_amdgpu_bo_list_entry *entries, uint32_t count);
int cs_submit(struct cs_job *job, uint64_t *handle);
/* Submits one IB with the BOs of `cs`. */
int cs_run(struct cs *cs, uint32_t ring, struct cs_ib ib, uint64_t *handle);

/* Same on the first ring of a new context that replaces the old one, after a job of that. */
int cs_run_after(struct cs *cs, uint64_t leader, struct cs_ib ib, uint64_t *handle);

int cs_wait(struct cs *cs, uint32_t ring, uint64_t handle, uint64_t timeout, uint64_t *busy);
/* Argument of cs_wait_in_thread(): a job on the first ring; `ret` is the result. */
struct cs_waiter {
	struct cs *cs;
	uint64_t handle;
	int ret;
};
/* Waits for a job without a timeout, for pthread_create(). */
void *cs_wait_in_thread(void *data);
/* Waits for a job without a timeout; a failure is a failure of the test. */
void cs_done(struct cs *cs, uint32_t ring, uint64_t handle);
/* Expects that a reset has cancelled a job on the first ring, and that the next CS fails for it. */
void cs_expect_cancelled(struct cs *cs, uint64_t handle);
/* Expects that there was a reset since the last call or the creation of the context, or none. */
void cs_expect_resets(struct cs *cs, bool reset);
/*
 * Expects that a reset with loss of VRAM has failed the context. Replaces it by a new one, and
 * expects that this has not failed and works.
 */
void cs_expect_lost(struct cs *cs);
uint64_t cs_now(void);
/* FENCE_TO_HANDLE of a job on the first ring. */
int cs_to_handle(struct cs *cs, uint64_t job, uint32_t what, uint32_t *handle);

int syncobj_create(int fd, uint32_t flags, uint32_t *handle);
int syncobj_wait(int fd, uint32_t handle, int64_t timeout);
/* Returns a sync file with its fence. */
int syncobj_sync_file(int fd, uint32_t handle);
/* Return the state of its fence: 1 signaled, 0 pending, or a negative errno. */
int syncobj_status(int fd, uint32_t handle);
int sync_file_status(int file);
int syncobj_timeline_wait(int fd, uint32_t handle, uint64_t point, int64_t timeout);

#endif
