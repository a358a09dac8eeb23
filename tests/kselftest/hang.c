// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests a GPU whose scheduler fails to preempt queues or does not respond: the driver reports it
 * after a timeout of 9 s (MES: 2 s), and no process hangs. The GPU recovers by a reset, repeatedly.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "device.h"
#include "fixture.h"
#include "hanglib.h"
#include "listen.h"
#include "userptr.h"

/* Bound on the timeout of a preemption. */
#define HANG_SECONDS (9.0 * ktap_time_factor())

/* The child must exit soon after SIGKILL. */
static void expect_death(pid_t child, double seconds)
{
	double end = seconds_now() + seconds;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		ASSERT(seconds_now() < end, "process %d survives SIGKILL", child);
		usleep(50000);
	}
}

/* Reads registers until it is killed: those of queues, or clocks. */
static pid_t start_reader(int of_queues)
{
	struct kfd_ioctl_get_clock_counters_args clocks = { 0 };
	char text[4096];
	pid_t child = fork_child();
	struct kfd k;
	int hqds;

	if (child)
		return child;
	fixture_open(&k);
	clocks.gpu_id = k.node.gpu_id;
	hqds = open("/sys/kernel/debug/kfd/hqds", O_RDONLY);
	for (;;) {
		if (of_queues) {
			(void)!pread(hqds, text, sizeof(text), 0);
			continue;
		}
		kfd_ioctl(k.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &clocks);
		amdgpu_info(&k, AMDGPU_INFO_TIMESTAMP);
		/* libdrm refuses a device with 0, and programs may start now. */
		ASSERT_EQ((uint32_t)amdgpu_info(&k, AMDGPU_INFO_ACCEL_WORKING), 1);
	}
}

/*
 * The first queue needs no preemption. The second one does: CREATE_QUEUE fails after the timeout,
 * either of the firmware for one queue (4 s) or of the driver for the firmware (9 s). Queues can be
 * destroyed and the process exits.
 */
TEST_TIMEOUT(preemption_timeout, 180)
{
	int resets = listen_for_resets(), uevents = uevents_open(), causes, timeout, status;
	double start, took, most;
	pid_t child, readers[] = { -1, -1 };
	struct kfd k;

	if (!hangs_once())
		hangs_needed();
	fixture_open_only(&k);
	causes = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_PRE_RESET));
	/* amdgpu reads registers for them, also during its mode-1 reset. */
	if (ktap_is_rkfd()) {
		for (int i = 0; i < 2; i++)
			readers[i] = start_reader(i);
	}

	child = fork_child();
	if (!child) {
		struct kfd_queue first, second;
		struct kfd_ioctl_create_queue_args args;
		uint32_t event;
		struct kfd k;

		fixture_open(&k);
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
		ASSERT_OK(kfd_queue_create(&k, &first, 64));
		ASSERT_OK(kfd_queue_prepare(&k, &second, 64, &args));
		hang_next();
		start = seconds_now();
		EXPECT_RET(kfd_queue_start(&second, &args),
			   is_gfx12(&k.node) ? -ETIMEDOUT : -ETIME);
		took = seconds_now() - start;
		ktap_note("the preemption failed after %.1f s", took);
		timeout = is_gfx12(&k.node) ? 2 : (int)unmap_timeout();
		most = timeout + (is_gfx12(&k.node) ? 3 : 5) * ktap_time_factor();
		/* Less than without the parameter, also on a slow host. */
		if (unmap_timeout() < 9 && !is_gfx12(&k.node))
			most = 9 * ktap_time_factor();
		/* The C driver counts its delays on gfx12: their length depends on the host. */
		if (is_gfx12(&k.node) && !ktap_is_rkfd())
			EXPECT(took > 0.5 && took < 30, "after %.1f s", took);
		else
			EXPECT(took > timeout && took < most, "after %.1f s", took);
		/* The runtime gets a HW_EXCEPTION event. */
		EXPECT_EQ(expect_hang_event(&k, event, 5000), 1);
		ktap_end();
	}
	for (int i = 0; waitpid(child, &status, WNOHANG) == 0; i++)
		ASSERT(i < 1000 && !usleep(100000), "process still exists");
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	expect_reset(resets);
	EXPECT(uevents_have(uevents, "WEDGED=none", WAIT_MS));
	listen_for_line(causes, gpu_is_gfx12() ? " MES hang\n" : " HWS hang\n", NULL);
	for (int i = 0; i < 2 && readers[i] > 0; i++) {
		EXPECT(waitpid(readers[i], NULL, WNOHANG) == 0, "it ended early");
		kill(readers[i], SIGKILL);
		waitpid(readers[i], NULL, 0);
	}
}

/*
 * A process that was open all the time can be killed, and a new one can open the device. It creates
 * a queue after the reset.
 */
TEST_TIMEOUT(kill_after_hang, 180)
{
	int resets = listen_for_resets(), ready[2];
	struct kfd k;
	double start;
	pid_t child;
	int ret;

	if (!hangs_once())
		hangs_needed();
	ASSERT(!pipe(ready));
	child = fork_child();
	if (!child) {
		struct kfd_queue q;

		fixture_open(&k);
		EXPECT_OK(kfd_queue_create(&k, &q, 64));
		hang_next();
		ASSERT(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	wait_for_byte(ready[0]);
	ASSERT(kill(child, SIGKILL) == 0);
	expect_death(child, 90);
	start = seconds_now();
	ret = kfd_open_device(&k);
	EXPECT(seconds_now() - start < 60, "open took %.1f s", seconds_now() - start);
	EXPECT_OK(ret);
	/* Or it was in the test before. */
	if (!hangs_once())
		expect_reset(resets);
}

/*
 * munmap() of memory that queues use waits for their preemption. fork() afterwards, which protects
 * the rest of it, does not wait again.
 */
TEST_TIMEOUT(munmap_with_a_silent_scheduler, 180)
{
	struct pages pages;
	double start, took;
	struct fixture f;
	int resets;
	pid_t child;

	hangs_needed();
	resets = listen_for_resets();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	register_new(&f.k, 2 * MIB, &pages);
	hang_next();
	start = seconds_now();
	ASSERT(munmap(pages.cpu, MIB) == 0);
	took = seconds_now() - start;
	ktap_note("munmap() took %.1f s", took);
	EXPECT(took > 1 && took < HANG_SECONDS + RESET_SECONDS, "after %.1f s", took);
	start = seconds_now();
	child = fork_child();
	if (!child)
		_exit(0);
	EXPECT(seconds_now() - start < RESET_SECONDS, "fork() took %.1f s", seconds_now() - start);
	ASSERT(waitpid(child, NULL, 0) == child);
	expect_reset(resets);
}

static void ignore(int signal)
{
	(void)signal;
}

/* Allocates and frees VRAM. Returns the error, and extends `longest` to the time that it took. */
static int alloc_timed(struct kfd *k, double *longest)
{
	double start = seconds_now(), took;
	struct kfd_bo *bo;
	int ret = kfd_bo_alloc(k, 4096, KFD_FLAGS_VRAM, &bo);

	took = seconds_now() - start;
	*longest = took > *longest ? took : *longest;
	if (!ret)
		EXPECT_OK(kfd_bo_free(k, bo));
	return ret;
}

/*
 * rkfd does not allocate VRAM while the card is reset: a call waits for the end of the reset. A
 * signal ends it, as it holds locks of the process.
 */
TEST_TIMEOUT(alloc_during_reset_ends_at_a_signal, 180)
{
	const struct itimerval tick = { { 0, 20000 }, { 0, 20000 } }, off = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = ignore };
	double end, longest = 0;
	int resets, signals = 0;
	struct kfd k;
	pid_t child;

	hangs_needed();
	resets = listen_for_resets();
	fixture_open(&k);
	child = begin_reset(&k);
	ASSERT(sigaction(SIGALRM, &action, NULL) == 0);
	ASSERT(setitimer(ITIMER_REAL, &tick, NULL) == 0);
	for (end = seconds_now() + 5; seconds_now() < end;) {
		int ret = alloc_timed(&k, &longest);

		signals += ret == -EINTR;
		if (ret)
			EXPECT_RET(ret, -EINTR);
	}
	ASSERT(setitimer(ITIMER_REAL, &off, NULL) == 0);
	ktap_note("%d calls ended by a signal, the longest took %.3f s", signals, longest);
	EXPECT(signals > 0 || !ktap_is_rkfd());
	/* amdgpu does not wait for the reset. */
	EXPECT(longest < ktap_time_factor() || !ktap_is_rkfd(), "%.3f s", longest);
	ASSERT(waitpid(child, NULL, 0) == child);
	expect_reset(resets);
}

/* Without a signal the call ends with the reset. */
TEST_TIMEOUT(alloc_during_reset_ends_with_it, 180)
{
	double end, longest = 0;
	int resets;
	struct kfd k;
	pid_t child;

	hangs_needed();
	resets = listen_for_resets();
	fixture_open(&k);
	child = begin_reset(&k);
	for (end = seconds_now() + 5; seconds_now() < end && longest < 0.1;)
		ASSERT_OK(alloc_timed(&k, &longest));
	ktap_note("the longest call took %.3f s", longest);
	/* amdgpu does not wait for the reset. */
	EXPECT(longest > 0.1 || !ktap_is_rkfd());
	EXPECT(longest < RESET_SECONDS);
	ASSERT(waitpid(child, NULL, 0) == child);
	expect_reset(resets);
}

/* A process may ring its doorbells while the GPU is reset: only those writes are lost. */
TEST_TIMEOUT(doorbells_during_reset, 180)
{
	int resets, rings = 0;
	struct fixture f;
	pid_t child;

	hangs_needed();
	resets = listen_for_resets();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	child = begin_reset(&f.k);
	for (double end = seconds_now() + 5; seconds_now() < end; rings++) {
		*f.q.doorbell = f.q.q->write_dispatch_id - 1;
		if (!rings)
			expect_no_reset_yet(resets);
		usleep(500);
	}
	ktap_note("%d rings", rings);
	ASSERT(waitpid(child, NULL, 0) == child);
	expect_reset(resets);
}

TEST_TIMEOUT(reset_recovers, 240)
{
	hangs_needed();
	for (int i = 0; i < 2; i++) {
		int resets = listen_for_resets();
		double start = seconds_now(), took;

		ASSERT_OK(ktap_in_child(hang_at_exit, NULL));
		expect_reset(resets);
		took = seconds_now() - start;
		ktap_note("the hang and the reset took %.1f s", took);
		EXPECT(took < HANG_SECONDS + RESET_SECONDS, "after %.1f s", took);
	}
}
