/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SDMA queues of /dev/kfd: a ring, two byte pointers that never wrap, a doorbell. Functions return
 * 0 or a negative errno.
 */
#ifndef SDMA_QUEUE_H
#define SDMA_QUEUE_H

#include "kfd.h"
#include "sdma.h"

struct sdma_queue {
	struct kfd *k;
	struct kfd_bo *ring, *pointers;
	volatile uint64_t *rptr, *wptr, *doorbell;
	/* Bytes written so far, whether submitted or not. */
	uint64_t written, doorbell_offset;
	uint32_t id, bytes;
};

/*
 * Prepares a ring of `bytes` and the arguments of CREATE_QUEUE. `type` is one of
 * KFD_IOC_QUEUE_TYPE_SDMA*.
 */
int sdma_queue_prepare(struct kfd *k, struct sdma_queue *q, uint32_t type, uint32_t engine,
		       uint32_t bytes, struct kfd_ioctl_create_queue_args *args);
int sdma_queue_start(struct sdma_queue *q, struct kfd_ioctl_create_queue_args *args);
int sdma_queue_create(struct kfd *k, struct sdma_queue *q, uint32_t type, uint32_t engine,
		      uint32_t bytes);
int sdma_queue_stop(struct sdma_queue *q);
int sdma_queue_free_memory(struct sdma_queue *q);
int sdma_queue_destroy(struct sdma_queue *q);
/* Copies packets to the ring, wrapping if necessary. -EAGAIN if the ring is full. */
int sdma_queue_put(struct sdma_queue *q, const uint32_t *packets, const uint32_t *end);
/* Rings the doorbell for all packets written. */
void sdma_queue_ring(struct sdma_queue *q);
/* Returns whether the engine has read all submitted packets. */
bool sdma_queue_is_empty(const struct sdma_queue *q);
/* Writes packets that set a signal to 0 and wake a waiter in kfd_signal_wait(). */
void sdma_signal(uint32_t **p, const struct kfd_signal *signal);

#endif
