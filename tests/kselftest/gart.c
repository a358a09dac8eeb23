// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the GART after invalidations of the TLBs without an ACK: its pages are not in use again
 * before an invalidation that succeeds, and are then. Sets knobs of the GPU model.
 */
#include <unistd.h>

#include "cs.h"
#include "knobs.h"

/* Submits a job with a fence in a buffer, whose page is in the GART until it has ended. */
static int submit(struct cs *cs, const struct cs_bo *fences)
{
	struct drm_amdgpu_bo_list_entry bos[] = { { cs->code.handle, 0 }, { cs->data.handle, 0 } };
	struct drm_amdgpu_cs_chunk_fence fence = { .handle = fences->handle };
	struct cs_job job;
	uint64_t handle;
	int ret;

	cs_job(&job, cs, 0);
	cs_add(&job, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	cs_add_bos(&job, bos, 2);
	cs_add_ib(&job, cs_write(cs, cs->data.va, 1));
	ret = cs_submit(&job, &handle);
	if (!ret)
		cs_done(cs, 0, handle);
	return ret;
}

/* Waits until at most `most` pages are in use; returns their number. A work item frees them. */
static long pages_after(long most)
{
	long pages = gart_pages();

	for (int ms = 0; ms < 5000 && pages > most; ms += 10) {
		usleep(10000);
		pages = gart_pages();
	}
	return pages;
}

TEST_TIMEOUT(pages_after_a_lost_ack, 60)
{
	struct cs_bo fences;
	unsigned int hits;
	long before, pages;
	struct cs cs;

	knobs_open();
	cs_open(&cs);
	cs_bo_new(&cs, &fences, 4096, AMDGPU_GEM_DOMAIN_GTT);
	ASSERT_OK(submit(&cs, &fences));
	/* Less than with the page of the job. */
	before = pages_after(0);
	hits = knob_hits("gmc.lose_ack");
	/* Those of the map and of the unmap. */
	knob_set("gmc.lose_ack", 2);
	EXPECT_RET(submit(&cs, &fences), -ETIMEDOUT);
	EXPECT_EQ(knob_hits("gmc.lose_ack") - hits, 2);
	EXPECT_EQ(gart_pages(), before + 1);
	ASSERT_OK(submit(&cs, &fences));
	pages = pages_after(before);
	EXPECT(pages <= before, "%ld pages before, %ld after", before, pages);
}
