// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Hangs the scheduler of queues, see hanglib.h. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "hanglib.h"
#include "knobs.h"
#include "listen.h"

bool hangs_once(void)
{
	return gpu_is_gfx12() && !getenv("MODEL_CONTROL");
}

void hangs_needed(void)
{
	if (gpu_is_gfx12())
		knobs_open();
}

void hang_next(void)
{
	if (!gpu_is_gfx12() || hangs_once())
		return;
	knobs_open();
	knob_set("mes.hang", 1);
}

void hang_gpu(void *unused)
{
	struct kfd_queue first, second;
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	hang_next();
	/* The first one hangs the GPU if another queue is mapped: none is left to the exit then. */
	if (!kfd_queue_create(&k, &first, 64))
		kfd_queue_create(&k, &second, 64);
}

pid_t begin_reset(struct kfd *k)
{
	struct pollfd begin = {
		.fd = listen_to(k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_PRE_RESET)),
		.events = POLLIN,
	};
	pid_t child = fork_child();

	if (!child) {
		hang_gpu(NULL);
		_exit(0);
	}
	ASSERT(poll(&begin, 1, (int)WAIT_MS) == 1, "no reset");
	close(begin.fd);
	return child;
}

void expect_no_reset_yet(int resets)
{
	struct pollfd end = { .fd = resets, .events = POLLIN };

	EXPECT(poll(&end, 1, 0) == 0, "a reset has ended");
}

void hang_at_exit(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	hang_next();
}
