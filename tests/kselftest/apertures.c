// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests GET_PROCESS_APERTURES and GET_PROCESS_APERTURES_NEW. */
#include "fixture.h"

TEST(zero_nodes_returns_gpu_count)
{
	struct kfd_ioctl_get_process_apertures_new_args args = { 0 };
	uint32_t gpus = 0;
	struct kfd_node node;
	struct kfd k;

	fixture_open_only(&k);
	for (int i = 0; !kfd_topology_node(i, &node); i++)
		gpus += node.gpu_id != 0;
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	EXPECT_EQ(args.num_of_nodes, gpus);
}

TEST(new_fills_at_most_gpu_count)
{
	struct kfd_process_device_apertures found[3];
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = kfd_va(found), .num_of_nodes = 2
	};
	struct kfd k;

	fixture_open_only(&k);
	memset(found, 0xee, sizeof(found));
	/* num_of_nodes may count every node, CPU nodes included. */
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	EXPECT(args.num_of_nodes >= 1 && args.num_of_nodes <= 2);
	EXPECT_EQ(found[0].gpu_id, k.node.gpu_id);
	if (args.num_of_nodes == 1)
		EXPECT_EQ(found[1].gpu_id, 0xeeeeeeee);
}

TEST(num_of_nodes_above_node_count_is_einval)
{
	struct kfd_process_device_apertures found[1];
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = kfd_va(found), .num_of_nodes = 1000
	};
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args), -EINVAL);
	args.num_of_nodes = ~0u;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args), -EINVAL);
}

TEST(bad_array_is_efault)
{
	struct kfd_ioctl_get_process_apertures_new_args args = { .num_of_nodes = 1 };
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args), -EFAULT);
	args.num_of_nodes = 1;
	args.kfd_process_device_apertures_ptr = KERNEL_ADDRESS;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args), -EFAULT);
}

TEST(lds_scratch_gpuvm_ranges)
{
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_EQ(k.apertures.lds_base, 1ull << 48);
	EXPECT_EQ(k.apertures.lds_limit, (1ull << 48) + 0xffffffff);
	EXPECT_EQ(k.apertures.scratch_base, 2ull << 48);
	EXPECT_EQ(k.apertures.scratch_limit, (2ull << 48) + 0xffffffff);
	/* GPUVM must cover every address that a process can have. */
	EXPECT_EQ(k.apertures.gpuvm_limit, (1ull << 47) - 1);
	EXPECT(k.apertures.gpuvm_base > 0 && k.apertures.gpuvm_base <= 1ull << 32, "%#llx",
	       (unsigned long long)k.apertures.gpuvm_base);
}

TEST(old_and_new_ioctl_agree)
{
	struct kfd_ioctl_get_process_apertures_args args;
	struct kfd k;

	fixture_open_only(&k);
	memset(&args, 0xff, sizeof(args));
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_GET_PROCESS_APERTURES, &args));
	ASSERT(args.num_of_nodes >= 1 && args.num_of_nodes <= NUM_OF_SUPPORTED_GPUS, "%u",
	       args.num_of_nodes);
	for (uint32_t i = 0; i < args.num_of_nodes; i++) {
		struct kfd_process_device_apertures *a = &args.process_apertures[i];

		if (a->gpu_id != k.node.gpu_id)
			continue;
		EXPECT_EQ(a->lds_base, k.apertures.lds_base);
		EXPECT_EQ(a->lds_limit, k.apertures.lds_limit);
		EXPECT_EQ(a->scratch_base, k.apertures.scratch_base);
		EXPECT_EQ(a->scratch_limit, k.apertures.scratch_limit);
		EXPECT_EQ(a->gpuvm_base, k.apertures.gpuvm_base);
		EXPECT_EQ(a->gpuvm_limit, k.apertures.gpuvm_limit);
		return;
	}
	EXPECT(false, "no apertures for the GPU");
}
