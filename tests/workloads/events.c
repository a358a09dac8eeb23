// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Events, and signals that complete through them. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "kfd.h"

#define SIGNALS_BYTES 65536ul

static int create(struct kfd *k, uint32_t type, bool auto_reset, uint64_t page, uint32_t *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_page_offset = page,
		.event_type = type,
		.auto_reset = auto_reset,
		.node_id = (uint32_t)k->node.index,
	};
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_EVENT, &args);

	*id = args.event_id;
	return ret;
}

/*
 * The page of event slots, written by the GPU and read by the kernel: our memory, passed to the
 * driver once.
 */
int kfd_event_page(struct kfd *k)
{
	return k->event_page ? 0 :
			       kfd_bo_create(k, KFD_EVENT_PAGE_SIZE, KFD_FLAGS_GTT, &k->event_page);
}

int kfd_event_create(struct kfd *k, uint32_t type, bool auto_reset, uint32_t *id)
{
	bool first = !k->event_page;
	int ret = kfd_event_page(k);

	if (ret)
		return ret;
	return create(k, type, auto_reset, first ? k->event_page->handle : 0, id);
}

int kfd_event_destroy(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_destroy_event_args args = { .event_id = id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_DESTROY_EVENT, &args);
}

int kfd_event_set(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_set_event_args args = { .event_id = id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_SET_EVENT, &args);
}

int kfd_event_reset(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_reset_event_args args = { .event_id = id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_RESET_EVENT, &args);
}

/* A single WAIT_EVENTS without retries. `result` is one of KFD_IOC_WAIT_RESULT_*. */
int kfd_event_wait(struct kfd *k, struct kfd_event_data *events, uint32_t count, bool all,
		   uint32_t ms, uint32_t *result)
{
	struct kfd_ioctl_wait_events_args args = {
		.events_ptr = kfd_va(events),
		.num_events = count,
		.wait_for_all = all,
		.timeout = ms,
	};
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_WAIT_EVENTS, &args);

	*result = args.wait_result;
	return ret;
}

/* A signal in user memory, with an event that the CP raises at completion. */
int kfd_signal_create(struct kfd *k, int64_t value, struct kfd_signal *signal)
{
	int ret = kfd_event_create(k, KFD_IOC_EVENT_SIGNAL, true, &signal->event_id);

	if (!ret && !k->signals)
		ret = kfd_bo_create(k, SIGNALS_BYTES, KFD_FLAGS_GTT, &k->signals);
	if (ret)
		return ret;
	if ((k->signals_used + 1) * sizeof(struct amd_signal) > k->signals->size)
		return -ENOSPC;
	signal->s = (struct amd_signal *)k->signals->va + k->signals_used++;
	memset(signal->s, 0, sizeof(*signal->s));
	signal->s->kind = 1;
	signal->s->value = value;
	signal->s->event_mailbox_ptr = kfd_va((uint64_t *)k->event_page->va + signal->event_id);
	signal->s->event_id = signal->event_id;
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	/* The coarse clock needs no system call, whatever the clock source. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sleeps in WAIT_EVENTS until the signal is zero or below; -ETIME on a timeout. */
int kfd_signal_wait(struct kfd *k, struct kfd_signal *signal, uint32_t ms)
{
	uint64_t end = now_ms() + ms, now;

	while (__atomic_load_n(&signal->s->value, __ATOMIC_ACQUIRE) > 0) {
		struct kfd_event_data data = { .event_id = signal->event_id };
		uint32_t result;
		int ret;

		now = now_ms();
		if (now >= end)
			return -ETIME;
		ret = kfd_event_wait(k, &data, 1, true, (uint32_t)(end - now), &result);
		if (ret && ret != -EINTR && ret != -EAGAIN)
			return ret;
	}
	return 0;
}
