// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests that a GPU that hangs is cut off from system memory as soon as a call reports the hang:
 * memory is freed from then on, though queues run. Needs a GPU that does not preempt queues (model
 * knob hws.no_preempt=1) or an MES that does not reply (mes.hang, by the control socket).
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "../workloads/sdma-queue.h"
#include "device.h"
#include "fixture.h"
#include "hanglib.h"

/* Submits the packet that stores `value` at `word`. */
static void store(struct sdma_queue *q, volatile uint32_t *word, uint32_t value)
{
	uint32_t packets[8] = { 0 }, *p = packets;

	sdma_fence(&p, kfd_va((void *)word), value);
	ASSERT_OK(sdma_queue_put(q, packets, p));
	sdma_queue_ring(q);
}

/* Whether the driver reports that the GPU hangs: before it checks arguments. */
static bool is_hung(struct kfd *k)
{
	union drm_amdgpu_cs args = { 0 };

	return kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_CS, &args) == -EBUSY;
}

/* Preemptions end after 9 s, frames after 2 s. The SDMA engines are not halted until the reset. */
TEST_TIMEOUT(no_dma_after_the_hang, 120)
{
	int log = kmsg_open();
	volatile uint32_t *word;
	char line[64];
	struct sdma_queue q;
	struct kfd_bo *bo;
	struct kfd k;
	pid_t child;
	double end;

	hangs_needed();
	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &bo));
	word = bo->va;
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 4096));
	store(&q, word, 1);
	ASSERT(becomes(word, 1, WAIT_MS));
	child = fork_child();
	if (child == 0) {
		hang_gpu(NULL);
		ktap_end();
	}
	end = seconds_now() + WAIT_MS / 1000;
	while (!is_hung(&k))
		ASSERT(seconds_now() < end);
	store(&q, word, 2);
	EXPECT(!becomes(word, 2, 50), "the engine writes");
	waitpid(child, NULL, 0);
	EXPECT_OK(ktap_in_child(fixture_wait_for_reset, NULL));
	/* Nor later: system memory survives the reset. */
	EXPECT_EQ(*word, 1);
	snprintf(line, sizeof(line), "the queues of process %d (PASID ", getpid());
	EXPECT_EQ(kmsg_lines_with(log, line), 1);
}
