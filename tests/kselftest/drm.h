/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Helpers for render node tests: libdrm_amdgpu, memory with a GPU address, and SDMA jobs. Only
 * packets bypass libdrm.
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
#define NORMAL AMDGPU_CTX_PRIORITY_NORMAL
/* In us; long enough for a runnable job to end. */
#define A_MOMENT 150000u

struct gpu {
	int fd;
	amdgpu_device_handle dev;
	/* SDMA engines in use, and their major version. */
	uint32_t engines, sdma_major;
	bool partitions;
};

/* Memory at a GPU address, mapped for the CPU unless `cpu` is NULL. */
struct mem {
	amdgpu_bo_handle bo;
	amdgpu_va_handle range;
	uint64_t va, size;
	void *cpu;
};

/* A context with an IB buffer for a few jobs. */
struct stream {
	struct gpu *gpu;
	amdgpu_context_handle ctx;
	uint32_t ring;
	struct mem ib;
	amdgpu_bo_list_handle list;
	uint32_t slots, slot_dw, slot;
	uint64_t seq;
};

/* Opens the GPU; ends the test on failure. */
void drm_open(struct gpu *g);
void drm_close(struct gpu *g);
/* Returns 0 or a negative errno. `cpu`: map it for the CPU as well. */
int mem_try(struct gpu *g, uint64_t size, uint32_t domain, uint64_t flags, bool cpu, struct mem *m);
void mem_create(struct gpu *g, uint64_t size, uint32_t domain, struct mem *m);
void mem_destroy(struct mem *m);

/* At most `count` pending jobs, each of at most `dwords`. */
void stream_create(struct gpu *g, struct stream *s, uint32_t ring, uint32_t priority,
		   uint32_t count, uint32_t dwords);
void stream_destroy(struct stream *s);
/* Sets the BO list of its jobs, besides the IB buffer; replaces the previous list. */
void stream_uses(struct stream *s, const struct mem *const *mems, uint32_t count);
/* Returns where to write the packets of the next job. */
uint32_t *stream_begin(struct stream *s);
/* Submits the packets up to `end`. */
int stream_submit(struct stream *s, const uint32_t *end);
int stream_submit_after(struct stream *s, const uint32_t *end, struct amdgpu_cs_fence *after,
			uint32_t count);
struct amdgpu_cs_fence stream_fence(const struct stream *s, uint64_t seq);
/*
 * Returns 0 or a negative errno; -ETIMEDOUT on a timeout of the wait (-ETIME is an error of the
 * job).
 */
int stream_wait(struct stream *s, uint64_t seq, uint64_t ns);
/* Submits and waits; ends the test on failure. */
void stream_run(struct stream *s, const uint32_t *end);
/* Fill and copy `bytes` bytes of any number, with several packets if necessary. */
void stream_fill(struct stream *s, uint64_t to, uint32_t value, uint64_t bytes);
void stream_copy(struct stream *s, uint64_t to, uint64_t from, uint64_t bytes);
/* Expects that a copy in a new context works. */
bool drm_works(struct gpu *g);

/* Memory that jobs and this process share, and streams that use it. */
struct bench {
	struct gpu g;
	struct mem m;
	volatile uint32_t *words;
	struct stream s[4];
};

void open_bench(struct bench *b);
/* Returns the GPU address of dword `word`. */
uint64_t bench_word(struct bench *b, uint32_t word);
/*
 * Write the packets of the next job of `s` and return their end: poll dword `gate` until it is 1,
 * then set dword `done` to `value`; set dword `where` to `value` if it is `before`.
 */
uint32_t *gated(struct bench *b, struct stream *s, uint32_t gate, uint32_t done, uint32_t value);
uint32_t *step(struct bench *b, struct stream *s, uint32_t where, uint32_t before, uint32_t value);

/* Bytes of VRAM and GTT in use, according to the driver. */
uint64_t drm_vram_usage(struct gpu *g);
uint64_t drm_gtt_usage(struct gpu *g);

/* Waits up to 5 s until no more than these bytes are in use; a failure of the test otherwise. */
void drm_expect_usage(struct gpu *g, uint64_t vram, uint64_t gtt);
/* Trace events of gpu_scheduler, in a private tracefs instance. */
bool trace_start(void);
char *trace_stop(void);
/* Returns the number after `key` in [line, end of line), ~0 if there is none. */
uint64_t trace_number(const char *line, const char *key);

#endif
