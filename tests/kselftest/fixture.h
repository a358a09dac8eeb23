/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What most tests start from: an open GPU, and a queue with a kernel to launch. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "../workloads/kfd.h"
#include "ktap.h"

#define WAIT_MS 20000u
/* A gpu_id that no node has: 16 bits are all there can be. */
#define NO_SUCH_GPU 0x7fff0001u
/* An address that belongs to the kernel. */
#define KERNEL_ADDRESS 0xffff800000000000ull

struct fixture {
	struct kfd k;
	struct kfd_queue q;
	struct kfd_code code;
	struct kfd_bo *data, *kernarg;
	struct kfd_signal signal;
};

/* Opened, VM acquired. Ends the test when that fails. */
void fixture_open(struct kfd *k);
/* The same without ACQUIRE_VM. */
void fixture_open_only(struct kfd *k);
/* Opened, with a queue, the kernels loaded, and 1 MiB of data. */
void fixture_launch(struct fixture *f);
/* `count` words at data become `value`, by the fill kernel; waits for it. Returns 0 or a negative errno. */
int fixture_fill(struct fixture *f, struct kfd_queue *q, uint32_t *data, uint32_t count, uint32_t value);
/* Puts the fill kernel in the queue without waiting. `slot` picks one of 64 places for the arguments. */
void fixture_fill_start(struct fixture *f, struct kfd_queue *q, struct kfd_signal *signal, unsigned int slot, uint32_t *data,
			uint32_t count, uint32_t value);
/* Fills and compares; notes a failure of the test when that is wrong. */
bool fixture_works(struct fixture *f);
/* The same with a queue of its own, for ktap_in_child. */
void fixture_lives(void *unused);
/* The same for a process that only opens it and has an address space. */
void fixture_opens(void *unused);
/* Writes a file of sysfs; 0 or -errno. */
int write_file(const char *path, const char *text);
int fixture_kernel(struct fixture *f, const char *name, struct kfd_kernel *kernel);
/* Milliseconds for which the queues of this process were off the GPU, as sysfs says. */
uint64_t evicted_ms(struct kfd *k);
/* Bytes of video memory that the GPU has for programs, as the render node says. */
uint64_t vram_bytes(struct kfd *k);
/* The same with what the driver keeps for itself, which counts as used. */
uint64_t all_vram_bytes(struct kfd *k);
/* A GPU of generation 12: waves of 32, no HIQ but an MES, two queues of each DMA engine that are the kernel's. */
static inline bool is_gfx12(const struct kfd_node *node)
{
	return node->gfx_target_version / 10000 == 12;
}

/* RUNTIME_ENABLE without a payload. */
int enable_runtime(struct kfd *k, uint32_t mode);

#endif
