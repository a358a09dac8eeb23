// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the fences of user queues of the render node: USERQ_SIGNAL attaches one to syncobjs and
 * buffers, USERQ_WAIT returns where a queue may wait for those of others.
 *
 * Expected results are those of the C driver (amdgpu/amdgpu_userq_fence.c).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "device.h"
#include "userq.h"

#define MAX_HANDLES 65536u

/* A dword of `cs->data`. */
enum { OTHER = 8 };

static int gem_busy(struct cs *cs, uint32_t handle, uint64_t timeout, uint32_t *busy)
{
	union drm_amdgpu_gem_wait_idle args = { .in = { .handle = handle, .timeout = timeout } };
	int ret = kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &args);

	*busy = args.out.status;
	return ret;
}

TEST(signal_syncobj)
{
	uint32_t sync[2];
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(syncobj_create(cs.fd, 0, &sync[i]));
	for (uint32_t i = 1; i <= 100; i++) {
		uq_submit(&q, i);
		ASSERT_OK(uq_signal(&q, sync, 2, NULL, NULL));
		if (i == 1 || i == 100)
			EXPECT_RET(uq_wait_ms(&cs, sync[0], 50), -ETIME);
		uq_open_gate(&cs, i);
		ASSERT_OK(uq_wait_ms(&cs, sync[0], WAIT_MS));
		ASSERT_EQ(cs.data.words[UQ_DONE], i);
		ASSERT_OK(uq_wait_ms(&cs, sync[1], 0));
	}
	EXPECT_OK(uq_free(&cs, q.id));
}

/* Its packets are executed before the ioctl: the fence is signaled. */
TEST(signal_late)
{
	struct cs cs;
	uint32_t sync;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_open_gate(&cs, 1);
	uq_submit(&q, 1);
	ASSERT(becomes(&q.rptr.words[0], (uint32_t)q.next, WAIT_MS));
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	EXPECT_OK(uq_wait_ms(&cs, sync, WAIT_MS));
}

/* Fences of one queue are signaled in order, by one packet if it comes last. */
TEST(signal_many)
{
	enum { FENCES = 10 };
	uint32_t sync[FENCES];
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	for (uint32_t i = 0; i < FENCES; i++) {
		ASSERT_OK(syncobj_create(cs.fd, 0, &sync[i]));
		uq_submit(&q, i + 1);
		ASSERT_OK(uq_signal(&q, &sync[i], 1, NULL, NULL));
	}
	uq_open_gate(&cs, 3);
	EXPECT_OK(uq_wait_ms(&cs, sync[2], WAIT_MS));
	EXPECT_RET(uq_wait_ms(&cs, sync[3], 50), -ETIME);
	uq_open_gate(&cs, FENCES);
	for (uint32_t i = FENCES; i-- > 0;)
		EXPECT_OK(uq_wait_ms(&cs, sync[i], WAIT_MS));
}

TEST(signal_buffers)
{
	struct cs_bo read, write;
	struct cs cs;
	uint32_t busy;
	struct uq q;

	uq_open(&q, &cs);
	uq_bo_new(&cs, &read, 4096, AMDGPU_GEM_DOMAIN_GTT);
	uq_bo_new(&cs, &write, 4096, AMDGPU_GEM_DOMAIN_VRAM);
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, NULL, 0, &read.handle, &write.handle));
	EXPECT_OK(gem_busy(&cs, read.handle, 0, &busy));
	EXPECT_EQ(busy, 1);
	EXPECT_OK(gem_busy(&cs, write.handle, cs_now() + 50 * UQ_MS, &busy));
	EXPECT_EQ(busy, 1);
	uq_open_gate(&cs, 1);
	EXPECT_OK(gem_busy(&cs, write.handle, FOREVER, &busy));
	EXPECT_EQ(busy, 0);
	EXPECT_EQ(cs.data.words[UQ_DONE], 1);
	EXPECT_OK(gem_busy(&cs, read.handle, FOREVER, &busy));
	EXPECT_EQ(busy, 0);
}

/* A job of a DMA engine waits for a user queue. */
TEST(job_waits_for_queue)
{
	struct drm_amdgpu_cs_chunk_sem sem = { 0 };
	struct drm_amdgpu_bo_list_entry bos[2];
	struct cs_job job;
	struct cs cs;
	struct uq q;
	uint64_t handle, none;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sem.handle));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sem.handle, 1, NULL, NULL));
	bos[0] = (struct drm_amdgpu_bo_list_entry){ cs.code.handle, 0 };
	bos[1] = (struct drm_amdgpu_bo_list_entry){ cs.data.handle, 0 };
	cs_job(&job, &cs, 0);
	cs_add_bos(&job, bos, 2);
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	cs_add_ib(&job, cs_write(&cs, uq_word(&cs, OTHER), 9));
	ASSERT_OK(cs_submit(&job, &handle));
	EXPECT_OK(cs_wait(&cs, 0, handle, 50 * UQ_MS, &none));
	EXPECT_EQ(none, 1);
	EXPECT_EQ(cs.data.words[OTHER], 0);
	uq_open_gate(&cs, 1);
	cs_done(&cs, 0, handle);
	EXPECT_EQ(cs.data.words[OTHER], 9);
	EXPECT_EQ(cs.data.words[UQ_DONE], 1);
}

static int wait_for(struct uq *q, uint32_t *syncobjs, uint32_t count, uint32_t *bo,
		    struct drm_amdgpu_userq_fence_info *out, uint32_t *room)
{
	struct drm_amdgpu_userq_wait args = {
		.waitq_id = q->id,
		.syncobj_handles = kfd_va(syncobjs),
		.num_syncobj_handles = (uint16_t)count,
		.bo_write_handles = kfd_va(bo),
		.num_bo_write_handles = !!bo,
		.num_fences = (uint16_t)*room,
		.out_fences = kfd_va(out),
	};
	int ret = kfd_ioctl(q->cs->fd, DRM_IOCTL_AMDGPU_USERQ_WAIT, &args);

	*room = args.num_fences;
	return ret;
}

/* Submits packets that wait at the address and for the value of `info`, and set OTHER to 7. */
static void submit_waiter(struct uq *q, const struct drm_amdgpu_userq_fence_info *info)
{
	uint32_t words[32], n;

	n = pm4_wait(words, info->va, (uint32_t)info->value);
	n += pm4_write_data(words + n, uq_word(q->cs, OTHER), 7);
	uq_put(q, words, n);
	uq_ring(q);
}

/* A queue waits for another one in the memory that USERQ_WAIT returns. */
TEST(queue_waits_for_queue)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t sync[2], room = 0;
	struct cs_bo bo;
	struct uq a, b;
	struct cs cs;

	uq_open_two(&a, &b, &cs);
	uq_bo_new(&cs, &bo, 4096, AMDGPU_GEM_DOMAIN_GTT);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(syncobj_create(cs.fd, 0, &sync[i]));
	uq_submit(&a, 1);
	ASSERT_OK(uq_signal(&a, &sync[0], 1, NULL, NULL));
	uq_submit(&a, 2);
	ASSERT_OK(uq_signal(&a, &sync[1], 1, NULL, &bo.handle));
	/* First how many, then where; the later one of a queue includes the earlier. */
	EXPECT_OK(wait_for(&b, sync, 2, &bo.handle, NULL, &room));
	EXPECT(room >= 3, "%u", room);
	room = 4;
	ASSERT_OK(wait_for(&b, sync, 2, &bo.handle, info, &room));
	ASSERT_EQ(room, 1);
	EXPECT_EQ(info[0].value, a.next);
	EXPECT(info[0].va != 0);
	submit_waiter(&b, &info[0]);
	uq_open_gate(&cs, 1);
	EXPECT(becomes(&cs.data.words[UQ_DONE], 1, WAIT_MS));
	usleep(50000);
	EXPECT_EQ(cs.data.words[OTHER], 0);
	uq_open_gate(&cs, 2);
	EXPECT(becomes(&cs.data.words[OTHER], 7, WAIT_MS));
	EXPECT_EQ(cs.data.words[UQ_DONE], 2);
	EXPECT_OK(uq_wait_ms(&cs, sync[1], WAIT_MS));
}

/* A queue may wait for its own fence, which is signaled by then. */
TEST(queue_waits_for_itself)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t sync, room = 4;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	ASSERT_OK(wait_for(&q, &sync, 1, NULL, info, &room));
	ASSERT_EQ(room, 1);
	submit_waiter(&q, &info[0]);
	uq_open_gate(&cs, 1);
	EXPECT(becomes(&cs.data.words[OTHER], 7, WAIT_MS));
	EXPECT_OK(uq_free(&cs, q.id));
}

/* The fence of a write pointer that goes back is signaled after those before it. */
TEST(write_pointer_goes_back)
{
	volatile uint64_t *wptr;
	uint32_t sync[2];
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	wptr = (volatile uint64_t *)q.wptr.words;
	for (int i = 0; i < 2; i++)
		ASSERT_OK(syncobj_create(cs.fd, 0, &sync[i]));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync[0], 1, NULL, NULL));
	*wptr = 1;
	ASSERT_OK(uq_signal(&q, &sync[1], 1, NULL, NULL));
	*wptr = q.next;
	EXPECT_RET(uq_wait_ms(&cs, sync[1], 50), -ETIME);
	EXPECT_RET(uq_wait_ms(&cs, sync[0], 0), -ETIME);
	uq_open_gate(&cs, 1);
	EXPECT_OK(uq_wait_ms(&cs, sync[0], WAIT_MS));
	EXPECT_OK(uq_wait_ms(&cs, sync[1], WAIT_MS));
}

static void *open_late(void *arg)
{
	usleep(200000);
	uq_open_gate(arg, 1);
	return NULL;
}

/* Fences other than those of user queues are awaited by the ioctl. */
TEST(wait_for_a_job)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t room = 4;
	pthread_t thread;
	uint64_t handle;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, uq_word(&cs, UQ_GATE), 1), &handle));
	ASSERT(!pthread_create(&thread, NULL, open_late, &cs));
	EXPECT_OK(wait_for(&q, NULL, 0, &cs.data.handle, info, &room));
	EXPECT_EQ(room, 0);
	EXPECT_EQ(cs.data.words[UQ_GATE], 1);
	pthread_join(thread, NULL);
}

/* FREE waits for the last fence. */
TEST(free_waits)
{
	pthread_t thread;
	uint32_t sync;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	ASSERT(!pthread_create(&thread, NULL, open_late, &cs));
	EXPECT_OK(uq_free(&cs, q.id));
	EXPECT_EQ(cs.data.words[UQ_GATE], 1);
	EXPECT_EQ(cs.data.words[UQ_DONE], 1);
	EXPECT_OK(uq_wait_ms(&cs, sync, 0));
	pthread_join(thread, NULL);
}

/*
 * Expects that the time for a fence has just ended that began at `start`: lockup_timeout, 4 s in
 * the boots of this program.
 */
static void expect_lockup(double start)
{
	double took = seconds_now() - start;

	ktap_note("the fence ended after %.1f s", took);
	EXPECT(took > 3.5 && took < 8 * ktap_time_factor(), "after %.1f s", took);
}

/*
 * A fence that is not signaled in time ends with an error, and ends the wait of another queue for
 * it. Its queue is unmapped, which counts as a reset; others are unaffected.
 */
TEST_TIMEOUT(hang, 180)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t sync, room = 4;
	struct uq stuck, waiter, next;
	int uevents = uevents_open();
	struct cs cs;
	double start;

	uq_open_two(&stuck, &waiter, &cs);
	cs_expect_resets(&cs, false);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&stuck, 1);
	start = seconds_now();
	ASSERT_OK(uq_signal(&stuck, &sync, 1, NULL, NULL));
	ASSERT_OK(wait_for(&waiter, &sync, 1, NULL, info, &room));
	ASSERT_EQ(room, 1);
	submit_waiter(&waiter, &info[0]);
	ASSERT_OK(uq_wait_ms(&cs, sync, 120000));
	expect_lockup(start);
	EXPECT_EQ(syncobj_status(cs.fd, sync), -ECANCELED);
	cs_expect_resets(&cs, true);
	cs_expect_resets(&cs, false);
	EXPECT(uevents_have(uevents, "WEDGED=none", WAIT_MS));
	close(uevents);
	EXPECT(becomes(&cs.data.words[OTHER], 7, WAIT_MS));
	EXPECT_EQ(cs.data.words[UQ_DONE], 0);
	uq_open_gate(&cs, 1);
	usleep(50000);
	EXPECT_EQ(cs.data.words[UQ_DONE], 0);
	EXPECT(uq_works(&waiter));
	EXPECT_OK(uq_free(&cs, stuck.id));
	uq_prepare(&next, &cs);
	ASSERT_OK(uq_start(&next));
	EXPECT(uq_works(&next));
}

/* Waits until the context has seen a reset. Returns false if there is none within `seconds`. */
static bool sees_reset(struct cs *cs, int seconds)
{
	double end = seconds_now() + seconds * ktap_time_factor();
	uint64_t flags = 0;
	uint32_t status;

	while (!(flags & AMDGPU_CTX_QUERY2_FLAGS_RESET) && seconds_now() < end) {
		usleep(100000);
		ASSERT_OK(cs_ctx_state(cs->fd, AMDGPU_CTX_OP_QUERY_STATE2, cs->ctx, &flags,
				       &status));
	}
	return flags & AMDGPU_CTX_QUERY2_FLAGS_RESET;
}

/* A queue that stops at an invalid packet is reset, also without a fence. Others are unaffected. */
TEST_TIMEOUT(invalid_packet, 180)
{
	/* Of type 3 with an opcode that does not exist, and one dword. */
	const uint32_t invalid[] = { 0xc000ff00, 0 };
	struct uq bad, other, next;
	uint32_t words[8], sync;
	struct cs cs;

	uq_open_two(&bad, &other, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_put(&bad, invalid, 2);
	uq_put(&bad, words, pm4_write_data(words, uq_word(&cs, UQ_DONE), 1));
	uq_ring(&bad);
	EXPECT(sees_reset(&cs, 30));
	/* amdgpu does not end fences that are emitted later. */
	if (ktap_is_rkfd()) {
		ASSERT_OK(uq_signal(&bad, &sync, 1, NULL, NULL));
		ASSERT_OK(uq_wait_ms(&cs, sync, 1000));
		EXPECT_EQ(syncobj_status(cs.fd, sync), -ECANCELED);
	}
	EXPECT_EQ(cs.data.words[UQ_DONE], 0);
	EXPECT(uq_works(&other));
	EXPECT_OK(uq_free(&cs, bad.id));
	uq_prepare(&next, &cs);
	ASSERT_OK(uq_start(&next));
	EXPECT(uq_works(&next));
	cs_expect_resets(&cs, true);
	cs_expect_resets(&cs, false);
}

/* Fences of a queue that was stopped end at once. */
TEST_TIMEOUT(signal_after_hang, 180)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t words[8], sync, room = 4;
	struct uq stuck, waiter;
	struct cs cs;
	double start;

	uq_open_two(&stuck, &waiter, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&stuck, 1);
	start = seconds_now();
	ASSERT_OK(uq_signal(&stuck, &sync, 1, NULL, NULL));
	ASSERT_OK(uq_wait_ms(&cs, sync, 120000));
	expect_lockup(start);
	uq_put(&stuck, words, pm4_write_data(words, uq_word(&cs, UQ_DONE), 1));
	uq_ring(&stuck);
	ASSERT_OK(uq_signal(&stuck, &sync, 1, NULL, NULL));
	EXPECT_OK(uq_wait_ms(&cs, sync, WAIT_MS));
	EXPECT_EQ(syncobj_status(cs.fd, sync), -ECANCELED);
	EXPECT_OK(wait_for(&waiter, &sync, 1, NULL, info, &room));
	EXPECT_EQ(room, 0);
	EXPECT(uq_works(&waiter));
}

TEST(bad_signals)
{
	struct drm_amdgpu_userq_signal args = { 0 };
	uint32_t sync, none = 0x1234;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	EXPECT_RET(uq_signal(&q, &none, 1, NULL, NULL), -ENOENT);
	EXPECT_RET(uq_signal(&q, (void *)4096, 1, NULL, NULL), -EFAULT);
	EXPECT_RET(uq_signal(&q, NULL, 0, &none, NULL), -ENOENT);
	EXPECT_RET(uq_signal(&q, NULL, 0, NULL, &none), -ENOENT);
	EXPECT_RET(uq_signal(&q, NULL, 0, NULL, (void *)4096), -EFAULT);
	args.queue_id = q.id;
	args.num_bo_read_handles = MAX_HANDLES + 1;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_USERQ_SIGNAL, &args), -EINVAL);
	q.id++;
	EXPECT_RET(uq_signal(&q, &sync, 1, NULL, NULL), -ENOENT);
	/* Without a fence. */
	EXPECT_RET(uq_wait_ms(&cs, sync, 0), -EINVAL);
	q.id--;
	EXPECT_OK(uq_signal(&q, NULL, 0, NULL, NULL));
}

TEST(bad_waits)
{
	struct drm_amdgpu_userq_fence_info info[4];
	uint32_t sync, none = 0x1234, room = 4;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	EXPECT_RET(wait_for(&q, &none, 1, NULL, info, &room), -ENOENT);
	EXPECT_RET(wait_for(&q, NULL, 0, &none, info, &room), -ENOENT);
	EXPECT_RET(wait_for(&q, (void *)4096, 1, NULL, info, &room), -EFAULT);
	EXPECT_EQ(room, 4);
	EXPECT_OK(wait_for(&q, NULL, 0, NULL, info, &room));
	EXPECT_EQ(room, 0);
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	room = 4;
	EXPECT_RET(wait_for(&q, &sync, 1, NULL, (void *)4096, &room), -EFAULT);
	q.id++;
	room = 4;
	EXPECT_RET(wait_for(&q, &sync, 1, NULL, info, &room), -EINVAL);
	uq_open_gate(&cs, 1);
	EXPECT_OK(uq_wait_ms(&cs, sync, WAIT_MS));
}
