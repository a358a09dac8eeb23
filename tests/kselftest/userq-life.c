// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user queues of the render node when their process is killed, or the device is suspended
 * or removed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "userq.h"

static void need_queues(void)
{
	int fd = cs_open_file();

	uq_need(fd, AMDGPU_HW_IP_COMPUTE);
	close(fd);
}

/* Its queue waits for memory for ever. */
TEST(killed_while_waiting)
{
	need_queues();
	for (int i = 0; i < 5; i++) {
		int ready[2];
		char byte = 0;
		pid_t pid;

		ASSERT(!pipe(ready));
		pid = fork_child();
		if (!pid) {
			struct drm_amdgpu_userq_signal signal = { 0 };
			uint32_t words[8];
			struct cs cs;
			struct uq q;

			uq_open(&q, &cs);
			signal.queue_id = q.id;
			uq_put(&q, words, pm4_wait(words, cs.data.va, 1));
			uq_ring(&q);
			/* The end of the file waits for a fence. */
			if (!i && kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_USERQ_SIGNAL, &signal))
				_exit(1);
			if (write(ready[1], &byte, 1) != 1)
				_exit(1);
			pause();
			_exit(1);
		}
		ASSERT(read(ready[0], &byte, 1) == 1);
		usleep(1000u * (unsigned int)i);
		kill(pid, SIGKILL);
		ASSERT(waitpid(pid, NULL, 0) == pid);
		close(ready[0]);
		close(ready[1]);
		ASSERT_OK(ktap_in_child(uq_lives, NULL));
	}
}

TEST_TIMEOUT(suspend, 180)
{
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	need_sleep();
	for (int i = 0; i < 2; i++) {
		EXPECT(uq_works(&q));
		ASSERT_OK(try_to_sleep("devices"));
		EXPECT(uq_works(&q));
	}
	EXPECT_OK(uq_free(&cs, q.id));
	ASSERT_OK(ktap_in_child(uq_lives, NULL));
}

/* A fence that is pending when the device is suspended is signaled after the resume. */
TEST_TIMEOUT(suspend_with_a_fence, 180)
{
	uint32_t sync;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	need_sleep();
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	ASSERT_OK(try_to_sleep("devices"));
	EXPECT_RET(uq_wait_ms(&cs, sync, 0), -ETIME);
	EXPECT_EQ(cs.data.words[UQ_DONE], 0);
	uq_open_gate(&cs, 1);
	ASSERT_OK(uq_wait_ms(&cs, sync, WAIT_MS));
	EXPECT_EQ(syncobj_status(cs.fd, sync), 1);
	EXPECT_EQ(cs.data.words[UQ_DONE], 1);
	EXPECT(uq_works(&q));
}

static void *reset_in_thread(void *unused)
{
	device_reset();
	return unused;
}

/*
 * A reset of the card ends pending fences with an error, and the queue with them. It can be freed
 * before the end of the reset.
 */
TEST_TIMEOUT(reset_with_a_fence, 180)
{
	pthread_t thread;
	uint32_t sync;
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	device_need_reset();
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	ASSERT(!pthread_create(&thread, NULL, reset_in_thread, NULL));
	/* Before lockup_timeout (4 s) ends it. */
	EXPECT_OK(uq_wait_ms(&cs, sync, 3500));
	EXPECT_OK(uq_free(&cs, q.id));
	pthread_join(thread, NULL);
	EXPECT_EQ(syncobj_status(cs.fd, sync), -ECANCELED);
	uq_open_gate(&cs, 1);
	usleep(50000);
	EXPECT_EQ(cs.data.words[UQ_DONE], 0);
	ASSERT_OK(ktap_in_child(uq_lives, NULL));
}

TEST_TIMEOUT(unbind, 180)
{
	struct cs cs;
	struct uq q;

	uq_open(&q, &cs);
	EXPECT(uq_works(&q));
	device_find();
	ASSERT_OK(device_unbind());
	EXPECT_RET(uq_start(&q), -ENODEV);
	EXPECT_RET(uq_free(&cs, q.id), -ENODEV);
	close(cs.fd);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(uq_lives, NULL));
}

/* An unbind ends pending fences with an error: nothing waits for a device that is not there. */
TEST_TIMEOUT(unbind_with_a_fence, 180)
{
	uint32_t sync;
	struct cs cs;
	struct uq q;
	int file;

	uq_open(&q, &cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sync));
	uq_submit(&q, 1);
	ASSERT_OK(uq_signal(&q, &sync, 1, NULL, NULL));
	file = syncobj_sync_file(cs.fd, sync);
	EXPECT_EQ(sync_file_status(file), 0);
	device_find();
	ASSERT_OK(device_unbind());
	EXPECT_EQ(sync_file_status(file), -ECANCELED);
	EXPECT_RET(uq_wait_ms(&cs, sync, 0), -ENODEV);
	close(cs.fd);
	ASSERT_OK(device_bind());
	ASSERT_OK(ktap_in_child(uq_lives, NULL));
}
