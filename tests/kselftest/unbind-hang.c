// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests driver unbind of a hung GPU with a reset pending or running: it ends cleanly, and bind
 * works. Needs a GPU that does not preempt queues: the model with the knob hws.no_preempt=1, or its
 * control socket.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "hanglib.h"
#include "knobs.h"
#include "listen.h"

/* Returns as soon as the hang is detected, or as the reset has begun or ended: SMI event `what`. */
static void hang(void *what)
{
	uint32_t exception;
	int events = -1;
	char line[16];
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_HW_EXCEPTION, false, &exception));
	if (*(int *)what)
		events = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(*(int *)what));
	ASSERT_OK(ktap_in_child(hang_at_exit, NULL));
	expect_hang_event(&k, exception, WAIT_MS);
	if (events < 0)
		return;
	snprintf(line, sizeof(line), "%x ", *(int *)what);
	EXPECT(listen_for_line(events, line, NULL));
}

/*
 * Unbinds the driver after a hang, or after the SMI event `what` that follows if it is not 0.
 * Returns the number of resets until the unbind was done.
 */
static int unbind_after(int what)
{
	double start;
	int log, resets;

	device_find();
	hangs_needed();
	/* It may be hung already. */
	ASSERT_OK(device_unbind());
	ASSERT_OK(device_bind());
	log = kmsg_open();
	ASSERT_OK(ktap_in_child(hang, &what));
	start = seconds_now();
	ASSERT_OK(device_unbind());
	EXPECT(seconds_now() - start < 30, "it took %.1f s", seconds_now() - start);
	resets = kmsg_lines_with(log, " was reset (");
	close(log);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_opens, NULL));
	return resets;
}

/* Depends on timing whether the reset starts at all. */
TEST_TIMEOUT(unbind_before_reset, 120)
{
	EXPECT(unbind_after(0) <= 1);
}

/* The card does not respond for half a second. The unbind waits until it is up. */
TEST_TIMEOUT(unbind_during_reset, 240)
{
	EXPECT_EQ(unbind_after(KFD_SMI_EVENT_GPU_PRE_RESET), 1);
}

TEST_TIMEOUT(unbind_after_reset, 240)
{
	EXPECT_EQ(unbind_after(KFD_SMI_EVENT_GPU_POST_RESET), 1);
}

/*
 * An engine that polls memory does not stop, and is not reset: it does not access the memory any
 * more when the job has ended and its buffers are freed. Needs an IOMMU, which reports accesses.
 */
TEST_TIMEOUT(unbind_with_a_polling_engine, 120)
{
	struct pollfd done = { .events = POLLIN };
	unsigned int before;
	uint64_t handle;
	int log, status;
	uint32_t file;
	struct cs cs;
	pid_t child;

	knobs_open();
	device_find();
	if (gpu_is_gfx12())
		SKIP("engines of this GPU are not reset by the SMU");
	if (access("/sys/class/iommu/dmar0", F_OK))
		SKIP("no IOMMU");
	before = knob_hits("smu.no_sdma_reset");
	log = kmsg_open();
	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &handle));
	ASSERT_OK(cs_to_handle(&cs, handle, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &file));
	ASSERT(!munmap((void *)cs.data.words, BO_BYTES) && !munmap((void *)cs.code.words, BO_BYTES));
	usleep(50000);
	knob_set("sdma.no_stop", 1);
	knob_set("smu.no_sdma_reset", 1);
	child = fork_child();
	if (!child) {
		close(cs.fd);
		ASSERT_OK(device_unbind());
		ktap_end();
	}
	done.fd = (int)file;
	ASSERT(poll(&done, 1, 30000) == 1);
	close(cs.fd);
	ASSERT(waitpid(child, &status, 0) == child && !status);
	EXPECT_EQ(knob_hits("smu.no_sdma_reset"), before + 1);
	knob_set("sdma.no_stop", 0);
	EXPECT_EQ(kmsg_lines_with(log, "DMAR"), 0);
	close(log);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
