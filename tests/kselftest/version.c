// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests open(), GET_VERSION and the device node. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fixture.h"

TEST(device_node_and_class)
{
	struct stat s;

	ASSERT(stat("/dev/kfd", &s) == 0);
	EXPECT(S_ISCHR(s.st_mode));
	EXPECT_EQ(minor(s.st_rdev), 0);
	EXPECT(access("/sys/class/kfd/kfd", F_OK) == 0);
	EXPECT(access("/sys/devices/virtual/kfd/kfd/dev", F_OK) == 0);
	EXPECT(access(KFD_TOPOLOGY, F_OK) == 0);
}

TEST(version_is_1_23)
{
	struct kfd_ioctl_get_version_args args = { 0 };
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	ASSERT(fd >= 0, "%s", strerror(errno));
	ASSERT_OK(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, &args));
	EXPECT_EQ(args.major_version, 1);
	EXPECT_EQ(args.minor_version, 23);
	close(fd);
}

TEST(bad_pointer_is_efault)
{
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	ASSERT(fd >= 0);
	EXPECT_RET(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, NULL), -EFAULT);
	EXPECT_RET(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, (void *)8), -EFAULT);
	EXPECT_RET(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, (void *)KERNEL_ADDRESS), -EFAULT);
}

TEST(open_read_only_and_repeatedly)
{
	struct kfd_ioctl_get_version_args args;
	int fds[64];

	for (int i = 0; i < 64; i++) {
		fds[i] = open("/dev/kfd", (i & 1 ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		ASSERT(fds[i] >= 0, "open %d: %s", i, strerror(errno));
	}
	for (int i = 0; i < 64; i += 3)
		close(fds[i]);
	for (int i = 1; i < 64; i += 3)
		EXPECT_OK(kfd_ioctl(fds[i], AMDKFD_IOC_GET_VERSION, &args));
}

/* All files of a process share one process object: state acquired by one is usable by the other. */
TEST(files_of_a_process_share_state)
{
	struct kfd_ioctl_free_memory_of_gpu_args free_args = { 0 };
	struct kfd_bo *bo;
	struct kfd k;
	int other;

	fixture_open(&k);
	other = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	ASSERT(other >= 0);
	ASSERT_OK(kfd_bo_alloc(&k, 8192, KFD_FLAGS_GTT, &bo));
	free_args.handle = bo->handle;
	EXPECT_OK(kfd_ioctl(other, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free_args));
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free_args), -EINVAL);
	/* Closing one of them changes nothing. */
	close(k.fd);
	k.fd = other;
	EXPECT_OK(kfd_bo_create(&k, 8192, KFD_FLAGS_GTT, &bo));
}

TEST(reopen_after_last_close)
{
	struct kfd k;

	for (int i = 0; i < 8; i++) {
		fixture_open_only(&k);
		kfd_close(&k);
	}
}
