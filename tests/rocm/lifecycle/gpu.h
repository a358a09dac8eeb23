/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A GPU through HSA: agents, pools, a queue, two kernels. Every failure ends the process. */
#ifndef GPU_H
#define GPU_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_kernel {
	uint64_t object;
	uint32_t kernarg, group, private;
};

struct gpu {
	hsa_agent_t cpu, gpu;
	hsa_amd_memory_pool_t vram, host, kernargs;
	hsa_queue_t *queue;
	hsa_executable_t executable;
	struct gpu_kernel fill, spin;
	void *kernarg;
};

void gpu_check(hsa_status_t status, const char *call);
#define HSA(call) gpu_check((call), #call)

/* Calls hsa_init, finds agents and pools. */
void gpu_open(struct gpu *g);
void gpu_make_queue(struct gpu *g);
/* Loads the kernels from the code object file next to the program. */
void gpu_load(struct gpu *g);
/* Releases everything except allocations, and calls hsa_shut_down. */
void gpu_close(struct gpu *g);

void *gpu_alloc(struct gpu *g, hsa_amd_memory_pool_t pool, size_t bytes);
/* Dispatches a kernel with two arguments; the signal reaches 0 when it is done. */
void gpu_launch(struct gpu *g, const struct gpu_kernel *kernel, uint32_t items, const void *a,
		uint64_t b, hsa_signal_t done);
hsa_signal_t gpu_signal(int64_t value);
/* Returns false if the signal is not 0 after the timeout. */
bool gpu_wait(hsa_signal_t signal, unsigned int seconds);
/* Fills `words` dwords and waits. */
void gpu_fill(struct gpu *g, uint32_t *gpu_address, uint32_t words, uint32_t value);
/* Copies and waits. */
void gpu_copy(struct gpu *g, void *to, hsa_agent_t to_agent, const void *from,
	      hsa_agent_t from_agent, size_t bytes);

#endif
