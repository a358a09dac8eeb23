/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Raw queue ioctls, for tests of argument checks. */
#ifndef QUEUE_CALLS_H
#define QUEUE_CALLS_H

#include "../workloads/kfd.h"

static inline int create(struct kfd *k, struct kfd_ioctl_create_queue_args args)
{
	return kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
}

static inline int destroy(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

static inline int update(struct kfd *k, uint32_t id, uint64_t ring, uint32_t size, uint32_t percent,
			 uint32_t priority)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = ring,
		.queue_id = id,
		.ring_size = size,
		.queue_percentage = percent,
		.queue_priority = priority,
	};

	return kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

#endif
