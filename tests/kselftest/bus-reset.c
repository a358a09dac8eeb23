// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests a reset of the PCI function while the GPU is in use: queues and VRAM contents are lost,
 * their owners get a HW_EXCEPTION event, other processes are unaffected.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "knobs.h"

static uint32_t listen_for_resets(struct kfd *k)
{
	uint32_t event = 0;

	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	return event;
}

static void expect_reset(struct kfd *k, uint32_t event)
{
	EXPECT_EQ(expect_hang_event(k, event, WAIT_MS), 1);
}

TEST_TIMEOUT(idle, 120)
{
	uint64_t losses;
	struct kfd k;

	device_need_reset();
	fixture_open_only(&k);
	losses = amdgpu_info(&k, AMDGPU_INFO_VRAM_LOST_COUNTER);
	for (uint64_t i = 0; i < 3; i++) {
		device_reset();
		EXPECT_EQ(amdgpu_info(&k, AMDGPU_INFO_VRAM_LOST_COUNTER), losses + i + 1);
		ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	}
	device_reset();
	device_reset();
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Existing queues are dead and CREATE_QUEUE fails. */
TEST_TIMEOUT(queue_owner_gets_reset_event, 120)
{
	struct kfd_queue another;
	struct fixture f;
	uint32_t event;

	device_need_reset();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	event = listen_for_resets(&f.k);
	device_reset();
	expect_reset(&f.k, event);
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EACCES);
	EXPECT_RET(kfd_queue_create(&f.k, &another, 64), -EIO);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/* The address space and all system memory are intact. */
TEST_TIMEOUT(process_without_queues_survives, 120)
{
	struct kfd_bo *user, *big;
	struct fixture f;
	uint32_t event;

	device_need_reset();
	fixture_load(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 8 << 20, KFD_FLAGS_VRAM, &big));
	ASSERT_OK(kfd_bo_create(&f.k, 1 << 20, KFD_FLAGS_GTT, &user));
	pattern(user->va, user->size, 1);
	event = listen_for_resets(&f.k);
	for (int i = 0; i < 2; i++) {
		device_reset();
		expect_reset(&f.k, event);
	}
	/* VRAM contents are lost, that of the code among them; the allocation is not. */
	ASSERT_OK(kfd_kernels(&f.k, &f.code));
	memset(big->va, 0, 4096);
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	EXPECT(fixture_works(&f));
	ASSERT_OK(fixture_fill(&f, &f.q, big->va, 64, 77));
	EXPECT_EQ(((volatile uint32_t *)big->va)[63], 77);
	has_pattern(user->va, user->size, 1);
	ASSERT_OK(fixture_fill(&f, &f.q, user->va, 64, 78));
	EXPECT_EQ(((volatile uint32_t *)user->va)[63], 78);
	has_pattern((uint32_t *)user->va + 64, user->size - 64 * 4, pattern_word(64, 1));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

static atomic_bool reset_is_over;

static void *reset_in_thread(void *unused)
{
	device_reset();
	reset_is_over = true;
	return unused;
}

/* What does not change during a reset, and the one report of it. */
TEST_TIMEOUT(queries_during_a_reset, 120)
{
	uint32_t rings, status, resets = 0;
	struct drm_amdgpu_bo_list_entry bo;
	bool same = true, counts = true;
	struct cs_job job;
	pthread_t thread;
	struct kfd k = { 0 };
	uint64_t flags;
	uint32_t lost;
	struct cs cs;

	device_need_reset();
	cs_open(&cs);
	k.drm = cs.fd;
	lost = (uint32_t)amdgpu_info(&k, AMDGPU_INFO_VRAM_LOST_COUNTER);
	rings = cs_rings(cs.fd, AMDGPU_HW_IP_DMA);
	EXPECT(rings != 0);
	cs_expect_resets(&cs, false);
	ASSERT(!pthread_create(&thread, NULL, reset_in_thread, NULL));
	for (bool last = false; !last; usleep(1000)) {
		last = reset_is_over;
		same &= cs_rings(cs.fd, AMDGPU_HW_IP_DMA) == rings;
		counts &= (uint32_t)amdgpu_info(&k, AMDGPU_INFO_VRAM_LOST_COUNTER) - lost <= 1;
		ASSERT_OK(cs_ctx_state(cs.fd, AMDGPU_CTX_OP_QUERY_STATE, cs.ctx, &flags, &status));
		resets += status != AMDGPU_CTX_NO_RESET;
	}
	pthread_join(thread, NULL);
	EXPECT(same, "other rings");
	EXPECT(counts, "another count of losses of VRAM");
	EXPECT_EQ(resets, 1);
	/* Malformed also in a context that is older than the reset. */
	bo = (struct drm_amdgpu_bo_list_entry){ cs.data.handle, 0 };
	cs_job(&job, &cs, 0);
	cs_add_bos(&job, &bo, 1);
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_expect_lost(&cs);
}

/* Pending jobs and waits on them end; new jobs can be submitted. */
TEST_TIMEOUT(pending_jobs_are_cancelled, 120)
{
	struct cs_waiter w = { 0 };
	pthread_t thread;
	struct cs cs;

	device_need_reset();
	cs_open(&cs);
	w.cs = &cs;
	for (int n = 0; n < 8; n++)
		ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &w.handle));
	ASSERT(pthread_create(&thread, NULL, cs_wait_in_thread, &w) == 0);
	usleep(100000);
	device_reset();
	pthread_join(thread, NULL);
	EXPECT_RET(w.ret, -ECANCELED);
	cs_expect_cancelled(&cs, w.handle);
	cs_expect_lost(&cs);
}

static void *reset_again(void *data)
{
	(void)data;
	for (int i = 0; i < 4; i++) {
		device_reset();
		usleep(20000);
	}
	return NULL;
}

/* A context whose jobs had ended is of no use either: VRAM has lost its contents. */
TEST_TIMEOUT(old_context_is_cancelled, 120)
{
	uint64_t handle;
	uint32_t ctx;
	struct cs cs;

	device_need_reset();
	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &handle));
	cs_done(&cs, 0, handle);
	device_reset();
	EXPECT_RET(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 2), &handle), -ECANCELED);
	ASSERT_OK(cs_ctx_alloc(cs.fd, &ctx));
	cs.ctx = ctx;
	EXPECT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 3), &handle));
	cs_done(&cs, 0, handle);
	EXPECT_EQ(cs.data.words[0], 3);
}

TEST_TIMEOUT(open_and_exit_during_reset, 120)
{
	pthread_t thread;

	device_need_reset();
	ASSERT(pthread_create(&thread, NULL, reset_again, NULL) == 0);
	for (int i = 0; i < 8; i++)
		EXPECT_OK(ktap_in_child(fixture_tries_queue, NULL));
	pthread_join(thread, NULL);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}

/*
 * A reset of the bus that is one of the whole card: its firmware boots for some seconds, and is
 * loaded again.
 */
TEST_TIMEOUT(power_on_by_the_bus, 200)
{
	uint32_t event;
	struct fixture f;

	knobs_open();
	device_need_reset();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	event = listen_for_resets(&f.k);
	knob_set("psp.boot_ms", 4000);
	knob_set("pci.power_on", 1);
	device_set("reset_method", "bus");
	device_try_set("reset", "1");
	device_set("reset_method", "default");
	knob_set("pci.power_on", 0);
	knob_set("psp.boot_ms", 0);
	EXPECT_EQ(knob_hits("pci.power_on"), 1);
	EXPECT_EQ(knob_hits("psp.boot_ms"), 1);
	expect_reset(&f.k, event);
	EXPECT_RET(fixture_update_queue(&f.q, 0), -EACCES);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
