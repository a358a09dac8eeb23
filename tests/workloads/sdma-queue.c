// SPDX-License-Identifier: GPL-2.0 OR MIT
/* See sdma-queue.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sdma-queue.h"

int sdma_queue_prepare(struct kfd *k, struct sdma_queue *q, uint32_t type, uint32_t engine,
		       uint32_t bytes, struct kfd_ioctl_create_queue_args *args)
{
	int ret;

	memset(q, 0, sizeof(*q));
	memset(args, 0, sizeof(*args));
	q->k = k;
	q->bytes = bytes;
	ret = kfd_bo_create(k, bytes, KFD_FLAGS_GTT, &q->ring);
	if (!ret)
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &q->pointers);
	if (ret) {
		sdma_queue_free_memory(q);
		return ret;
	}
	q->rptr = q->pointers->va;
	q->wptr = q->rptr + 8;
	args->ring_base_address = kfd_va(q->ring->va);
	args->ring_size = bytes;
	args->write_pointer_address = kfd_va((void *)q->wptr);
	args->read_pointer_address = kfd_va((void *)q->rptr);
	args->gpu_id = k->node.gpu_id;
	args->queue_type = type;
	args->sdma_engine_id = engine;
	args->queue_percentage = 100;
	args->queue_priority = 7;
	return 0;
}

int sdma_queue_start(struct sdma_queue *q, struct kfd_ioctl_create_queue_args *args)
{
	struct kfd *k = q->k;
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_QUEUE, args);

	if (ret)
		return ret;
	q->id = args->queue_id;
	q->doorbell_offset = args->doorbell_offset;
	ret = kfd_map_doorbell(k, q->doorbell_offset, &q->doorbell);
	if (ret)
		sdma_queue_stop(q);
	return ret;
}

int sdma_queue_create(struct kfd *k, struct sdma_queue *q, uint32_t type, uint32_t engine,
		      uint32_t bytes)
{
	struct kfd_ioctl_create_queue_args args;
	int ret = sdma_queue_prepare(k, q, type, engine, bytes, &args);

	if (ret)
		return ret;
	ret = sdma_queue_start(q, &args);
	if (ret)
		sdma_queue_free_memory(q);
	return ret;
}

int sdma_queue_stop(struct sdma_queue *q)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = q->id };

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

int sdma_queue_free_memory(struct sdma_queue *q)
{
	int ret = q->pointers ? kfd_bo_free(q->k, q->pointers) : 0;
	int err = q->ring ? kfd_bo_free(q->k, q->ring) : 0;

	memset(q, 0, sizeof(*q));
	return ret ? ret : err;
}

int sdma_queue_destroy(struct sdma_queue *q)
{
	int ret = sdma_queue_stop(q);
	int err = sdma_queue_free_memory(q);

	return ret ? ret : err;
}

int sdma_queue_put(struct sdma_queue *q, const uint32_t *packets, const uint32_t *end)
{
	volatile uint32_t *ring = q->ring->va;

	if (q->written + (uint64_t)(end - packets) * 4 - *q->rptr > q->bytes - 4)
		return -EAGAIN;
	for (; packets < end; packets++, q->written += 4)
		ring[(q->written & (q->bytes - 1)) / 4] = *packets;
	return 0;
}

void sdma_queue_ring(struct sdma_queue *q)
{
	__atomic_store_n(q->wptr, q->written, __ATOMIC_RELEASE);
	/* The packets must be visible before the doorbell. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*q->doorbell = q->written;
}

bool sdma_queue_is_empty(const struct sdma_queue *q)
{
	return *q->rptr == *q->wptr;
}

void sdma_signal(uint32_t **p, const struct kfd_signal *signal)
{
	/*
	 * The value changes from 1 to 0: its high dword is 0 anyway. Then the event slot and a
	 * trap.
	 */
	sdma_fence(p, kfd_va((void *)&signal->s->value), 0);
	sdma_fence(p, signal->s->event_mailbox_ptr, signal->event_id);
	sdma_trap(p, signal->event_id);
}
