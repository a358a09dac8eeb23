// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests GET_CLOCK_COUNTERS. */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "fixture.h"

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct kfd_ioctl_get_clock_counters_args counters(struct kfd *k, uint32_t gpu_id)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = gpu_id };

	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args));
	return args;
}

TEST(cpu_clocks_match_clock_gettime)
{
	struct kfd_ioctl_get_clock_counters_args args;
	uint64_t raw, boot;
	struct kfd k;

	fixture_open_only(&k);
	raw = clock_ns(CLOCK_MONOTONIC_RAW);
	boot = clock_ns(CLOCK_BOOTTIME);
	args = counters(&k, k.node.gpu_id);
	EXPECT_EQ(args.system_clock_freq, 1000000000);
	EXPECT(args.cpu_clock_counter >= raw &&
	       args.cpu_clock_counter <= clock_ns(CLOCK_MONOTONIC_RAW));
	EXPECT(args.system_clock_counter >= boot &&
	       args.system_clock_counter <= clock_ns(CLOCK_BOOTTIME));
}

TEST(gpu_clock_is_monotonic)
{
	uint64_t last = 0, first = 0;
	struct kfd k;

	fixture_open_only(&k);
	for (int i = 0; i < 200; i++) {
		uint64_t now = counters(&k, k.node.gpu_id).gpu_clock_counter;

		ASSERT(now >= last, "%llu after %llu", (unsigned long long)now,
		       (unsigned long long)last);
		first = first ? first : now;
		last = now;
	}
	EXPECT(last > first);
}

TEST(gpu_clock_rate_matches_gpu_counter_freq)
{
	struct drm_amdgpu_info_device info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_DEV_INFO };
	struct kfd_ioctl_get_clock_counters_args a, b;
	double rate;
	struct kfd k;

	fixture_open_only(&k);
	ASSERT(ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request) == 0, "%s", strerror(errno));
	ASSERT(info.gpu_counter_freq > 0);
	a = counters(&k, k.node.gpu_id);
	usleep(400000);
	b = counters(&k, k.node.gpu_id);
	rate = (double)(b.gpu_clock_counter - a.gpu_clock_counter) * 1e6 /
	       (double)(b.system_clock_counter - a.system_clock_counter);
	EXPECT(rate > info.gpu_counter_freq * 0.7 && rate < info.gpu_counter_freq * 1.3,
	       "%.0f kHz, expected %u", rate, info.gpu_counter_freq);
}

TEST(unknown_gpu_reads_zero)
{
	struct kfd_ioctl_get_clock_counters_args args;
	struct kfd k;

	fixture_open_only(&k);
	args = counters(&k, NO_SUCH_GPU);
	EXPECT_EQ(args.gpu_clock_counter, 0);
	EXPECT(args.cpu_clock_counter != 0);
	EXPECT_EQ(counters(&k, 0).gpu_clock_counter, 0);
}
