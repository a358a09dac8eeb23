// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests user queues of the render node when their process is killed, their memory is evicted, or
 * the device is suspended or removed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "userq.h"

#define MIB (1ull << 20)
#define CHUNK (32 * MIB)

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
			uint32_t words[8];
			struct cs cs;
			struct uq q;

			uq_open(&q, &cs);
			uq_put(&q, words, pm4_wait(words, cs.data.va, 1));
			uq_ring(&q);
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

static uint64_t evictions(int fd)
{
	struct drm_amdgpu_info request = { .return_size = 8, .query = AMDGPU_INFO_NUM_EVICTIONS };
	uint64_t count = 0;

	request.return_pointer = kfd_va(&count);
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	return count;
}

/* Another file needs all VRAM: a buffer of the queue's address space is evicted. */
TEST_TIMEOUT(eviction, 300)
{
	struct cs_bo vram, fill;
	struct kfd k = { 0 };
	struct cs cs, other;
	uint64_t before;
	struct uq q;

	ASSERT_OK(kfd_topology_find_gpu(&k.node));
	uq_open(&q, &cs);
	k.drm = cs.fd;
	if (vram_bytes(&k) > 1024 * MIB)
		SKIP("more VRAM than needed");
	uq_bo_new(&cs, &vram, 4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	pattern((uint32_t *)vram.words, vram.size, 3);
	EXPECT(uq_works(&q));
	cs_open(&other);
	before = evictions(cs.fd);
	for (uint64_t used = 0; used < vram_bytes(&k); used += CHUNK) {
		uint32_t words[8];

		cs_bo_new(&other, &fill, CHUNK, AMDGPU_GEM_DOMAIN_VRAM);
		fill.words[0] = 1;
		uq_put(&q, words, pm4_write_data(words, vram.va + 4 * (used / CHUNK), 7));
		uq_ring(&q);
	}
	EXPECT(evictions(cs.fd) > before, "nothing was evicted");
	EXPECT(uq_works(&q));
	close(other.fd);
	EXPECT(uq_works(&q));
	EXPECT_EQ(vram.words[0], 7);
	EXPECT_EQ(vram.words[1000], pattern_word(1000, 3));
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
