/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What tests of the render node start from: libdrm's own library for amdgpu, memory with an address, and jobs
 * of SDMA packets. All but the packets goes through libdrm.
 */
#ifndef DRM_TEST_H
#define DRM_TEST_H

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include "../workloads/sdma.h"
#include "ktap.h"

#define SECOND 1000000000ull
#define WAIT_NS (60 * SECOND)
#define VRAM AMDGPU_GEM_DOMAIN_VRAM
#define GTT AMDGPU_GEM_DOMAIN_GTT

struct gpu {
	int fd;
	amdgpu_device_handle dev;
	/* DMA engines that take part. */
	uint32_t engines;
};

/* Memory at an address of the GPU, and of the CPU when `cpu` is not NULL. */
struct mem {
	amdgpu_bo_handle bo;
	amdgpu_va_handle range;
	uint64_t va, size;
	void *cpu;
};

/* A context with room for a few jobs' packets. */
struct stream {
	struct gpu *gpu;
	amdgpu_context_handle ctx;
	uint32_t ring;
	struct mem ib;
	amdgpu_bo_list_handle list;
	uint32_t slots, slot_dw, slot;
	uint64_t seq;
};

/* Opens the GPU; ends the test when that fails, skips it when there is none with SDMA. */
void drm_open(struct gpu *g);
void drm_close(struct gpu *g);
/* 0 or a negative errno. `cpu`: map it for the CPU too. */
int mem_try(struct gpu *g, uint64_t size, uint32_t domain, uint64_t flags, bool cpu, struct mem *m);
void mem_create(struct gpu *g, uint64_t size, uint32_t domain, struct mem *m);
void mem_destroy(struct mem *m);

/* `count` jobs may be under way at once, each of at most `dwords`. */
void stream_create(struct gpu *g, struct stream *s, uint32_t ring, uint32_t priority, uint32_t count, uint32_t dwords);
void stream_destroy(struct stream *s);
/* The memory that its jobs use, besides their packets; the list replaces the one before. */
void stream_uses(struct stream *s, const struct mem *const *mems, uint32_t count);
/* Where to write the packets of the next job. */
uint32_t *stream_begin(struct stream *s);
/* Submits what was written up to `end`. */
int stream_submit(struct stream *s, const uint32_t *end);
int stream_submit_after(struct stream *s, const uint32_t *end, struct amdgpu_cs_fence *after, uint32_t count);
struct amdgpu_cs_fence stream_fence(const struct stream *s, uint64_t seq);
/* 0, or a negative errno of the wait; -ETIMEDOUT when it did not end in time (-ETIME is the job's own). */
int stream_wait(struct stream *s, uint64_t seq, uint64_t ns);
/* Submits and waits; ends the test when something fails. */
void stream_run(struct stream *s, const uint32_t *end);
/* `bytes` of `mem` become `value`; or are copied. Any size, several packets when needed. */
void stream_fill(struct stream *s, uint64_t to, uint32_t value, uint64_t bytes);
void stream_copy(struct stream *s, uint64_t to, uint64_t from, uint64_t bytes);
/* A new context can copy, and what it copies arrives. */
bool drm_works(struct gpu *g);

/* Bytes of video memory and of other memory that are in use, as the driver tells. */
uint64_t drm_vram_usage(struct gpu *g);
uint64_t drm_gtt_usage(struct gpu *g);

/* Trace events of gpu_scheduler, in an instance of their own. */
bool trace_start(void);
char *trace_stop(void);
/* The value after `key` in [line, its end), as a number; ~0 when there is none. */
uint64_t trace_number(const char *line, const char *key);

#endif
