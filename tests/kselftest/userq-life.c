// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user queues of the render node when their process is killed, or the device is suspended
 * or removed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "userq.h"

static void works_in_child(void *unused)
{
	struct cs cs;
	struct uq q;

	(void)unused;
	uq_open(&q, &cs);
	EXPECT(uq_works(&q));
}

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
		ASSERT_OK(ktap_in_child(works_in_child, NULL));
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
	ASSERT_OK(ktap_in_child(works_in_child, NULL));
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
	ASSERT_OK(ktap_in_child(works_in_child, NULL));
}
