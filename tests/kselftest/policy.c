// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests SET_MEMORY_POLICY, SET_TRAP_HANDLER, SET_SCRATCH_BACKING_VA, SET_XNACK_MODE,
 * RUNTIME_ENABLE, ACQUIRE_VM.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static int policy(struct kfd *k, uint32_t gpu_id, uint32_t standard, uint32_t alternate)
{
	struct kfd_ioctl_set_memory_policy_args args = {
		.alternate_aperture_base = 0x200000,
		.alternate_aperture_size = (1ull << 47) - 0x200000,
		.gpu_id = gpu_id,
		.default_policy = standard,
		.alternate_policy = alternate,
	};

	return kfd_ioctl(k->fd, AMDKFD_IOC_SET_MEMORY_POLICY, &args);
}

TEST(memory_policy)
{
	struct kfd k;

	fixture_open(&k);
	EXPECT_OK(policy(&k, k.node.gpu_id, KFD_IOC_CACHE_POLICY_NONCOHERENT,
			 KFD_IOC_CACHE_POLICY_COHERENT));
	EXPECT_OK(policy(&k, k.node.gpu_id, KFD_IOC_CACHE_POLICY_COHERENT,
			 KFD_IOC_CACHE_POLICY_NONCOHERENT));
	EXPECT_RET(policy(&k, k.node.gpu_id, 2, KFD_IOC_CACHE_POLICY_COHERENT), -EINVAL);
	EXPECT_RET(policy(&k, k.node.gpu_id, KFD_IOC_CACHE_POLICY_COHERENT, 2), -EINVAL);
	EXPECT_RET(policy(&k, NO_SUCH_GPU, KFD_IOC_CACHE_POLICY_COHERENT,
			  KFD_IOC_CACHE_POLICY_COHERENT),
		   -EINVAL);
}

TEST(memory_policy_without_vm_is_esrch)
{
	struct kfd k;

	fixture_open_only(&k);
	/* Order of checks: policy, GPU, VM of the process. */
	EXPECT_RET(policy(&k, NO_SUCH_GPU, 7, 0), -EINVAL);
	EXPECT_RET(policy(&k, k.node.gpu_id, KFD_IOC_CACHE_POLICY_COHERENT,
			  KFD_IOC_CACHE_POLICY_COHERENT),
		   -ESRCH);
}

TEST(trap_handler)
{
	struct kfd_ioctl_set_trap_handler_args args = { .tba_addr = 1ull << 32,
							.tma_addr = (1ull << 32) + 4096 };
	struct kfd k;

	fixture_open_only(&k);
	args.gpu_id = NO_SUCH_GPU;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_TRAP_HANDLER, &args), -EINVAL);
	args.gpu_id = k.node.gpu_id;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_TRAP_HANDLER, &args), -ESRCH);
	ASSERT_OK(kfd_acquire_vm(&k));
	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_SET_TRAP_HANDLER, &args));
	args.tba_addr = args.tma_addr = 0;
	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_SET_TRAP_HANDLER, &args));
}

TEST(scratch_backing)
{
	struct kfd_ioctl_set_scratch_backing_va_args args = { .va_addr = 0x100000 };
	struct kfd k;

	fixture_open_only(&k);
	args.gpu_id = NO_SUCH_GPU;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &args), -EINVAL);
	args.gpu_id = k.node.gpu_id;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &args), -ENODEV);
	ASSERT_OK(kfd_acquire_vm(&k));
	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &args));
}

static int xnack(struct kfd *k, int mode, int *now)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = mode };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_SET_XNACK_MODE, &args);

	*now = args.xnack_enabled;
	return ret;
}

TEST(xnack_mode)
{
	struct kfd_queue q;
	int before, now;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(xnack(&k, -1, &before));
	EXPECT(before == 0 || before == 1, "%d", before);
	EXPECT_OK(xnack(&k, before, &now));
	EXPECT_OK(xnack(&k, -77, &now));
	EXPECT_EQ(now, before);
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	EXPECT_RET(xnack(&k, 0, &now), -EBUSY);
	EXPECT_RET(xnack(&k, 1, &now), -EBUSY);
	EXPECT_OK(xnack(&k, -1, &now));
	EXPECT_OK(kfd_queue_destroy(&q));
	EXPECT_OK(xnack(&k, before, &now));
}

TEST(runtime_enable)
{
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	EXPECT_RET(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK), -EBUSY);
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK |
					     KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK));
	/* Queues work with the runtime enabled. */
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	EXPECT_OK(enable_runtime(&k, 0));
	EXPECT_RET(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK), -EEXIST);
	EXPECT_OK(kfd_queue_destroy(&q));
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
}

static int acquire(struct kfd *k, int drm, uint32_t gpu_id)
{
	struct kfd_ioctl_acquire_vm_args args = { .drm_fd = (uint32_t)drm, .gpu_id = gpu_id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_ACQUIRE_VM, &args);
}

TEST(acquire_vm)
{
	char path[64];
	int null, other;
	struct kfd k;

	fixture_open_only(&k);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", k.node.drm_render_minor);
	other = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(null >= 0 && other >= 0);
	EXPECT_RET(acquire(&k, 1000, k.node.gpu_id), -EINVAL);
	EXPECT_RET(acquire(&k, -1, k.node.gpu_id), -EINVAL);
	EXPECT_RET(acquire(&k, null, k.node.gpu_id), -EINVAL);
	EXPECT_RET(acquire(&k, k.fd, k.node.gpu_id), -EINVAL);
	EXPECT_RET(acquire(&k, k.drm, NO_SUCH_GPU), -EINVAL);
	EXPECT_OK(acquire(&k, k.drm, k.node.gpu_id));
	/* Acquiring the same file again succeeds, as the runtime does; another file is refused. */
	EXPECT_OK(acquire(&k, k.drm, k.node.gpu_id));
	EXPECT_OK(acquire(&k, dup(k.drm), k.node.gpu_id));
	EXPECT_RET(acquire(&k, other, k.node.gpu_id), -EBUSY);
	EXPECT_RET(acquire(&k, null, k.node.gpu_id), -EBUSY);
}

TEST(acquired_vm_outlives_the_fd)
{
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, 8192, KFD_FLAGS_GTT, &bo));
	close(k.drm);
	EXPECT_OK(kfd_bo_map_gpu(&k, bo));
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* A VM acquired by one process is refused to another. */
TEST(vm_belongs_to_one_process)
{
	struct kfd k, mine = { 0 };
	int status = 0;

	fixture_open(&k);
	fflush(stdout);
	mine.node = k.node;
	status = fork();
	ASSERT(status >= 0);
	if (!status) {
		ASSERT_OK(kfd_open_device(&mine));
		mine.node = k.node;
		/* The file that the parent acquired. */
		EXPECT_RET(acquire(&mine, k.drm, mine.node.gpu_id), -EINVAL);
		ktap_end();
	}
	ASSERT(waitpid(status, &status, 0) > 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
