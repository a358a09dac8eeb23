/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* User queues of the render node, by bare ioctls. */
#ifndef USERQ_H
#define USERQ_H

#include "cs.h"
#include "pm4.h"

#define UQ_RING_BYTES 4096u
#define UQ_EOP_BYTES 2048u
/* A doorbell of the page that is routed to the CP. */
#define UQ_DOORBELL 4u

/* The memory of a user queue, and the arguments that create it. */
struct uq {
	struct cs *cs;
	struct cs_bo ring, rptr, wptr, eop;
	uint32_t doorbells;
	volatile uint64_t *doorbell;
	struct drm_amdgpu_userq_in args;
	struct drm_amdgpu_userq_mqd_compute_gfx11 compute;
	uint32_t id;
	/* In dwords. */
	uint64_t next;
};

/* Skips the test unless the driver has user queues of an IP type. */
void uq_need(int fd, uint32_t ip);
/* As cs_bo_new(); the page tables are up to date on return. */
void uq_bo_new(struct cs *cs, struct cs_bo *bo, uint64_t size, uint64_t domain);
/* Allocates the memory and fills in the arguments of a compute queue. */
void uq_prepare(struct uq *q, struct cs *cs);
/* Creates and frees a queue. Return 0 or a negative errno. */
int uq_start(struct uq *q);
int uq_free(struct cs *cs, uint32_t id);
/* Unmaps the memory from the CPU. */
void uq_unmap(struct uq *q);
/* As uq_unmap(), and frees it. */
void uq_release(struct uq *q);
/* Opens the render node, skips without compute queues, and creates one. */
void uq_open(struct uq *q, struct cs *cs);
/* Same with two queues of the file. */
void uq_open_two(struct uq *a, struct uq *b, struct cs *cs);
/* Appends packets to the ring. Their fence is not awaited. */
void uq_put(struct uq *q, const uint32_t *words, uint32_t count);
/* Stores the write pointer and rings the doorbell. */
void uq_ring(struct uq *q);
/* Writes a dword of `cs->data` by the queue, with a fence behind it; returns whether it arrives. */
bool uq_works(struct uq *q);
/* Creates a queue that works, and leaves it and mapped memory to the exit; for ktap_in_child(). */
void uq_lives(void *unused);


/* Nanoseconds. */
#define UQ_MS 1000000ull
/* Dwords of `cs->data`: the gate that a queue waits for, and the dword that it writes then. */
enum { UQ_GATE = 0, UQ_DONE = 4 };

/* Returns the address of a dword of `cs->data`. */
uint64_t uq_word(struct cs *cs, uint32_t n);
/* Appends packets that wait for the gate, set UQ_DONE to `value`, and signal. */
void uq_put_job(struct uq *q, uint32_t value);
/* Submits them. */
void uq_submit(struct uq *q, uint32_t value);
/* Ends the wait of packets for `value`. */
void uq_open_gate(struct cs *cs, uint32_t value);
/*
 * USERQ_SIGNAL with `count` syncobjs, and at most one buffer each that is read and written. Returns
 * 0 or a negative errno.
 */
int uq_signal(struct uq *q, uint32_t *syncobjs, uint32_t count, uint32_t *reads, uint32_t *writes);
/* Waits for a syncobj at most `ms`. Returns 0 or a negative errno. */
int uq_wait_ms(struct cs *cs, uint32_t syncobj, unsigned int ms);

#endif
