// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests events: types, limits, SET_EVENT, RESET_EVENT, WAIT_EVENTS, event ages. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#define COMPLETE KFD_IOC_WAIT_RESULT_COMPLETE
#define TIMEOUT KFD_IOC_WAIT_RESULT_TIMEOUT
#define FAIL KFD_IOC_WAIT_RESULT_FAIL

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

static int create(struct kfd *k, uint32_t type, bool auto_reset, uint64_t page,
		  struct kfd_ioctl_create_event_args *args)
{
	memset(args, 0, sizeof(*args));
	args->event_page_offset = page;
	args->event_type = type;
	args->auto_reset = auto_reset;
	return kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_EVENT, args);
}

static uint32_t signal_event(struct kfd *k, bool auto_reset)
{
	uint32_t id;

	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_SIGNAL, auto_reset, &id));
	return id;
}

TEST(signal_events_need_an_event_page)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args), -ENOMEM);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_DEBUG_EVENT, true, 0, &args), -ENOMEM);
	/* Other types do not. */
	EXPECT_OK(create(&k, KFD_IOC_EVENT_MEMORY, false, 0, &args));
}

TEST(event_page_checks)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd_bo *small, *page, *other;
	const uint64_t *slots;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, 4096, KFD_FLAGS_GTT, &small));
	ASSERT_OK(kfd_bo_create(&k, KFD_EVENT_PAGE_SIZE, KFD_FLAGS_GTT, &page));
	ASSERT_OK(kfd_bo_create(&k, KFD_EVENT_PAGE_SIZE, KFD_FLAGS_GTT, &other));
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, (uint64_t)NO_SUCH_GPU << 32, &args),
		   -EINVAL);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, (uint64_t)k.node.gpu_id << 32 | 0x999,
			  &args),
		   -EINVAL);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, small->handle, &args), -EINVAL);
	ASSERT_OK(create(&k, KFD_IOC_EVENT_SIGNAL, true, page->handle, &args));
	EXPECT_EQ(args.event_page_offset, 2ull << 62);
	slots = page->va;
	for (int i = 0; i < 4096; i++)
		ASSERT(slots[i] == KFD_EVENT_UNSIGNALED, "slot %d", i);
	/* A second event page is refused, whether the same BO or another. */
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, page->handle, &args), -EINVAL);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, other->handle, &args), -EINVAL);
	EXPECT_OK(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args));
	/* The too small one is not in use: it can be freed. */
	EXPECT_OK(kfd_bo_free(&k, small));
}

TEST(event_page_without_vm_is_enodev)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, (uint64_t)k.node.gpu_id << 32, &args),
		   -ENODEV);
}

TEST(signal_event_id_is_slot)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd k;
	uint32_t first;

	fixture_open(&k);
	first = signal_event(&k, true);
	EXPECT_EQ(first, 1);
	for (uint32_t i = 0; i < 10; i++) {
		ASSERT_OK(create(&k, i & 1 ? KFD_IOC_EVENT_SIGNAL : KFD_IOC_EVENT_DEBUG_EVENT, true,
				 0, &args));
		EXPECT_EQ(args.event_id, first + 1 + i);
		EXPECT_EQ(args.event_slot_index, args.event_id);
		EXPECT_EQ(args.event_trigger_data, args.event_id);
		EXPECT_EQ(args.event_page_offset, 2ull << 62);
	}
	/* The lowest free id is used again. */
	ASSERT_OK(kfd_event_destroy(&k, 4));
	ASSERT_OK(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args));
	EXPECT_EQ(args.event_id, 4);
}

TEST(other_event_ids_are_above_slots)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd k;

	fixture_open(&k);
	for (uint32_t type = KFD_IOC_EVENT_NODECHANGE; type <= KFD_IOC_EVENT_MEMORY; type++) {
		if (type == KFD_IOC_EVENT_DEBUG_EVENT)
			continue;
		ASSERT_OK(create(&k, type, false, 0, &args));
		EXPECT(args.event_id >= 0x40000000, "type %u has %#x", type, args.event_id);
		EXPECT_EQ(args.event_trigger_data, args.event_id);
		EXPECT_EQ(args.event_page_offset, 0);
		/* User space can set signal events only. */
		EXPECT_RET(kfd_event_set(&k, args.event_id), -EINVAL);
		EXPECT_RET(kfd_event_reset(&k, args.event_id), -EINVAL);
		EXPECT_EQ(event_result(&k, args.event_id, 0), TIMEOUT);
		EXPECT_OK(kfd_event_destroy(&k, args.event_id));
	}
}

TEST(set_non_signal_event_is_einval)
{
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_DEBUG_EVENT, true, &id));
	EXPECT_RET(kfd_event_set(&k, id), -EINVAL);
	EXPECT_RET(kfd_event_reset(&k, id), -EINVAL);
}

TEST(unknown_event_is_einval)
{
	static const uint32_t ids[] = { 0, 77, 4095, 4096, 0x40000000, ~0u };
	struct kfd_event_data data[2] = { 0 };
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	data[0].event_id = signal_event(&k, true);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		EXPECT_RET(kfd_event_set(&k, ids[i]), -EINVAL);
		EXPECT_RET(kfd_event_reset(&k, ids[i]), -EINVAL);
		EXPECT_RET(kfd_event_destroy(&k, ids[i]), -EINVAL);
		data[1].event_id = ids[i];
		EXPECT_RET(kfd_event_wait(&k, data, 2, false, 0, &result), -EINVAL);
		EXPECT_EQ(result, FAIL);
	}
	EXPECT_OK(kfd_event_destroy(&k, data[0].event_id));
	EXPECT_RET(kfd_event_destroy(&k, data[0].event_id), -EINVAL);
}

TEST(signal_event_limit_is_4095)
{
	struct kfd_ioctl_create_event_args args;
	struct kfd k;

	fixture_open(&k);
	EXPECT_EQ(signal_event(&k, true), 1);
	for (uint32_t id = 2; id < KFD_SIGNAL_EVENT_LIMIT; id++) {
		ASSERT_OK(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args));
		ASSERT_EQ(args.event_id, id);
	}
	EXPECT_RET(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args), -ENOSPC);
	EXPECT_RET(create(&k, KFD_IOC_EVENT_DEBUG_EVENT, true, 0, &args), -ENOSPC);
	EXPECT_OK(create(&k, KFD_IOC_EVENT_MEMORY, true, 0, &args));
	EXPECT_OK(kfd_event_destroy(&k, 2000));
	ASSERT_OK(create(&k, KFD_IOC_EVENT_SIGNAL, true, 0, &args));
	EXPECT_EQ(args.event_id, 2000);
}

/* Those without a slot. The C driver has no limit. */
TEST(other_event_limit_is_4096)
{
	uint32_t id, last = 0;
	struct kfd k;

	fixture_open(&k);
	for (uint32_t i = 0; i < 4096; i++) {
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_MEMORY, true, &id));
		last = id;
	}
	EXPECT_RET(kfd_event_create(&k, KFD_IOC_EVENT_MEMORY, true, &id),
		   ktap_is_rkfd() ? -ENOSPC : 0);
	EXPECT_EQ(signal_event(&k, true), 1);
	EXPECT_OK(kfd_event_destroy(&k, last));
	EXPECT_OK(kfd_event_create(&k, KFD_IOC_EVENT_MEMORY, true, &id));
	EXPECT(id == last || !ktap_is_rkfd());
}

/* An invalid entry does not consume the signals of those before it; in the C driver it does. */
TEST(invalid_entry_consumes_nothing)
{
	struct kfd_event_data data[2] = { 0 };
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	data[0].event_id = signal_event(&k, true);
	data[1].event_id = 77;
	ASSERT_OK(kfd_event_set(&k, data[0].event_id));
	EXPECT_RET(kfd_event_wait(&k, data, 2, false, 0, &result), -EINVAL);
	EXPECT_EQ(event_result(&k, data[0].event_id, 0), ktap_is_rkfd() ? COMPLETE : TIMEOUT);
}

TEST(auto_reset_clears_event)
{
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, true);
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
	/* Without a waiter the event stays set until the next wait. */
	EXPECT_OK(kfd_event_set(&k, id));
	EXPECT_OK(kfd_event_set(&k, id));
	EXPECT_EQ(event_result(&k, id, 0), COMPLETE);
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
	EXPECT_OK(kfd_event_set(&k, id));
	EXPECT_OK(kfd_event_reset(&k, id));
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
}

TEST(manual_reset_stays_set)
{
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, false);
	EXPECT_OK(kfd_event_set(&k, id));
	EXPECT_EQ(event_result(&k, id, 0), COMPLETE);
	EXPECT_EQ(event_result(&k, id, 1000), COMPLETE);
	EXPECT_OK(kfd_event_reset(&k, id));
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
}

TEST(wait_timeouts)
{
	uint64_t start, took;
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, true);
	start = now_ms();
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
	took = now_ms() - start;
	EXPECT(took < 1000, "polling took %llu ms", (unsigned long long)took);
	start = now_ms();
	EXPECT_EQ(event_result(&k, id, 250), TIMEOUT);
	took = now_ms() - start;
	/* Timeouts are in jiffies, which lag behind when the timer interrupt is late. */
	EXPECT(took >= 200 && took < 10000, "250 ms took %llu ms", (unsigned long long)took);
}

TEST(wait_any_and_all)
{
	struct kfd_event_data data[3] = { 0 };
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	for (int i = 0; i < 3; i++)
		data[i].event_id = signal_event(&k, false);
	EXPECT_OK(kfd_event_wait(&k, data, 3, false, 0, &result));
	EXPECT_EQ(result, TIMEOUT);
	ASSERT_OK(kfd_event_set(&k, data[1].event_id));
	EXPECT_OK(kfd_event_wait(&k, data, 3, false, 0, &result));
	EXPECT_EQ(result, COMPLETE);
	EXPECT_OK(kfd_event_wait(&k, data, 3, true, 0, &result));
	EXPECT_EQ(result, TIMEOUT);
	ASSERT_OK(kfd_event_set(&k, data[0].event_id));
	ASSERT_OK(kfd_event_set(&k, data[2].event_id));
	EXPECT_OK(kfd_event_wait(&k, data, 3, true, 0, &result));
	EXPECT_EQ(result, COMPLETE);
}

TEST(wait_for_zero_events)
{
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	/* Waiting for zero events completes at once. */
	EXPECT_OK(kfd_event_wait(&k, NULL, 0, true, 0, &result));
	EXPECT_EQ(result, COMPLETE);
	EXPECT_OK(kfd_event_wait(&k, NULL, 0, false, 0, &result));
	EXPECT_EQ(result, COMPLETE);
}

TEST(bad_event_arrays)
{
	struct kfd_event_data data = { 0 };
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	data.event_id = signal_event(&k, true);
	EXPECT_RET(kfd_event_wait(&k, NULL, 1, true, 0, &result), -EFAULT);
	EXPECT_EQ(result, FAIL);
	EXPECT_RET(kfd_event_wait(&k, (void *)KERNEL_ADDRESS, 1, true, 0, &result), -EFAULT);
	EXPECT_RET(kfd_event_wait(&k, &data, KFD_SIGNAL_EVENT_LIMIT + 1, true, 0, &result),
		   -ENOMEM);
	EXPECT_RET(kfd_event_wait(&k, &data, ~0u, true, 0, &result), -ENOMEM);
}

struct waiter {
	struct kfd *k;
	struct kfd_event_data data[4];
	uint32_t count, ms, result;
	bool all;
	int ret;
	pthread_t thread;
};

static void *waiting(void *data)
{
	struct waiter *w = data;

	w->ret = kfd_event_wait(w->k, w->data, w->count, w->all, w->ms, &w->result);
	return NULL;
}

static void start(struct waiter *w, struct kfd *k, uint32_t id)
{
	memset(w, 0, sizeof(*w));
	w->k = k;
	w->count = 1;
	w->ms = 20000;
	w->all = true;
	w->data[0].event_id = id;
	ASSERT(pthread_create(&w->thread, NULL, waiting, w) == 0);
}

static void finish(struct waiter *w)
{
	pthread_join(w->thread, NULL);
}

TEST(set_wakes_waiter)
{
	struct waiter w;
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, true);
	for (int i = 0; i < 20; i++) {
		start(&w, &k, id);
		usleep(i & 1 ? 20000 : 0);
		EXPECT_OK(kfd_event_set(&k, id));
		finish(&w);
		EXPECT_OK(w.ret);
		EXPECT_EQ(w.result, COMPLETE);
		/* Set before or after the wait started: the wait consumed the event. */
		EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
	}
}

/* One set wakes all waiters, also of an auto-reset event. */
TEST(set_wakes_all_waiters)
{
	struct waiter w[8];
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, true);
	for (int i = 0; i < 8; i++)
		start(&w[i], &k, id);
	usleep(300000);
	EXPECT_OK(kfd_event_set(&k, id));
	for (int i = 0; i < 8; i++) {
		finish(&w[i]);
		EXPECT_OK(w[i].ret);
		EXPECT_EQ(w[i].result, COMPLETE);
	}
	EXPECT_EQ(event_result(&k, id, 0), TIMEOUT);
}

TEST(wait_all_needs_every_event)
{
	uint32_t ids[3];
	struct waiter w;
	struct kfd k;

	fixture_open(&k);
	for (int i = 0; i < 3; i++)
		ids[i] = signal_event(&k, true);
	memset(&w, 0, sizeof(w));
	w.k = &k;
	w.count = 3;
	w.all = true;
	w.ms = 20000;
	for (int i = 0; i < 3; i++)
		w.data[i].event_id = ids[i];
	ASSERT(pthread_create(&w.thread, NULL, waiting, &w) == 0);
	for (int i = 0; i < 3; i++) {
		usleep(50000);
		EXPECT_OK(kfd_event_set(&k, ids[i]));
	}
	finish(&w);
	EXPECT_OK(w.ret);
	EXPECT_EQ(w.result, COMPLETE);
}

/* A wait for all consumes one signal of an auto-reset event: the next one is for another wait. */
TEST(second_set_during_a_wait_stays)
{
	uint32_t ids[2];
	struct waiter w;
	struct kfd k;

	fixture_open(&k);
	for (int i = 0; i < 2; i++)
		ids[i] = signal_event(&k, true);
	memset(&w, 0, sizeof(w));
	w.k = &k;
	w.count = 2;
	w.all = true;
	w.ms = 20000;
	for (int i = 0; i < 2; i++)
		w.data[i].event_id = ids[i];
	ASSERT(pthread_create(&w.thread, NULL, waiting, &w) == 0);
	for (int i = 0; i < 2; i++) {
		/* The waiter sleeps, at the second time again. */
		usleep(300000);
		EXPECT_OK(kfd_event_set(&k, ids[0]));
	}
	usleep(300000);
	EXPECT_OK(kfd_event_set(&k, ids[1]));
	finish(&w);
	EXPECT_OK(w.ret);
	EXPECT_EQ(w.result, COMPLETE);
	EXPECT_EQ(event_result(&k, ids[0], 0), COMPLETE);
	EXPECT_EQ(event_result(&k, ids[0], 0), TIMEOUT);
	EXPECT_EQ(event_result(&k, ids[1], 0), TIMEOUT);
}

TEST(destroy_fails_the_wait)
{
	struct waiter w;
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	id = signal_event(&k, true);
	start(&w, &k, id);
	usleep(200000);
	EXPECT_OK(kfd_event_destroy(&k, id));
	finish(&w);
	EXPECT_RET(w.ret, -EIO);
	EXPECT_EQ(w.result, FAIL);
}

static void nothing(int signal)
{
	(void)signal;
}

/* A signal interrupts the wait; the remaining timeout is written back. */
TEST(signal_interrupts_wait)
{
	struct sigaction action = { .sa_handler = nothing };
	struct kfd_ioctl_wait_events_args args = { 0 };
	struct kfd_event_data data = { 0 };
	struct kfd k;
	int ret;

	fixture_open(&k);
	data.event_id = signal_event(&k, true);
	sigaction(SIGALRM, &action, NULL);
	args.events_ptr = kfd_va(&data);
	args.num_events = 1;
	args.timeout = 10000;
	alarm(1);
	ret = kfd_ioctl(k.fd, AMDKFD_IOC_WAIT_EVENTS, &args);
	EXPECT_RET(ret, -EINTR);
	EXPECT_EQ(args.wait_result, FAIL);
	EXPECT(args.timeout > 5000 && args.timeout < 9900, "%u ms left", args.timeout);
}

TEST(event_ages)
{
	struct kfd_event_data data = { 0 };
	uint32_t result;
	uint64_t age;
	struct kfd k;

	fixture_open(&k);
	data.event_id = signal_event(&k, true);
	/* New events have age 1. */
	data.signal_event_data.last_event_age = 1;
	EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, TIMEOUT);
	EXPECT_OK(kfd_event_set(&k, data.event_id));
	EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, COMPLETE);
	age = data.signal_event_data.last_event_age;
	EXPECT_EQ(age, 2);
	/* Not set since. */
	EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, TIMEOUT);
	/* A waiter with an older age returns at once though the event was consumed. */
	EXPECT_OK(kfd_event_set(&k, data.event_id));
	EXPECT_EQ(event_result(&k, data.event_id, 0), COMPLETE);
	EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, COMPLETE);
	EXPECT_EQ(data.signal_event_data.last_event_age, 3);
	/* Age 0 selects the behaviour without ages and stays 0. */
	data.signal_event_data.last_event_age = 0;
	EXPECT_OK(kfd_event_set(&k, data.event_id));
	EXPECT_OK(kfd_event_wait(&k, &data, 1, true, 0, &result));
	EXPECT_EQ(result, COMPLETE);
	EXPECT_EQ(data.signal_event_data.last_event_age, 0);
}

/*
 * Event signalled by the GPU: the CP writes the slot and raises an interrupt; the kernel resets the
 * slot.
 */
TEST(gpu_signals_event)
{
	volatile uint64_t *slots;
	uint32_t *words;
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	slots = f.k.event_page->va;
	for (uint32_t i = 0; i < 50; i++) {
		fixture_fill_start(&f, &f.q, &f.signal, 0, words, 64, i);
		ASSERT_EQ(event_result(&f.k, f.signal.event_id, WAIT_MS), COMPLETE);
		ASSERT_EQ(f.signal.s->value, 0);
		ASSERT_EQ(words[63], i);
		EXPECT_EQ(slots[f.signal.event_id], KFD_EVENT_UNSIGNALED);
	}
}

/* The wait starts before the dispatch, so only the interrupt can wake it. */
TEST(gpu_wakes_waiter)
{
	struct waiter w;
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 10; i++) {
		start(&w, &f.k, f.signal.event_id);
		usleep(50000);
		fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 1);
		finish(&w);
		EXPECT_OK(w.ret);
		EXPECT_EQ(w.result, COMPLETE);
		EXPECT_EQ(f.signal.s->value, 0);
	}
}

/* With many events in use, each kernel signals its own. */
TEST(gpu_signals_the_right_event)
{
	struct kfd_signal signals[64];
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 200; i++)
		signal_event(&f.k, true);
	for (int i = 0; i < 64; i++)
		ASSERT_OK(kfd_signal_create(&f.k, 1, &signals[i]));
	for (unsigned int i = 0; i < 64; i++)
		fixture_fill_start(&f, &f.q, &signals[i], i, (uint32_t *)f.data->va + i * 64, 64,
				   i + 1);
	for (unsigned int i = 0; i < 64; i++) {
		unsigned int n = i * 29 % 64;

		ASSERT_EQ(event_result(&f.k, signals[n].event_id, WAIT_MS), COMPLETE);
		ASSERT_EQ(signals[n].s->value, 0);
		ASSERT_EQ(((uint32_t *)f.data->va)[n * 64 + 63], n + 1);
	}
}
