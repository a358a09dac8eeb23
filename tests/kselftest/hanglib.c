// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Hangs the scheduler of queues, see hanglib.h. */
#define _GNU_SOURCE
#include "fixture.h"
#include "hanglib.h"
#include "knobs.h"

bool hangs_once(void)
{
	return gpu_is_gfx12() && !ktap_is_rkfd();
}

void hangs_needed(void)
{
	if (hangs_once())
		SKIP("MES hangs once");
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

void hang_at_exit(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	hang_next();
}
